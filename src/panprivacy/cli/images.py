"""`panprivacy audit --memory`: what is left in the memory and the files of processes that run the shipping code."""

import json
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from panprivacy.cli.plainly import Speaker
from panprivacy.sizes import format_bytes

if TYPE_CHECKING:
    from panprivacy.audit.imaging import Imaged, Scenario

_COLUMNS = ("scenario", "users", "mode", "image", "users named", "ids found", "verdict")
_FEWEST = 10_000  # with fewer, a few ids in a row might stand there by chance


def audit_memory(beginning: str, sizes: list[int], *, as_json: bool, markdown: bool) -> bool:
    """Image every scenario whose name begins so, at every size, and print what was found; whether all are clean."""
    from rich.progress import track

    from panprivacy.audit.imaging import image

    if min(sizes) < _FEWEST:
        raise ValueError(f"images are searched from {_FEWEST:,} users on, got {min(sizes):,}")
    console = Console(stderr=True)
    runs = [(scenario, users) for users in sizes for scenario in _chosen(beginning)]
    shown = track(runs, "imaging", console=console, transient=True, disable=not console.is_terminal)
    if markdown:
        _echo(_COLUMNS)
        _echo(tuple("---" for _ in _COLUMNS))
    results = []
    for scenario, users in shown:
        results.append(image(scenario, users))
        if markdown:  # at once: all of them take an hour, and the first may be known to leak long before
            _echo(_row(results[-1]))
    if as_json:
        typer.echo(json.dumps([result.as_dict() for result in results], indent=2))
    elif not markdown:
        table = Table(*_COLUMNS, row_styles=["", "dim"])
        for result in results:
            table.add_row(*_row(result), style=None if result.clean else "bold red")
        Console().print(table)
    return all(result.clean for result in results)


def _chosen(beginning: str) -> "list[Scenario]":
    from panprivacy.audit.imaging import SCENARIOS

    chosen = [scenario for scenario in SCENARIOS if scenario.name.lower().startswith(beginning.lower())]
    if not chosen:
        names = "; ".join(scenario.name for scenario in SCENARIOS)
        raise ValueError(f"there is no scenario {beginning!r} to image; there are: {names}")
    for scenario in chosen:
        if scenario.missing is not None:
            Speaker(as_json=False, quiet=False).note(f"{scenario.name}: left out, since {scenario.missing}")
    return [scenario for scenario in chosen if scenario.possible]


def _echo(row: tuple[str, ...]) -> None:
    typer.echo(f"| {' | '.join(row)} |")


def _row(result: "Imaged") -> tuple[str, ...]:
    return (
        result.scenario,
        f"{result.users:,}",
        "hardened" if result.hardened else "plain",
        format_bytes(result.image_bytes),
        f"{result.users_named:,} of {result.came:,}",
        f"{result.ids_found:,}",
        _verdict(result),
    )


def _verdict(result: "Imaged") -> str:
    if result.clean:
        return "nothing found"
    others = (
        (result.words_found, "words"),
        (result.counts_found, "counts"),
        (result.releases_found, "exact counts of releases"),
        (result.keys_found, "keys"),
        (result.differences, "batches told by files"),
    )
    more = "".join(f", {number:,} {what}" for number, what in others if number)
    unseen = "" if result.bits_seen else ", bits not located"
    return f"LEAKS{more}{unseen}"
