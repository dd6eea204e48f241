"""Options that several commands share, in the groups that `--help` shows."""

from typing import Annotated, TypeAlias

import typer

from panprivacy.events.sources import Format

EVENTS = "Events: CSV, TSV, NDJSON (.gz, .zst), Parquet, Arrow; - is standard input"  # what 80 columns show
BUDGET = "Users and budget"

# The argument is described where the example is: a panel of its own would push the options off the screen.
Files: TypeAlias = Annotated[list[str], typer.Argument(metavar="FILE", hidden=True)]
Column: TypeAlias = Annotated[
    str | None, typer.Option("--column", "-c", metavar="NAME", help="Column of ids.", rich_help_panel=EVENTS)
]
SkipMissing: TypeAlias = Annotated[
    bool, typer.Option("--skip-missing", help="Leave out rows whose id is missing.", rich_help_panel=EVENTS)
]
FileFormat: TypeAlias = Annotated[
    Format | None,
    typer.Option(
        "--format",
        "-f",
        metavar="KIND",
        help="csv, tsv, ndjson, parquet or arrow, if file names do not tell.",
        rich_help_panel=EVENTS,
    ),
]
Separator: TypeAlias = Annotated[str, typer.Option(metavar="CHAR", help="Separator of CSV.", rich_help_panel=EVENTS)]
NoHeader: TypeAlias = Annotated[
    bool, typer.Option("--no-header", help="CSV has no header: call its columns 1, 2, 3...", rich_help_panel=EVENTS)
]
Missing: TypeAlias = Annotated[
    str, typer.Option(metavar="TEXT", help="What CSV writes for a missing id, such as NA.", rich_help_panel=EVENTS)
]
Epsilon: TypeAlias = Annotated[
    float | None,
    typer.Option("--epsilon", "-e", help="Total privacy budget of the estimator's life.", rich_help_panel=BUDGET),
]
Releases: TypeAlias = Annotated[
    int | None, typer.Option(help="Plan for so many releases. Default: 1.", rich_help_panel=BUDGET)
]
Intrusions: TypeAlias = Annotated[
    int | None,
    typer.Option(help="Plan for so many announced readings. Default: 0.", rich_help_panel=BUDGET),
]
State: TypeAlias = Annotated[
    str | None,
    typer.Option("--state", "-s", metavar="FILE.pp", help="State file to continue from, and to save to."),
]
MakeRelease: TypeAlias = Annotated[
    bool | None,
    typer.Option("--release/--no-release", help="Release at the end (no for files with --state)."),
]
ReleaseEvery: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="7d", help="Release so often: 12h, 7d, 2w, 1mo (30 days)."),
]
Level: TypeAlias = Annotated[float, typer.Option(help="Confidence level of the interval.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Each release as one line of JSON.")]
Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes: only releases.")]
