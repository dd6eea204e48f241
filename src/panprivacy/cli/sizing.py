"""How large an estimator is to be, or which part of one: the options that say it, and what is made of them."""

import re
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

import typer

from panprivacy.cli.options import BUDGET
from panprivacy.cli.run import plan_of, planned
from panprivacy.density import Density
from panprivacy.distinct import DistinctCount
from panprivacy.errors import PanPrivacyError
from panprivacy.universe import Universe

Sample: TypeAlias = Annotated[
    int | None,
    typer.Option(metavar="N", help="Track a random sample of N users. Default: all of them.", rich_help_panel=BUDGET),
]
Memory: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help='Track a random sample of as many users as fit in this, such as "16 KiB".',
        rich_help_panel=BUDGET,
    ),
]
Shard: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="I/N[:KEY]",
        help="Count only part I of the users, who are cut into parts 0 to N-1; merge joins the parts.",
        rich_help_panel=BUDGET,
    ),
]
Error: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Relative standard error to reach, such as 0.02; the smaller, the more memory.", rich_help_panel=BUDGET
    ),
]
Buckets: TypeAlias = Annotated[
    int | None,
    typer.Option(
        help="Buckets in each level of the sketch, instead of --error. Default: 4096.", rich_help_panel=BUDGET
    ),
]
Key: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="HEX",
        help="Key of 32 hexadecimal digits; states can be merged if they were made with the same key.",
        rich_help_panel=BUDGET,
    ),
]


@dataclass(frozen=True)
class DensitySize:
    """How many users of a known universe are tracked, and which."""

    sample: int | None
    memory: str | None
    shard: str | None

    @property
    def options(self) -> list[str]:
        """The options that were given."""
        return _given(vars(self))

    def new(self, users: Universe | None, plan: dict[str, Any], more: dict[str, Any]) -> Density:
        """A `Density` of this size."""
        if users is None:
            raise ValueError("who could appear? Say --universe N, --universe-file FILE, or --edges SRC,DST --nodes N")
        return Density(users, **planned(plan), **self._arguments(), **more)

    def check(self, est: Any) -> None:
        """Refuse to go on with a state that has another sample or shard than was asked for."""
        if self.options:
            kinds = est.categories
            listed = {} if kinds is None else {"categories": kinds.labels}
            fresh = Density(est.universe, **planned(plan_of(est)), **self._arguments(), **listed)
            if (fresh._slots.first, fresh._slots.size) != (est._slots.first, est._slots.size):
                raise PanPrivacyError(
                    f"this state has bits {est._slots.first}..{est._slots.first + est._slots.size - 1}, and a table of "
                    f"{fresh._slots.size:,} bits from {fresh._slots.first} on was asked for"
                )

    def _arguments(self) -> dict[str, Any]:
        part, key = _parse_shard(self.shard)
        return {"sample": self.sample, "memory": self.memory, "shard": part, "key": key}


@dataclass(frozen=True)
class DistinctSize:
    """How large a sketch of users is that nobody lists."""

    error: float | None
    buckets: int | None
    key: str | None

    @property
    def options(self) -> list[str]:
        """The options that were given."""
        return _given(vars(self))

    def new(self, plan: dict[str, Any], more: dict[str, Any]) -> DistinctCount:
        """A `DistinctCount` of this size."""
        return DistinctCount(**planned(plan), **self._arguments(), **more)

    def check(self, est: Any) -> None:
        """Refuse to go on with a state that has other buckets, or another key, than was asked for."""
        size = self._arguments()
        if self.error is not None or self.buckets is not None:
            fresh = DistinctCount(**planned(plan_of(est)), **size)
            if fresh.buckets != est.buckets:
                raise PanPrivacyError(f"this state has {est.buckets:,} buckets, and {fresh.buckets:,} were asked for")
        if size["key"] not in (None, est.universe.key):
            raise PanPrivacyError("this state has another key than was asked for")

    def _arguments(self) -> dict[str, Any]:
        return {"error": self.error, "buckets": self.buckets, "key": _parse_key(self.key)}


def _given(values: dict[str, Any]) -> list[str]:
    return [f"--{name}" for name, value in values.items() if value is not None]


def _parse_shard(text: str | None) -> tuple[tuple[int, int] | None, bytes | None]:
    """Read ``0/4`` or ``0/4:`` and the 32 hexadecimal digits of a key."""
    if text is None:
        return None, None
    match = re.fullmatch(r"([0-9]+)/([0-9]+)(?::([0-9a-fA-F]{32}))?", text)
    if not match:
        raise ValueError(f"shard {text!r} is not understood; write it like 0/4, or 0/4:KEY with 32 hexadecimal digits")
    return (int(match[1]), int(match[2])), bytes.fromhex(match[3]) if match[3] else None


def _parse_key(text: str | None) -> bytes | None:
    if text is not None and not re.fullmatch("[0-9a-fA-F]{32}", text):
        raise ValueError(f"key {text!r} is not 32 hexadecimal digits; make one with: openssl rand -hex 16")
    return bytes.fromhex(text) if text is not None else None
