"""Estimators whose users a key deals to parts: `Retention` and `ActiveUsers`."""

from abc import abstractmethod
from collections.abc import Sequence
from struct import Struct
from typing import Any, ClassVar, NoReturn, Self, TypeVar

from panprivacy.errors import CannotMerge, InvalidValue, PanPrivacyError
from panprivacy.estimators.base import Estimator
from panprivacy.slots.parts import PermutedParts
from panprivacy.slots.saved import universe_bytes, universe_from
from panprivacy.state import Snapshot
from panprivacy.table import Table
from panprivacy.units import format_bytes
from panprivacy.universe import Universe

R = TypeVar("R")


class PartedEstimator(Estimator[R]):
    """An estimator of a known universe, of whose parts each answers another question."""

    NOT_MERGED: ClassVar[str]
    """Why two of them cannot be merged."""
    NOT_REDRAWN: ClassVar[str]
    """Why no announced readings are planned."""
    MORE: ClassVar[Struct]
    """The layout of what a saved state has behind the slots: `_more`."""

    _slots: PermutedParts
    _table: Table

    @property
    def users(self) -> int:
        """How many users own a bit."""
        return self._slots.users

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
    def _keep_more(self, *saved: Any) -> None:
        """Take the values of `_more` from a saved state."""

    @classmethod
    @abstractmethod
    def _is_possible(cls, slots: PermutedParts, *saved: Any) -> bool:
        """Whether an estimator of this class can have these parts; refuse values of `_more` that cannot be."""

    def _parameters(self) -> bytes:
        return universe_bytes(self._universe) + self._slots.to_bytes() + self.MORE.pack(*self._more())

    @classmethod
    def _from_parameters(cls, parameters: bytes, universe: Any) -> tuple[Universe, PermutedParts]:
        saved = cls.MORE.unpack(parameters[-cls.MORE.size :])
        known, rest = universe_from(parameters[: -cls.MORE.size], universe)
        slots, rest = PermutedParts.from_bytes(rest, known.size)
        if rest or not cls._is_possible(slots, *saved):
            raise InvalidValue(f"{slots.parts} parts of its users are not possible", code="parts-range")
        return known, slots

    @classmethod
    def from_sealed(cls, parts: Snapshot, universe: Any = None) -> Self:
        """Make an estimator of the parts of a saved state; their words become its table."""
        est = super().from_sealed(parts, universe)
        est._keep_more(*cls.MORE.unpack(bytes(parts.parameters[-cls.MORE.size :])))
        return est
