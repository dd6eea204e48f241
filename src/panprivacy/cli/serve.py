"""`panprivacy serve` and `panprivacy token`: the counting service, and who may use it."""

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from panprivacy.cli.plainly import plain_errors
from panprivacy.errors import PanPrivacyError
from panprivacy.hardening import start_hardened
from panprivacy.sizes import counted


def serve(
    file: Annotated[Path | None, typer.Argument(metavar="FILE.toml", hidden=True)] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check the file, and the counters that it has already; start nothing.")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(metavar="N", help="Listen on this port, whatever the file says; 0 for any that is free."),
    ] = None,
) -> None:
    """Serve counters over HTTP, with a page that shows what they have published.

    Example: [bold]panprivacy serve counters.toml[/bold]

    FILE.toml describes the counters, who may use them, and how (docs/serve.md). Without it a demonstration is served on
    127.0.0.1: a counter named demo, with events that are made up.
    """
    hardening = None if check else start_hardened()
    with plain_errors():
        try:
            from panprivacy.serve import config, demo, server
        except ImportError as error:
            raise PanPrivacyError(f"this needs {error.name}: pip install 'panprivacy[serve]'") from None
        try:
            with demo.demonstrated() if file is None else nullcontext(config.read_settings(file)) as settings:
                if check:
                    server.check_all(settings)
                    typer.echo(f"{file}: {counted(len(settings.counters), 'counter')}, and nothing wrong")
                else:
                    server.run(settings.at_port(port), hardening, typer.echo)
        except config.BadConfig as error:
            for problem in error.problems:
                typer.echo(f"panprivacy: {problem}", err=True)
            raise typer.Exit(2) from None


def token() -> None:
    """Make a token for a user of the service, and the line that the file of the service needs for it.

    Example: [bold]panprivacy token[/bold]

    The token is shown once, on standard output; the service keeps a hash of it.
    """
    from panprivacy.serve.tokens import new_token, written_hash

    made = new_token()
    typer.echo(made)
    typer.echo(f'hash = "{written_hash(made)}"', err=True)
