"""Options about events, states, releases and output, as dataclasses: `--help` of a command lists their fields.

Heavy modules are imported in the methods that need them, so that help comes at once.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar, dataclass_transform

from cyclopts import Group, Parameter, Token

from panprivacy.errors import InvalidValue, PanPrivacyError
from panprivacy.ingest.files import STDIN, Format

if TYPE_CHECKING:
    from panprivacy.cli.output import Output
    from panprivacy.ingest import Layout
    from panprivacy.periods import RowPolicy

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def option_group(cls: type[T]) -> type[T]:
    """A frozen dataclass of options, without `==` and `repr`: help comes sooner."""
    return dataclass(frozen=True, eq=False, repr=False)(cls)


def option(text: str, metavar: str | None = None, /, **more: Any) -> Parameter:
    """An option: its help, and the word that stands for its value there, instead of its choices."""
    shown: dict[str, Any] = {} if metavar is None else {"metavar": metavar, "show_choices": False}
    return Parameter(help=text, **shown, **more)


OPTIONS = Group("Options", sort_key=0)
EVENTS = Parameter(  # 80 columns show this title
    name="*", group=Group("Events: CSV, TSV, NDJSON (gz, bz2, xz, zst), Parquet; - is standard input", sort_key=1)
)
MESSAGES = Parameter(name="*", group=Group("Messages: JSON objects, bare ids, or Arrow streams", sort_key=1))
USERS = Parameter(name="*", group=Group("Users, privacy and size", sort_key=2))
OTHERS = Parameter(name="*", group=OPTIONS)
"""The panels of `--help`: a command says in which one the fields of a dataclass are listed."""
FLAT = Parameter(name="*")
"""A dataclass whose fields are options of the command."""
NOT_HERE = Parameter(parse=False)
"""Marks an option that only some commands have: these declare it anew."""

DASH = "\0-"
"""Stands for the argument `-` while options are parsed: cyclopts takes a bare dash for an option without a name."""


def _with_dashes(type_: Any, tokens: Sequence[Token]) -> Any:
    """Text options and arguments as they were typed."""
    typed = [STDIN if token.value == DASH else token.value for token in tokens]
    return typed if type_ is not str else typed[-1]


def given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def whole_number(text: str) -> int:
    """The number that an option says, or an error that says how to write the one that was probably meant.

    >>> whole_number("100000")
    100000
    """
    try:
        return int(text)
    except ValueError:
        plain = re.sub("[, ']", "", text) if re.fullmatch(r"[0-9]{1,3}([, '][0-9]{3})+", text) else text.lower()
        match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]{1,2})?)([kmb]?)", plain)
        meant = float(match[1]) * {"k": 1e3, "m": 1e6, "b": 1e9, "": 1}[match[2]] if match else 0.5
        hint = f"; write {int(meant)}" if meant.is_integer() else ""
        raise ValueError(f"{text!r} is not a whole number{hint}") from None


# The files are described where the example is: a panel of their own would push the options off the screen.
Paths: TypeAlias = Annotated[list[str], Parameter(metavar="FILE", show=False, converter=_with_dashes)]
StatePath: TypeAlias = Annotated[
    str, option("A state file or state folder that another command wrote (--state).", "STATE.pp")
]
WholeNumber = Parameter(alias="-n", metavar="N", converter=lambda _, tokens: whole_number(tokens[-1].value))
Json: TypeAlias = Annotated[bool, Parameter("--json", help="Print each release as one line of JSON.")]
Csv: TypeAlias = Annotated[
    bool, Parameter("--csv", help="Print CSV with a header: a row for each group, and one for the total.")
]
Plot: TypeAlias = Annotated[str | None, option("Draw the answer or the series: .png, .svg or .pdf.", "FILE")]
Level: TypeAlias = Annotated[float, option("Confidence level of the intervals.")]
Delta: TypeAlias = Annotated[
    float | None,
    option("Failure probability (e.g. 1e-9) accepted for Gaussian noise; helps from about 20 releases on.", "P"),
]


@option_group
class RowOptions:
    """Which column of the events holds the users, and which rows are left out."""

    column: Annotated[str | None, option("Column of the user ids.", "NAME", alias="-c")] = None
    skip_missing: Annotated[bool, option("Skip rows without an id; how many is not reported.")] = False


@option_group
class FileOptions(RowOptions):
    """The rows of files, and how the files are written."""

    format: Annotated[
        Format | None,
        option("File format, if the names do not tell: csv, tsv, ndjson, parquet or arrow.", "KIND", alias="-f"),
    ] = None
    separator: Annotated[
        str, option("Character between the columns of a CSV file.", "CHAR", converter=_with_dashes)
    ] = ","
    no_header: Annotated[bool, option("The CSV files have no header; their columns are called 1, 2, 3...")] = False
    missing: Annotated[
        list[str] | None,
        option(
            "Text for a missing id in CSV files, such as NA; repeatable.",
            "TEXT",
            converter=_with_dashes,
            allow_leading_hyphen=True,
        ),
    ] = None

    @property
    def layout(self) -> "Layout":
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


@option_group
class CategoryOptions:
    """Which categories events can be in."""

    by: Annotated[str | None, option("Column of the event's category; each category gets its own answer.", "NAME")] = (
        None
    )
    categories: Annotated[str | None, option("The categories, or a file that lists them.", "A,B,C|FILE")] = None
    other: Annotated[bool, option("Count all unlisted categories as one; by default they are an error.")] = False
    unlisted: Annotated[
        Literal["skip", "refuse"] | None, option("Rows in no listed category: refuse or skip.", "POLICY")
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
        there = getattr(est, "categories", None)
        if there is None:
            if self.by is not None:
                raise PanPrivacyError("this state does not count by category: leave --by out", code="another-state")
            return
        if self.by is None:
            raise InvalidValue(
                "this state counts by category: say --by NAME, the column that holds it", code="which-category"
            )
        labels = list(there.labels[: len(there.labels) - there.other])
        asked = labels if self.categories is None else self.arguments()["categories"]
        if asked != labels:
            has, wanted = (", ".join([*map(str, each[:8]), *(["..."] if each[8:] else [])]) for each in (labels, asked))
            raise PanPrivacyError(f"this state has categories {has}, and {wanted} were asked for", code="another-state")
        if self.other and not there.other:
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


@option_group
class StateOptions:
    """The file that keeps the state."""

    FOLDERS: ClassVar[bool] = False
    """Whether a state folder may keep it, too."""

    state: Annotated[
        str | None, option("File that keeps the state; created if it is missing.", "FILE.pp", alias="-s")
    ] = None
    shards: Annotated[int | None, NOT_HERE] = None
    batch: Annotated[str | None, NOT_HERE] = None


@option_group
class FolderOptions(StateOptions):
    """The file or folder that keeps the state."""

    FOLDERS = True

    shards: Annotated[
        int | None,
        option("With --state DIR/: shards of a new folder, which several commands can feed at once. Default: 64.", "N"),
    ] = None


@option_group
class SeriesOptions:
    """When answers are released, by the clock or by the times of rows, and what becomes of rows that are late or early.

    The owner of a file has all of its rows and can mend it, so a file with such a row is refused. A pipe or a broker
    brings the rows of many people. There such rows are handled one by one, and the wall clock ends periods: the rows of
    one user decide nothing about the rows of others.
    """

    OF_TIMES: ClassVar[tuple[str, ...]] = ("late", "early", "ahead", "lateness", "start", "tz")
    """The options that say nothing without `--time`."""

    release: Annotated[
        bool | None,
        option(
            "Release an answer when the events end. Default: yes; with --state, only for a pipe without --time.",
            negative="--no-release",
        ),
    ] = None
    release_every: Annotated[
        str | None,
        option("Release an answer after each period: 12h, 7d, 2w, week or month; --releases says how many.", "7d"),
    ] = None
    anew: Annotated[bool, option("Start a new count in each period, each with the whole epsilon.", negative="")] = False
    time: Annotated[
        str | None, option("Column of times for --release-every; without it, a pipe goes by the clock.", "NAME")
    ] = None
    start: Annotated[
        str | None,
        option(
            "Start of the first period of --time, such as 2026-01-05. Default for files: periods of the calendar, or "
            "counted from Monday, 1970-01-05, on, of which the first row decides the first.",
            "TIME",
        ),
    ] = None
    late: Annotated[
        Literal["count", "skip", "refuse"] | None, option("Rows of an ended period: refuse, skip or count.", "POLICY")
    ] = None
    early: Annotated[
        Literal["skip", "refuse"] | None, option("Rows of a period beyond --ahead: refuse or skip.", "POLICY")
    ] = None
    ahead: Annotated[int | None, option("How many periods one row may end; with 0, only the clock ends them.", "N")] = (
        None
    )
    lateness: Annotated[
        str | None, option("How late rows of files may come; rows wait in memory for as long.", "2d")
    ] = None
    tz: Annotated[str | None, option("Time zone, such as Europe/Berlin. Default: UTC.", "ZONE")] = None

    def check_given(self) -> None:
        """Refuse options about the times of rows where rows have no times."""
        unused = [f"--{name}" for name in self.OF_TIMES if getattr(self, name) is not None]
        if unused and self.time is None:
            raise InvalidValue(f"{' and '.join(unused)}: about the times of rows; say --time NAME", code="which-time")

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


@option_group
class OutputOptions:
    """How answers look, and how many threads count."""

    plot: Plot = None
    level: Level = 0.95
    as_json: Json = False
    as_csv: Csv = False
    quiet: Annotated[bool, option("Print releases and errors only: no progress bar, no notes.", alias="-q")] = False

    threads: Annotated[int | None, option("Number of threads. Default: all cores.", "N")] = None

    def output(self) -> "Output":
        from panprivacy.cli.output import Output

        return Output(as_json=self.as_json, as_csv=self.as_csv, quiet=self.quiet)

    def prepare(self, *, live: bool) -> None:
        """Prepare the process, before anything is imported that has to be loaded once.

        Polars asks for the number of threads when it is imported. A process that reads a pipe, or a URL, may live long,
        so it starts again, in a way that wipes freed memory.
        """
        from panprivacy.memory.hardening import start_hardened
        from panprivacy.memory.threads import use_threads

        use_threads(self.threads)
        if self.threads is not None:
            os.environ["POLARS_MAX_THREADS"] = str(self.threads)
        hardened = start_hardened() if live else None
        for measure in hardened.missing if hardened is not None else ():
            self.output().note(f"not in force here: {measure.name}; {measure.note}")
