"""The `panprivacy` command."""

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from panprivacy import __version__, hardening
from panprivacy.cli.actives import actives
from panprivacy.cli.audit import audit
from panprivacy.cli.bench import bench
from panprivacy.cli.consume import OfMessages, consume
from panprivacy.cli.counts import counts
from panprivacy.cli.demo import demo
from panprivacy.cli.density import density
from panprivacy.cli.distinct import distinct
from panprivacy.cli.grow import grow
from panprivacy.cli.plan import plan
from panprivacy.cli.reproduce import reproduce
from panprivacy.cli.retention import retention
from panprivacy.cli.serve import serve, token
from panprivacy.cli.states import merge, release, rerandomize, show

app = typer.Typer(
    help="Count how many users showed up in a stream of events, while the memory never holds who they were.\n\n"
    "Example: [bold]panprivacy distinct visits.csv --column patient --epsilon 1[/bold]",
    no_args_is_help=True,
    rich_markup_mode="rich",
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"panprivacy {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[  # noqa: ARG001 (its callback does it)
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ± shows ? instead


for command in (
    density,
    distinct,
    actives,
    retention,
    counts,
    show,
    release,
    merge,
    rerandomize,
    grow,
    consume,
    serve,
    token,
    plan,
    audit,
    reproduce,
    bench,
    demo,
):
    app.command(cls=OfMessages if command is consume else None)(command)


def main() -> None:
    """The program itself, which may start itself anew; other programs call `app`."""
    hardening.started_as_program()
    app()
