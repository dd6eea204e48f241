"""`panprivacy serve` and `panprivacy token`: the counting service, and who may use it."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from panprivacy.cli.deltas import UNUSED
from panprivacy.cli.plainly import plain_errors
from panprivacy.errors import PanPrivacyError
from panprivacy.hardening import start_hardened
from panprivacy.noisy import as_keys, expected_noise
from panprivacy.sizes import counted

if TYPE_CHECKING:
    from panprivacy.serve.config import Settings


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
            from panprivacy.serve import compiled, config, demo, logs, server
        except ImportError as error:
            raise PanPrivacyError(f"this needs {error.name}: pip install 'panprivacy[serve]'") from None
        try:
            described = demo.demonstrated if file is None else lambda: nullcontext(config.read_settings(file))
            with compiled.told(_note if check or file is None else logs.log), described() as settings:
                if check:
                    server.check_all(settings)
                    _note_noise(settings)
                    typer.echo(f"{file}: {counted(len(settings.counters), 'counter')}, and nothing wrong")
                else:
                    server.run(settings.at_port(port), hardening, _show_demo if file is None else typer.echo)
        except config.BadConfig as error:
            for problem in error.problems:
                _note(problem)
            raise typer.Exit(2) from None


def _note(text: str) -> None:
    typer.echo(f"panprivacy: {text}", err=True)


def _note_noise(settings: "Settings") -> None:
    """Say which counters will have releases that are mostly noise, or no delta: an epsilon cannot be changed later."""
    for counter in settings.counters:
        est = counter.make()
        if counter.plan.get("delta") and not est.delta:
            _note(f"counters.{counter.name}: {UNUSED}")
        noise = expected_noise(est)
        if noise is not None:
            _note(f"counters.{counter.name}: {as_keys(noise)}")


def _show_demo(address: str) -> None:
    typer.echo(f"{address}   (Ctrl-C ends it)")


def token() -> None:
    """Make a token for a user of the service, and the line that the file of the service needs for it.

    Example: [bold]panprivacy token[/bold]

    The token is shown once, on standard output; the service keeps a hash of it.
    """
    from panprivacy.serve.tokens import new_token, written_hash

    made = new_token()
    typer.echo(made)
    typer.echo(f'hash = "{written_hash(made)}"', err=True)
