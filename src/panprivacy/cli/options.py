"""Options about events, states, releases and output, as dataclasses: `--help` of a command lists their fields.

Heavy modules are imported in the methods that need them, so that help comes at once.
"""

import os
import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import Group, Parameter, Token

from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.ingest.batch import Columns, Kind
from panprivacy.ingest.files import STDIN, Format

if TYPE_CHECKING:
    from panprivacy.cli.kept import Kept
    from panprivacy.cli.output import Output
    from panprivacy.cli.sources import Files, Pipe
    from panprivacy.cli.users import UniverseOptions
    from panprivacy.ingest import Layout
    from panprivacy.periods import RowPolicy

OPTIONS = Group("Options", sort_key=0)
EVENTS = Parameter(  # 80 columns show this title
    name="*", group=Group("Events: CSV, TSV, NDJSON (.gz, .zst), Parquet, Arrow; - is standard input", sort_key=1)
)
MESSAGES = Parameter(name="*", group=Group("Messages: JSON objects, bare ids, or Arrow streams", sort_key=1))
USERS = Parameter(name="*", group=Group("Users, privacy and size", sort_key=2))
OTHERS = Parameter(name="*", group=OPTIONS)
"""The panels of `--help`: a command says in which one the fields of a dataclass are listed."""

SkipOrRefuse: TypeAlias = Literal["skip", "refuse"]
CountSkipOrRefuse: TypeAlias = Literal["count", "skip", "refuse"]

DASH = "\0-"
"""Stands for the argument `-` while options are parsed: cyclopts takes a bare dash for an option without a name."""


def _with_dashes(type_: Any, tokens: Sequence[Token]) -> Any:
    """Text options and arguments as they were typed."""
    typed = [STDIN if token.value == DASH else token.value for token in tokens]
    return typed if type_ is not str else typed[-1]


def _whole(_type: Any, tokens: Sequence[Token]) -> int:
    return whole_number(tokens[-1].value)


def whole_number(text: str) -> int:
    """The number that an option says; of one that is written in another way, how to write it.

    >>> whole_number("100000")
    100000
    """
    try:
        return int(text)
    except ValueError:
        meant = _meant(text)
        hint = "" if meant is None else f"; write {meant}"
        raise ValueError(f"{text!r} is not a whole number{hint}") from None


def _meant(text: str) -> int | None:
    """The number that was probably meant, if there is only one.

    >>> [_meant(text) for text in ("100k", "1.5M", "100,000", "1e6", "1 000", "1,5", "many")]
    [100000, 1500000, 100000, 1000000, 1000, None, None]
    """
    if re.fullmatch(r"[0-9]{1,3}([, '][0-9]{3})+", text):
        return int(re.sub("[, ']", "", text))
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]{1,2})?)([kmb]?)", text.lower())
    thousands = {"k": 1_000, "m": 1_000_000, "b": 1_000_000_000, "": 1}
    number = float(match[1]) * thousands[match[2]] if match else 0.5
    return int(number) if number.is_integer() else None


# The files are described where the example is: a panel of their own would push the options off the screen.
Paths: TypeAlias = Annotated[list[str], Parameter(metavar="FILE", show=False, converter=_with_dashes)]
StatePath: TypeAlias = Annotated[
    str, Parameter(metavar="STATE.pp", help="A state file or state folder, as --state of another command wrote it.")
]
WholeNumber = Parameter(alias="-n", metavar="N", converter=_whole)
Json: TypeAlias = Annotated[bool, Parameter("--json", help="Print each release as one line of JSON.")]
Csv: TypeAlias = Annotated[
    bool, Parameter("--csv", help="Print a table with a header for programs: a row for each group, and for the total.")
]
Plot: TypeAlias = Annotated[
    str | None, Parameter(metavar="FILE", help="Draw the answer, or the series of answers: .png, .svg or .pdf.")
]
Level: TypeAlias = Annotated[float, Parameter(help="Confidence level of the interval around an answer.")]
Delta: TypeAlias = Annotated[
    float | None,
    Parameter(
        metavar="P",
        help="Failure probability (e.g. 1e-9) accepted for Gaussian noise; helps from about 20 releases on.",
    ),
]


@dataclass(frozen=True)
class RowOptions:
    """Which column of the events holds the users, and which rows are left out."""

    column: Annotated[
        str | None, Parameter(alias="-c", metavar="NAME", help="Column that holds the ids of the users.")
    ] = None
    skip_missing: Annotated[bool, Parameter(help="Leave out rows that have no id; they are not counted anywhere.")] = (
        False
    )


@dataclass(frozen=True)
class FileOptions(RowOptions):
    """The rows of files, and how the files are written."""

    format: Annotated[
        Format | None,
        Parameter(
            alias="-f",
            metavar="KIND",
            show_choices=False,
            help="What the files are, if their names do not tell: csv, tsv, ndjson, parquet or arrow.",
        ),
    ] = None
    separator: Annotated[
        str, Parameter(metavar="CHAR", converter=_with_dashes, help="Character between the columns of a CSV file.")
    ] = ","
    no_header: Annotated[bool, Parameter(help="The CSV files have no header; their columns are called 1, 2, 3...")] = (
        False
    )
    missing: Annotated[
        list[str] | None,
        Parameter(
            metavar="TEXT",
            converter=_with_dashes,
            allow_leading_hyphen=True,
            help="How CSV files write a missing id, such as NA; repeatable.",
        ),
    ] = None

    @property
    def layout(self) -> "Layout":
        """How CSV files are written."""
        from panprivacy.ingest import Layout

        return Layout(self.separator, not self.no_header, tuple(self.missing or ()))

    def which_column(self, files: Sequence[str]) -> InvalidValue:
        """Ask for the column of the ids, and say which there are."""
        from panprivacy.cli.output import with_hints
        from panprivacy.ingest import columns_told, expand

        file = expand(files)[0]
        told = columns_told(file, self.format, self.layout)
        there = "" if told is None else f"; {file}: {with_hints(told.text, told.hints)}"
        return InvalidValue(f"which column holds the ids? Say --column NAME{there}", code="column")

    def source(
        self,
        files: Sequence[str],
        columns: Columns,
        who: "UniverseOptions | None" = None,
        categories: "CategoryOptions | None" = None,
    ) -> "Files | Pipe":
        """The files of a command, or the pipe that a dash stands for."""
        from panprivacy.cli.sources import Files, Pipe

        by, unlisted = (None, None) if categories is None else (categories.by, categories.unlisted)
        columns, skip_outside = replace(columns, category=by), who is not None and who.skip_outside
        if list(files) == [STDIN]:
            skips = (self.skip_missing, skip_outside, unlisted != "refuse")
            return Pipe(columns, *skips, self.format, self.layout)
        skips = (self.skip_missing, skip_outside, unlisted == "skip")
        return Files(columns, *skips, files, self.format, self.layout)


Ids: TypeAlias = Annotated[
    Kind | None,
    Parameter(
        metavar="KIND",
        show_choices=False,
        help="What ids are: integers or text. Default: as in the first file; a pipe must be told.",
    ),
]


@dataclass(frozen=True)
class CategoryOptions:
    """Which categories events can be in."""

    by: Annotated[
        str | None,
        Parameter(metavar="NAME", help="Column of the category of each event; each category gets its own answer."),
    ] = None
    categories: Annotated[
        str | None, Parameter(metavar="A,B,C|FILE", help="The categories, or a file that lists them.")
    ] = None
    other: Annotated[
        bool, Parameter(help="Count events of all other categories together; without this they are an error.")
    ] = False
    unlisted: Annotated[
        SkipOrRefuse | None,
        Parameter(metavar="POLICY", show_choices=False, help="Rows in no listed category: refuse or skip."),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """What a new estimator is built with."""
        if self.by is None:
            if self.categories is not None or self.other:
                raise InvalidValue("which column holds the category of an event? Say --by NAME", code="which-category")
            return {}
        if self.categories is None:
            raise InvalidValue(
                "which categories are there? Say --categories A,B,C, or a FILE that lists them", code="which-categories"
            )
        return {"categories": read_categories(self.categories), "other": self.other}

    def check(self, est: Any) -> None:
        """Refuse to continue a state that has other categories than the command."""
        if est.categories is None:
            if self.by is not None:
                raise PanPrivacyError("this state does not count by category: leave --by out", code="another-state")
            return
        if self.by is None:
            raise InvalidValue(
                "this state counts by category: say --by NAME, the column that holds it", code="which-category"
            )
        asked = self.arguments()["categories"] if self.categories is not None else None
        labels = est.categories.labels[: len(est.categories.labels) - est.categories.other]
        if asked is not None and list(labels) != asked:
            raise PanPrivacyError(
                f"this state has categories {_named(labels)}, and {_named(asked)} were asked for", code="another-state"
            )
        if self.other and not est.categories.other:
            raise PanPrivacyError(
                "this state refuses categories that are not listed: leave --other out", code="another-state"
            )


def read_categories(text: str) -> list[str]:
    """The categories, as text; a file gives them in its order, each once."""
    from panprivacy.ingest import read_ids, split_column

    file, column = split_column(text)
    if Path(file).is_file():
        import polars as pl

        labels = read_ids(file, column, "category").cast(pl.String).unique(maintain_order=True).to_list()
    else:
        labels = [label.strip() for label in text.split(",")]
    if "" in labels:
        raise InvalidValue(f"--categories {text}: one of the names is empty", code="empty-category")
    return labels


def _named(labels: Any) -> str:
    return ", ".join(map(str, labels[:8])) + (", ..." if len(labels) > 8 else "")


@dataclass(frozen=True)
class StateOptions:
    """The file that keeps the state."""

    state: Annotated[
        str | None,
        Parameter(alias="-s", metavar="FILE.pp", help="File that keeps the state; made if it does not exist."),
    ] = None

    def open(self) -> "AbstractContextManager[Any]":
        """The state file, locked, or None if there is to be none."""
        from panprivacy.cli.kept import kept_in

        return kept_in(self.state)


@dataclass(frozen=True)
class FolderOptions(StateOptions):
    """The file or folder that keeps the state."""

    shards: Annotated[
        int | None,
        Parameter(
            metavar="N",
            help="With --state DIR/: shards of a new folder, into which several commands count at a time. Default: 64.",
        ),
    ] = None

    def open(self) -> "AbstractContextManager[Kept | None]":
        """The state file, locked, or the state folder, or None if there is to be neither."""
        from panprivacy.cli.kept import kept_anywhere

        return kept_anywhere(self.state, self.shards)


@dataclass(frozen=True)
class TimeOptions:
    """What becomes of rows that are late or early.

    The owner of a file has all of its rows and can mend it, so a file with such a row is refused. A pipe or a broker
    brings the rows of many people. There such rows are handled one by one, and the wall clock ends periods: the rows of
    one user decide nothing about the rows of others.
    """

    late: Annotated[
        CountSkipOrRefuse | None,
        Parameter(metavar="POLICY", show_choices=False, help="Rows of an ended period: refuse, skip or count."),
    ] = None
    early: Annotated[
        SkipOrRefuse | None,
        Parameter(metavar="POLICY", show_choices=False, help="Rows further ahead than --ahead: refuse or skip."),
    ] = None
    ahead: Annotated[int | None, Parameter(metavar="N", help="Periods that one row may end; 0: none.")] = None
    lateness: Annotated[
        str | None,
        Parameter(metavar="2d", help="How late rows of files may be; they wait in memory."),
    ] = None
    tz: Annotated[
        str | None,
        Parameter(metavar="ZONE", help="Time zone, such as Europe/Berlin. Default: UTC."),
    ] = None

    def check_given(self, time: str | None) -> None:
        """Refuse options about the times of rows where rows have no times."""
        about = ("late", "early", "ahead", "lateness") + (("start", "tz") if isinstance(self, ReleaseOptions) else ())
        given = [f"--{name}" for name in about if getattr(self, name) is not None]
        if given and time is None:
            raise InvalidValue(f"{' and '.join(given)}: about the times of rows; say --time NAME", code="which-time")

    def policy(self, *, live: bool, in_own_period: bool) -> "RowPolicy":
        """What was asked for, and else the default of the input.

        `in_own_period` says that a row of one period means something else in another, so that a late one cannot count.
        """
        from panprivacy.periods import RowPolicy

        if in_own_period and self.late == "count":
            raise InvalidValue(
                "--late count: a row of a period that is over cannot count in another: skip or refuse",
                code="late-count",
            )
        late = ("skip" if in_own_period else "count") if live else "refuse"
        ahead = self.ahead if self.ahead is not None else 0 if live else 1
        return RowPolicy(ahead, self.late or late, self.early or ("skip" if live else "refuse"))


ReleaseEvery: TypeAlias = Annotated[
    str | None,
    Parameter(
        metavar="7d",
        help="Release an answer after every such period: 12h, 7d, 2w, or week, month; --releases says how many.",
    ),
]


@dataclass(frozen=True)
class ReleaseOptions:
    """When answers are released."""

    release: Annotated[
        bool | None,
        Parameter(
            negative="--no-release",
            help="Release an answer at the end of the events, or not. Default: yes, but with --state no for files and "
            "--time.",
        ),
    ] = None
    release_every: ReleaseEvery = None
    anew: Annotated[
        bool,
        Parameter(
            negative="",
            help="Count anew in each period, with the whole epsilon.",
        ),
    ] = False
    time: Annotated[
        str | None,
        Parameter(
            metavar="NAME", help="Column of times by which --release-every goes; without it, the clock of a pipe."
        ),
    ] = None
    start: Annotated[
        str | None,
        Parameter(
            metavar="TIME",
            help="When the first period of --time starts, such as 2026-01-05. Default for files: with the first row.",
        ),
    ] = None


@dataclass(frozen=True)
class SeriesOptions(TimeOptions, ReleaseOptions):
    """When answers are released, as a series by the clock or by the times of rows."""


@dataclass(frozen=True)
class OutputOptions:
    """How answers look."""

    plot: Plot = None
    level: Level = 0.95
    as_json: Json = False
    as_csv: Csv = False
    quiet: Annotated[bool, Parameter(alias="-q", help="Print releases and errors only: no progress bar, no notes.")] = (
        False
    )

    def output(self) -> "Output":
        """What shows answers and notes."""
        from panprivacy.cli.output import Output

        return Output(as_json=self.as_json, as_csv=self.as_csv, quiet=self.quiet)

    def prepare(self, files: Sequence[str]) -> None:
        """Prepare the process. One that reads a pipe lives long, so it starts again, in a way that wipes freed memory.

        Commands call this before they import what they run, which then is loaded once.
        """
        from panprivacy.memory.hardening import start_hardened

        if list(files) == [STDIN]:
            hardened = start_hardened()
            for measure in hardened.missing if hardened is not None else ():
                self.output().note(f"not in force here: {measure.name}; {measure.note}")


@dataclass(frozen=True)
class CountingOptions(OutputOptions):
    """How answers look, and how many threads count."""

    threads: Annotated[
        int | None,
        Parameter(metavar="N", help="How many threads; all cores if left out."),
    ] = None

    def prepare(self, files: Sequence[str]) -> None:
        """As `OutputOptions.prepare`, and set the number of threads; Polars asks for it once, when it is imported."""
        from panprivacy.memory.threads import use_threads

        use_threads(self.threads)
        if self.threads is not None:
            os.environ["POLARS_MAX_THREADS"] = str(self.threads)
        super().prepare(files)
