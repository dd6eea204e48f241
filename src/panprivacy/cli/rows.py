"""What becomes of rows that are late, early, or in no listed category.

The owner of a file has all of its rows and can mend it, so a file with such a row is refused. A pipe or a broker brings
the rows of many people. There such rows are handled one by one, and the wall clock ends periods: nobody's rows decide
over those of others.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from panprivacy.clock import RowPolicy

SkipOrRefuse: TypeAlias = Literal["skip", "refuse"]
"""What may become of a row that is early, or in no listed category."""
CountSkipOrRefuse: TypeAlias = Literal["count", "skip", "refuse"]
"""What may become of a late row."""


@dataclass(frozen=True)
class TimeOptions:
    """The options about the times of rows, as far as they were given."""

    late: CountSkipOrRefuse | None = None
    early: SkipOrRefuse | None = None
    ahead: int | None = None

    @property
    def given(self) -> list[str]:
        """The names of those that were given."""
        return [f"--{name}" for name in ("late", "early", "ahead") if getattr(self, name) is not None]

    def policy(self, *, live: bool, in_own_period: bool) -> RowPolicy:
        """What was asked for, and else the default of the input.

        `in_own_period` says that a row of one period means something else in another, so that a late one cannot count.
        """
        if in_own_period and self.late == "count":
            raise ValueError("--late count: a row of a period that is over cannot count in another: skip or refuse")
        late = ("skip" if in_own_period else "count") if live else "refuse"
        ahead = self.ahead if self.ahead is not None else 0 if live else 1
        return RowPolicy(ahead, self.late or late, self.early or ("skip" if live else "refuse"))
