"""What two releases say together of who came in which period: post-processing of four noisy counts."""

from dataclasses import dataclass
from math import hypot
from typing import NamedTuple

from panprivacy.release.change import Change
from panprivacy.release.error import Error, Ratio, ratio_of
from panprivacy.release.spread import Spread


class Counts(NamedTuple):
    """Noisy numbers of ones."""

    main: int
    """Of those who are asked the one question."""
    control: int
    """Of those who are asked the other."""


class Share(NamedTuple):
    """An estimate of a share, before it is brought into [0, 1], and what it errs by."""

    raw: float
    error: Error

    @property
    def inside(self) -> float:
        """The estimate, brought into [0, 1]."""
        return _inside(self.raw)


@dataclass(frozen=True)
class TwoPeriods:
    """A main group, of which is asked who came back, or who is new; and a control group that is asked the other.

    An event of the second period touches the bit of its user in either group, so those who came back and those who are
    new are together all who were touched. The errors need that share, and no group alone tells it.
    """

    main: Change
    control: Change
    newcomers: bool
    """Whether the main group is asked who is new."""

    @property
    def cohort(self) -> Spread:
        """The law of the cohort, which is estimated from the main group."""
        main = self.main
        return Spread(main.pair, main.bits, main.users, main.population, main.noise)

    def asked(self, first: Counts, now: Counts) -> Share:
        """What the main group says."""
        return self._answers(first, now)[0]

    def returned_and_new(self, first: Counts, now: Counts) -> tuple[Share, Share]:
        """The share that came back, and the share that is new."""
        asked, other = self._answers(first, now)
        return (other, asked) if self.newcomers else (asked, other)

    def rate(self, first: Counts, now: Counts, level: float) -> Ratio:
        """The share of the cohort that came back."""
        returned, _ = self.returned_and_new(first, now)
        raw = self.cohort.density(first.main)
        cohort = _inside(raw)
        of_cohort = Error(self.cohort.normal_variance(cohort), self.cohort.noise_stderr**2, self.main.noise)
        if self.newcomers:  # then the two estimates are of different users, and have nothing in common
            both = Error(0.0, 0.0, self.main.noise)
        else:
            both = self.main.covariance(self._touched(first, now), min(returned.inside, cohort), cohort)
        return ratio_of(returned.raw, raw, (returned.error, of_cohort, both), level)

    def _answers(self, first: Counts, now: Counts) -> tuple[Share, Share]:
        asked, other = self._raw(first, now)
        touched = self._touched(first, now)
        return (
            Share(asked, self.main.error(touched, _inside(asked))),
            Share(other, self.control.error(touched, _inside(other))),
        )

    def _raw(self, first: Counts, now: Counts) -> tuple[float, float]:
        sign = 1 if self.newcomers else -1
        return self.main.share(sign * (now.main - first.main)), self.control.share(sign * (first.control - now.control))

    def _touched(self, first: Counts, now: Counts) -> float:
        """The share of the users that was touched: the estimate and its standard error, to be on the safe side."""
        asked, other = self._raw(first, now)
        at_most = self.main.error(1.0, _inside(asked)), self.control.error(1.0, _inside(other))
        return max(_inside(asked + other + hypot(*(error.stderr for error in at_most))), _inside(asked))


def _inside(share: float) -> float:
    return min(max(share, 0.0), 1.0)
