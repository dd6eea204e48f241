"""`panprivacy serve` and `panprivacy token`: the counting service, and who may use it."""

import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from panprivacy.cli.options import option
from panprivacy.cli.output import Output
from panprivacy.display import counted
from panprivacy.errors import PanPrivacyError
from panprivacy.memory.hardening import Hardening, start_hardened

if TYPE_CHECKING:
    from panprivacy.serve.config import Settings


def serve(
    file: Annotated[Path | None, Parameter(metavar="FILE.toml", show=False)] = None,
    /,
    *,
    check: Annotated[bool, option("Check the file, its existing counters and their sources; start nothing.")] = False,
    initialize: Annotated[
        bool,
        option(
            "Start with an empty folder, or without states or releases that are lost: for one start. A lost state "
            "starts again with the whole budget; a lost list of releases is continued."
        ),
    ] = False,
    accept_clock: Annotated[
        bool, option("Believe the clock, although the service was stopped for longer than service.longest_stop.")
    ] = False,
    port: Annotated[int | None, option("Listen on this port instead of the file's; 0 for any free port.", "N")] = None,
) -> None:
    """Serve counters over HTTP, with a page that shows their releases.

    Example: [bold]panprivacy serve counters.toml --initialize[/bold]

    Say --initialize the first time only.

    FILE.toml describes the counters, who may use them, and how (docs/reference/service.md). Without it, a demonstration
    is served on 127.0.0.1: a counter named demo, with simulated events.
    """
    hardening = start_hardened()  # also to check: it looks at the last message of a source
    from panprivacy.serve.logs import compiling_told, log

    with compiling_told(Output().note if check or file is None else log):
        _serve(file, port, hardening, check=check, initialize=initialize, accept_clock=accept_clock)


def _serve(
    file: Path | None,
    port: int | None,
    hardening: Hardening | None,
    *,
    check: bool,
    initialize: bool,
    accept_clock: bool,
) -> None:
    try:
        from panprivacy.serve import config, demo, server
        from panprivacy.settings import InvalidSettings
    except ImportError as error:
        raise PanPrivacyError(
            f"this needs {error.name}: pip install 'panprivacy[serve]'", code="missing-extra"
        ) from None
    try:
        with demo.demonstrated() if file is None else nullcontext(config.read_settings(file)) as settings:
            is_known = initialize or file is None
            asked = replace(settings.at_port(port), initialize=is_known, accept_clock=accept_clock)
            if check:
                server.check_all(asked)
                _note_noise(settings)
                print(f"{file}: {counted(len(settings.counters), 'counter')}, and nothing wrong")
            else:
                reread = None if file is None else lambda: config.read_settings(file).at_port(port)
                hint = "   (Ctrl-C ends it)" if file is None else ""
                server.run(asked, hardening, lambda address: print(f"{address}{hint}", flush=True), reread)
    except InvalidSettings as error:
        for problem in error.problems:
            Output().note(problem)
        raise SystemExit(2) from None


def _note_noise(settings: "Settings") -> None:
    """Say which counters will have releases that are mostly noise, or no delta: an epsilon cannot be changed later."""
    from panprivacy.cli.notes import UNUSED, expected_noise

    output = Output()
    for counter in settings.counters:
        est = counter.make()
        if counter.plan.get("delta") and not est.delta:
            output.note(f"counters.{counter.name}: {UNUSED}")
        noise = expected_noise(est)
        if noise is not None:
            output.note(f"counters.{counter.name}: {noise}")


def token() -> None:
    """Make a token for a user of the service, and the line that the file of the service needs for it.

    Example: [bold]panprivacy token[/bold]

    The token is shown once, on standard output; the service keeps a hash of it.
    """
    from panprivacy.serve.tokens import new_token, written_hash

    made = new_token()
    print(made)
    print(f'hash = "{written_hash(made)}"', file=sys.stderr)
