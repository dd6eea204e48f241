"""`Density`: what fraction of these users has shown up?"""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from panprivacy.checks import check_delta, check_epsilon, check_whole
from panprivacy.display import Rows, format_bytes
from panprivacy.estimates import ErrorModel, Release
from panprivacy.estimators.known import UniverseEstimator
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.coins import Coins
from panprivacy.privacy.pairs import Pair
from panprivacy.privacy.splitting import best_split
from panprivacy.registry import Traits
from panprivacy.slots import OneCategoryPerUser, Ranges, Slots
from panprivacy.slots.choosing import choose_slots
from panprivacy.table import Table
from panprivacy.universe import Universe
from panprivacy.universe.groups import Label


class Density(UniverseEstimator[Release]):
    r"""Estimate what fraction of a known universe of users has appeared in a stream, pan-privately.

    Every tracked user owns one bit. It starts as a coin of probability p0; each appearance redraws it with
    probability ``p1 = 1 - p0``, a deletion with p0 again. A release publishes the number of ones plus exact
    discrete noise, scaled to ``(noisy - m*p0) / (m*(p1-p0))``. An intruder who reads the whole state once,
    at any moment, and sees all releases, learns at most `epsilon` about any one user, however often that user appears.

    Parameters
    ----------
    universe
        The users there could be: a number N for ids 0..N-1, `pp.Users` for a list, `pp.Edges` for a graph.
    epsilon
        The total budget of this object's life.
    sample, memory
        Track a random sample of this many users, or as many as fit in this memory (``"16 KiB"``), instead of all.
    releases, intrusions
        How many releases, and how many announced readings of the state (each followed by `rerandomize`), the
        budget is planned for.
    delta
        A probability, such as 1e-9, with which more than epsilon may be lost. It buys Gaussian noise, which grows with
        the root of the number of releases; without it noise is Laplace's, which grows with the number, and nothing is
        ever lost beyond epsilon. Where Laplace noise errs less, up to about 20 releases, it is used, and `est.delta` is
        0.
    groups
        The group of each of the users 0..N-1, such as a region: one label each, text or integers, public like the
        universe. Each release then has every group, at no extra epsilon, since a user is in one. If the users of each
        group stand together, bits are all the memory it takes; else the users become a list in order of groups. For
        listed users: ``pp.Users(ids, groups=column)``.
    categories, other
        What events can be in, such as clinics: ``update(user, category)``. A user may be in all of them, and is asked
        about one, which the key chooses; events in others leave no trace. Each release has every category, from as
        many users as there are to each. An event in a category that is not listed is refused, or, with ``other=True``,
        gathered in one called "other".
    shard
        ``(i, n)``: this object owns part i of n of the slots, to be merged with the others by `pp.merge`. It may be
        fed the whole stream. Sampled shards must share a `key` of 16 bytes.
    coins
        The source of randomness; anything but the default makes the estimator insecure, and it says so.

    Examples
    --------
    >>> import panprivacy as pp
    >>> est = pp.Density(universe=100_000, epsilon=1.0)
    >>> est.update_many(range(63_000))
    >>> r = est.release()
    >>> 0.6 < r.density < 0.66, r.epsilon_remaining
    (True, 0.0)
    >>> clinics = pp.Density(universe=300_000, epsilon=1.0, categories=["flu", "cold"])
    >>> clinics.update_many(range(90_000), "flu"); clinics.update(7, "cold")
    >>> {row.group: round(row.density, 1) for row in clinics.release().groups}
    {'flu': 0.3, 'cold': 0.0}

    Notes
    -----
    This is the paper's OptBern (Alg. 2) with one bit for every user or a keyed sample, noise of the right size, and
    the split of the budget that errs least. Two readings without `rerandomize` between them are not protected, by
    this or any other algorithm of its kind.
    """

    KIND: ClassVar[int] = 1
    OVERLAPPING: ClassVar[str] = "shards do not overlap: merge them without overlapping=True"
    TRAITS: ClassVar[Traits] = Traits(
        "density",
        ("sample", "memory", "releases", "intrusions", "delta", "categories", "other"),
        in_folder=True,
    )
    _slots: Slots | OneCategoryPerUser
    _table: Table

    def __init__(
        self,
        universe: int | Universe,
        epsilon: float,
        *,
        sample: int | None = None,
        memory: str | int | None = None,
        releases: int = 1,
        intrusions: int = 0,
        delta: float | None = None,
        groups: Any = None,
        categories: Iterable[Label] | None = None,
        other: bool = False,
        shard: tuple[int, int] | None = None,
        key: bytes | None = None,
        coins: Coins | None = None,
    ) -> None:
        source = coin_sources.given(coins)
        chosen = choose_slots(
            universe,
            source,
            sample=sample,
            memory=memory,
            groups=groups,
            categories=categories,
            other=other,
            shard=shard,
            key=key,
        )
        delta = check_delta(delta)
        plan = check_whole(releases, "releases"), check_whole(intrusions, "intrusions")
        split = best_split(check_epsilon(epsilon), chosen.each, *plan, delta)
        self._start(chosen.users, chosen.slots, split, source)

    # --- what leaves --------------------------------------------------------------------------------------------

    def _law(self, ranges: Ranges | None = None, pair: Pair | None = None) -> ErrorModel:
        return ErrorModel(*self._tracked(ranges, pair))

    def _estimates(self, law: ErrorModel, noisy: NDArray[np.int64], level: float) -> Iterator[tuple[Any, float]]:
        if isinstance(law.bits, int):  # all users together
            yield Release.of_share(law.estimate(noisy.item(), level), law.population), law.noise_stderr
            return
        shares = law.estimates(noisy[:, 0].tolist(), level)
        for share, population, noise in zip(shares, law.population.tolist(), law.noise_stderr.tolist(), strict=True):
            yield Release.of_share(share, population), noise

    def _release(self, **parts: Any) -> Release:
        return Release(**parts)

    def density_stderr_at(self, density: float, group: Label | None = None) -> float:
        """The standard error that a release now would have, if this were the true density: of all, or of one group.

        With categories there is no density of all users: then it is the error of the category that errs most.
        """
        ranges = self._slots.ranges
        if ranges is None or (group is None and not isinstance(self._slots, OneCategoryPerUser)):
            return float(self._law().stderr(density))
        errors = self._law(ranges).stderr(density)
        return float(errors.max() if group is None else errors[ranges.number(group)])

    def expected_errors(self) -> dict[str, float | None]:
        """The standard error of a release, if half of the users appear."""
        return {"density_stderr": self.density_stderr_at(0.5)}

    def _described(self) -> str:
        tracked = "all" if self.users == self._universe.size else f"{self.users:,}"
        whom = f"{self._whom()}, {tracked} tracked in {format_bytes(self.memory)}"
        return f"<{type(self).__name__} of {whom}; {self._spent()}>"

    def _rows(self) -> Rows:
        of = " of the worst category" if self.categories else ""
        return (
            ("universe", self._whom()),
            ("tracked", f"{self.users:,} users in {format_bytes(self.memory)}"),
            *self.budget.card().rows,
            ("error", f"± {self.density_stderr_at(0.5):.4f} (standard error at density 1/2{of})"),
            *self._group_rows(lambda ranges: self._law(ranges).stderr(0.5)),
        )
