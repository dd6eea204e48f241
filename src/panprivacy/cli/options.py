"""Options that several commands share, in the groups that `--help` shows."""

from typing import Annotated, TypeAlias

import typer

from panprivacy.cli.numbers import whole_number
from panprivacy.cli.rows import CountSkipOrRefuse, SkipOrRefuse
from panprivacy.events.sources import Format
from panprivacy.threads import MOST_THREADS

EVENTS = "Events: CSV, TSV, NDJSON (.gz, .zst), Parquet, Arrow; - is standard input"  # what 80 columns show
BUDGET = "Users, privacy and size"

# The argument is described where the example is: a panel of its own would push the options off the screen.
Files: TypeAlias = Annotated[list[str], typer.Argument(metavar="FILE", hidden=True)]
Column: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--column", "-c", metavar="NAME", help="Column that holds the ids of the users.", rich_help_panel=EVENTS
    ),
]
Action: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Column that says of each row whether it inserts or deletes the user.",
        rich_help_panel=EVENTS,
    ),
]
SkipMissing: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--skip-missing", help="Leave out rows that have no id; they are not counted anywhere.", rich_help_panel=EVENTS
    ),
]
SkipOutside: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--skip-outside",
        help="Leave out rows whose user is not in the universe; they are not counted anywhere.",
        rich_help_panel=EVENTS,
    ),
]
Unlisted: TypeAlias = Annotated[
    SkipOrRefuse | None,
    typer.Option(
        "--unlisted",
        metavar="POLICY",
        help="Rows in no listed category: refuse or skip.",
        rich_help_panel=EVENTS,
    ),
]
Late: TypeAlias = Annotated[
    CountSkipOrRefuse | None,
    typer.Option(
        "--late",
        metavar="POLICY",
        help="Rows of an ended period: refuse, skip, count.",
    ),
]
Early: TypeAlias = Annotated[
    SkipOrRefuse | None,
    typer.Option(
        "--early",
        metavar="POLICY",
        help="Rows beyond --ahead: refuse or skip.",
    ),
]
Ahead: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--ahead",
        metavar="N",
        help="Periods that one row may end; 0: none.",
    ),
]
FileFormat: TypeAlias = Annotated[
    Format | None,
    typer.Option(
        "--format",
        "-f",
        metavar="KIND",
        help="What the files are, if their names do not tell: csv, tsv, ndjson, parquet or arrow.",
        rich_help_panel=EVENTS,
    ),
]
Separator: TypeAlias = Annotated[
    str, typer.Option(metavar="CHAR", help="Character between the columns of a CSV file.", rich_help_panel=EVENTS)
]
NoHeader: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--no-header", help="The CSV files have no header; their columns are called 1, 2, 3...", rich_help_panel=EVENTS
    ),
]
Missing: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help="How CSV files write a missing id, such as NA; repeatable.",
        rich_help_panel=EVENTS,
    ),
]
By: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="NAME",
        help="Column of the category of each event: an answer for each one.",
        rich_help_panel=EVENTS,
    ),
]
CategoryList: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--categories",
        metavar="A,B,C|FILE",
        help="The categories there are, or a file that lists them.",
        rich_help_panel=EVENTS,
    ),
]
Other: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--other",
        help="Gather events of all other categories; else they are an error.",
        rich_help_panel=EVENTS,
    ),
]
Universe: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--universe",
        "-n",
        metavar="N",
        parser=whole_number,
        help="The universe is N users, whose ids are the numbers 0 to N-1.",
        rich_help_panel=BUDGET,
    ),
]
UniverseFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="FILE[:COLUMN]",
        help="The universe is the users listed in this file, whose ids may be numbers or text.",
        rich_help_panel=BUDGET,
    ),
]
Group: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Column of that file: the group of each user, each answered.",
        rich_help_panel=BUDGET,
    ),
]
Epsilon: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--epsilon",
        "-e",
        help="Privacy budget for all that is ever seen of this state; 1 is usual, less is safer.",
        rich_help_panel=BUDGET,
    ),
]
Releases: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="How many answers will be released in all; the budget is shared among them. Default: 1.",
        rich_help_panel=BUDGET,
    ),
]
Intrusions: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="How many times somebody else will read the state and you will know of it. Default: 0.",
        rich_help_panel=BUDGET,
    ),
]
Delta: TypeAlias = Annotated[
    float | None,
    typer.Option(
        metavar="P",
        help="Failure probability (e.g. 1e-9) allowed for Gaussian noise: helps from about 20 releases on.",
        rich_help_panel=BUDGET,
    ),
]
State: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--state", "-s", metavar="FILE.pp", help="File that keeps the state: continued if it is there, made if not."
    ),
]
Shards: TypeAlias = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="With --state DIR/: shards of a new folder, which commands feed together. Default: 64.",
    ),
]
Batch: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME:NUMBER",
        help="With --state DIR/: which batch the files are; run again with the same, they count once.",
    ),
]
MakeRelease: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--release/--no-release",
        help="Release an answer at the end of events, or not. Default: yes, but with --state no for files and --time.",
    ),
]
MakeReleaseUntimed: TypeAlias = Annotated[
    bool | None,
    typer.Option(
        "--release/--no-release",
        help="Release an answer at the end of events, or not. Default: yes, but with --state no for files.",
    ),
]
ReleaseEvery: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="7d", help="Release an answer after every such period: 12h, 7d, 2w, 1mo; --releases says how many."
    ),
]
Time: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="NAME[@START]",
        help="Column of times by which --release-every goes; START is when the first period starts.",
    ),
]
Plot: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Draw a series of releases, or groups, as a picture: .png, .svg or .pdf."),
]
Level: TypeAlias = Annotated[float, typer.Option(help="Confidence level of the interval around an answer.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print each release as one line of JSON.")]
Threads: TypeAlias = Annotated[
    int | None,
    typer.Option(metavar="N", help="How many threads; all cores if left out.", min=1, max=MOST_THREADS),
]
Quiet: TypeAlias = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print releases and errors only: no progress bar, no notes.")
]
