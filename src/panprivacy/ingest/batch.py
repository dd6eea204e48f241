"""The columns that readers are asked for, the batches they return, and what is wrong with input.

`BadInput` is about a file, whose owner reads it. `Refused` is about a request or a body, and may end up in a log or
with another program: it names the type of the problem and the row, and never repeats what was sent.
"""

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from panprivacy.errors import PanPrivacyError

if TYPE_CHECKING:
    import polars as pl


class Hint(NamedTuple):
    """What would help: a name, which each shell puts in its own words, and the value that it is about."""

    name: str
    value: str = ""


class Cause(NamedTuple):
    """An error, and the options that help."""

    text: str
    hints: tuple[Hint, ...] = ()


class BadInput(PanPrivacyError, ValueError):
    """A file, or one row of it, that cannot be counted.

    Rows are counted from 1; the header of a CSV file is not a row. The code names a problem of the service: it
    names the problem without repeating the content of a row.

    >>> print(BadInput("visits.csv", "user 'x' is not a whole number", row=7))
    visits.csv: row 7: user 'x' is not a whole number
    """

    def __init__(
        self,
        file: str,
        cause: str,
        row: int | None = None,
        *,
        code: str = "unreadable",
        hints: Sequence[Hint] = (),
        lacks: str = "",
        has: Sequence[str] = (),
    ) -> None:
        self.row = row
        self.hints = tuple(hints)
        """What would help."""
        self.lacks, self.has = lacks, tuple(has)
        """The column that is missing, and the names of those that are there, which may be a row that is no header."""
        place = file if row is None else f"{file}: row {row}"
        line = " ".join(cause.split())
        # What a file holds may be quoted here, and a terminal would obey some characters.
        super().__init__(f"{place}: {''.join(c if c.isprintable() else '?' for c in line)}", code=code)


REPEATS_HEADER = "this row repeats the header: files that were joined have one each; leave it out"
"""The error for a row that repeats the header."""


class Kind(StrEnum):
    """What ids can be."""

    integers = "integers"
    text = "text"


@dataclass(frozen=True)
class Columns:
    """The columns that a command asks for.

    `kind` is what ids are to be: integers, text, or, if it is None, what the first file says.
    """

    ids: tuple[str, ...]
    """One column, or the two ends of an edge."""
    kind: Kind | None = None
    action: str | None = None
    time: str | None = None
    category: str | None = None

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise ValueError(f"a column has one role only, and here it has more: {', '.join(self.names)}")

    @property
    def names(self) -> list[str]:
        """All columns, ids first."""
        return [*self.ids, *(name for name in (self.action, self.time, self.category) if name is not None)]

    @property
    def needed(self) -> list[str]:
        """Those without which a row cannot be counted: ids, and the category where there is one."""
        return [*self.ids, *([self.category] if self.category is not None else [])]

    @property
    def if_text(self) -> tuple[Hint, ...]:
        """What would help where ids are read as integers and turn out to be text."""
        return (Hint("text-nodes" if len(self.ids) == 2 else "text-ids"),)

    def if_padded(self, name: str, value: str) -> Cause:
        """The error for an id like 007 where ids are integers, and the options that help."""
        said = f"{name} {value} has leading zeros, and ids are integers here: if it is the id without them, write it so"
        return Cause(said, self.if_text)

    def check_names(self, file: str, present: list[str], told: Cause | None = None) -> None:
        """Refuse a file that lacks one of the columns; `told` is what to say of those that it has."""
        there = told or Cause(f"it has {shown_names(present)}")
        for name in self.names:
            if name not in present:
                cause = f"no column {name!r}; {there.text}"
                raise BadInput(file, cause, code="no-column", hints=there.hints, lacks=name, has=present)
            if present.count(name) > 1:
                raise BadInput(file, f"{present.count(name)} columns are called {name!r}", code="repeated-column")

    def types(self, ids: "type[pl.DataType]") -> "dict[str, type[pl.DataType]]":
        """The type that each column of text is to be read as, given the type of the ids."""
        import polars as pl

        return dict.fromkeys(self.names, pl.String) | dict.fromkeys(self.ids, ids)


def shown_names(names: list[str]) -> str:
    """The names of columns, each in quotes; of very many or very long ones, their beginnings."""
    return ", ".join(repr(name[:40]) for name in names[:20]) + (", ..." if len(names) > 20 else "")


@dataclass(frozen=True)
class Batch:
    """Some rows of a file, in order, that are counted whole or not at all."""

    file: str
    rows: "pl.DataFrame"
    before: int
    """How many rows of the file came before."""
    position: int
    """How many bytes of the file have been read, for a progress bar."""


class ProblemType(Enum):
    """Every type of problem: its name in `/problems`, its HTTP status, and one sentence.

    A status below 500 says that this body can never be counted; from 500 on, that it may be sent again later.
    """

    unreadable = ("unreadable", 422, "The body, or a row of it, cannot be read as its content type says.")
    no_column = ("no-column", 422, "The body lacks a column that this counter needs.")
    missing = ("missing-value", 422, "A row has no id, or no category.")
    outside = ("outside-universe", 422, "The user of a row is not in the universe of this counter.")
    category = ("unknown-category", 422, "The category of a row is not one of this counter's.")
    action = ("unknown-action", 422, "The action of a row is neither insert nor delete.")
    untimely = ("untimely", 422, "A row has no readable time, or its time is in the future or too late.")
    no_deletions = ("no-deletions", 422, "This counter cannot take users back.")
    bad_request = ("bad-request", 400, "This address does not take such a request.")
    no_token = ("no-token", 401, "This needs a token: Authorization: Bearer TOKEN.")
    role = ("role", 403, "The token does not allow this.")
    cross_site = ("cross-site", 403, "A page of another site cannot use this service.")
    not_found = ("not-found", 404, "There is nothing at this address.")
    method = ("method", 405, "This address does not take this method.")
    slow = ("slow", 408, "The body did not come in time.")
    spent = ("budget-spent", 409, "All planned releases are made; the last one can be read again at no cost.")
    not_now = ("not-now", 409, "This cannot be done in the state that the counter is in.")
    layout = ("layout", 409, "These slots are of another layout: GET the counter's /layout, and gather them again.")
    retired = ("retired", 410, "This counter is retired: its releases can be read, and nothing else.")
    too_large = ("too-large", 413, "The body is larger than this service takes.")
    content_type = ("content-type", 415, "Send Arrow IPC, NDJSON, CSV, JSON or slots, and say which in Content-Type.")
    host = ("host", 421, "The service is not known by this name; if it is one of its own, add it to service.hosts.")
    headers = ("headers-too-large", 431, "The headers of the request are more, or longer, than this service takes.")
    rate = ("rate", 429, "Too many requests; wait as long as Retry-After says.")
    broken = ("broken", 500, "The service failed; nothing of this request was counted.")
    busy = ("busy", 503, "Too much is waiting to be counted; try again.")
    damaged = ("damaged", 503, "A file of this counter is damaged: its operator has to put it back. Others are served.")
    clock = (
        "clock",
        503,
        "By the clock the service was stopped for very long: its operator has to say if that is right.",
    )
    closing = ("closing", 503, "The service is stopping; nothing of this request was counted.")
    disk = ("disk", 507, "The disk does not take the state, so nothing of this request was counted; try again.")
    unlisted = ("unlisted", 507, "The release was spent but could not be stored; the next request returns it.")

    def __init__(self, slug: str, status: int, title: str) -> None:
        self.slug = slug
        self.status = status
        self.title = title

    @property
    def is_lasting(self) -> bool:
        """Whether the same body would be refused again, however often it is sent."""
        return self.status < 500


class Refused(PanPrivacyError):
    """A request or a body that is not served.

    `detail` says more than the title of the problem. It must not quote a value that was sent.

    >>> refused = Refused(ProblemType.outside, row=3)
    >>> refused.code, refused.to_dict()["row"]
    ('outside-universe', 3)
    """

    def __init__(
        self, type: ProblemType, detail: str = "", *, row: int | None = None, retry: float | None = None
    ) -> None:
        super().__init__(detail or type.title, code=type.slug)
        self.type = type
        self.detail = detail
        self.row = row
        """The row of the body, from 1, that is to blame."""
        self.retry = retry
        """Seconds after which to try again."""

    def to_dict(self) -> dict[str, Any]:
        """The problem details of RFC 9457."""
        more: dict[str, Any] = {"detail": self.detail} if self.detail else {}
        if self.row is not None:
            more["row"] = self.row
        return {"type": f"/problems#{self.type.slug}", "title": self.type.title, "status": self.type.status} | more


def drop_frames(error: BaseException) -> None:
    """Cut an exception, and the exceptions that led to it, off from the frames of their calls.

    Those frames hold rows. A future that holds the exception and a frame that holds the future refer to each other, so
    that the rows would stay until Python next collects cycles.
    """
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None:
            continue
        waiting += [each.__cause__, each.__context__]
        each.__cause__ = each.__context__ = None
        traceback.clear_frames(each.__traceback__)
        each.__traceback__ = None
