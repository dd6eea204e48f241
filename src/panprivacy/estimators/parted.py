"""Estimators whose users a key deals to parts: `Retention` and `ActiveUsers`."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from struct import Struct
from typing import Any, ClassVar, NoReturn, Self, TypeVar

from panprivacy.errors import CannotMerge, InvalidValue, PanPrivacyError
from panprivacy.estimators.base import Estimator
from panprivacy.privacy.ledger import Ledger
from panprivacy.slots.parts import PermutedParts
from panprivacy.slots.saved import universe_bytes, universe_from
from panprivacy.state import Snapshot
from panprivacy.table import Table
from panprivacy.units import format_bytes
from panprivacy.universe import Universe
from panprivacy.universe.groups import Groups, Label

R = TypeVar("R")


class PartedEstimator(Estimator[R]):
    """An estimator of a known universe, of whose parts each answers another question."""

    NOT_MERGED: ClassVar[str]
    """Why two of them cannot be merged."""
    NOT_REDRAWN: ClassVar[str]
    """Why no announced readings are planned."""
    MORE: ClassVar[Struct]
    """The layout of what a saved state has behind the slots: `_more`. A zone and groups follow, where there are any."""

    _slots: PermutedParts
    _table: Table

    @property
    def users(self) -> int:
        """How many users own a bit."""
        return self._slots.users

    @property
    def groups(self) -> tuple[Label, ...]:
        """The labels of the groups, in order; empty if users have none."""
        return self._slots.groups.labels if self._slots.groups else ()

    @classmethod
    def _merged(cls, parts: Sequence[Self], *, overlapping: bool) -> NoReturn:  # noqa: ARG003
        raise CannotMerge(cls.NOT_MERGED, code="not-mergeable")

    def rerandomize(self) -> NoReturn:
        """Refuse: no announced readings are planned."""
        raise PanPrivacyError(self.NOT_REDRAWN, code="no-rerandomize")

    def _tracked(self) -> str:
        """Whom it counts, and in how much memory."""
        tracked = "all" if self.users == self._universe.size else f"{self.users:,}"
        return f"{self._universe.describe()}, {tracked} tracked in {format_bytes(self.memory)}"

    # --- bytes --------------------------------------------------------------------------------------------------

    @abstractmethod
    def _more(self) -> tuple[Any, ...]:
        """The values that a saved state has behind the slots, as `MORE` packs them."""

    @abstractmethod
    def _keep_more(self, zone: str, *saved: Any) -> None:
        """Take the zone and the values of `_more` from a saved state."""

    @classmethod
    @abstractmethod
    def _is_possible(cls, slots: PermutedParts, zone: str, *saved: Any) -> bool:
        """Whether an estimator of this class can have these parts; refuse values of `_more` that cannot be."""

    def _zone(self) -> str:
        """The time zone of its days, if it has days."""
        return "UTC"

    def _parameters(self) -> bytes:
        zone, groups = self._zone(), self._slots.groups
        named = b"" if zone == "UTC" and groups is None else bytes([len(zone)]) + zone.encode()
        known = universe_bytes(self._universe) + self._slots.to_bytes() + self.MORE.pack(*self._more())
        return known + named + (b"" if groups is None else groups.to_bytes())

    @classmethod
    def _from_parameters(cls, parameters: bytes, universe: Any) -> tuple[Universe, PermutedParts]:
        known, slots, zone, saved = cls._read_parameters(parameters, universe)
        if not cls._is_possible(slots, zone, *saved):
            raise InvalidValue(f"{slots.parts} parts of its users are not possible", code="parts-range")
        return known, slots

    @classmethod
    def _read_parameters(cls, parameters: bytes, universe: Any) -> tuple[Universe, PermutedParts, str, tuple[Any, ...]]:
        known, rest = universe_from(parameters, universe)
        slots, rest = PermutedParts.from_bytes(rest, known.size)
        saved, rest = cls.MORE.unpack_from(rest), rest[cls.MORE.size :]
        zone, rest = (rest[1 : 1 + rest[0]].decode(), rest[1 + rest[0] :]) if rest else ("UTC", b"")
        groups = Groups.from_bytes(rest) if rest else None
        if groups is not None and groups.size != known.size:
            raise ValueError("the groups belong to other users")
        return known, slots if groups is None else replace(slots, groups=groups), zone, saved

    @classmethod
    def from_sealed(cls, parts: Snapshot, universe: Any = None) -> Self:
        """Make an estimator of the parts of a saved state; their words become its table."""
        est = super().from_sealed(parts, universe)
        _, rest = Ledger.from_bytes(bytes(parts.parameters), parts.version)
        _, _, zone, saved = cls._read_parameters(rest, universe)
        est._keep_more(zone, *saved)
        return est
