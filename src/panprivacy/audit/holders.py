"""Estimators as the stream of an audit meets them: by themselves, in a file, in a folder, in windows of time.

Each holder is an object whose memory is what an intruder finds there, and whose verbs are those of a stream. It states
its loss as `claimed_epsilon` and `claimed_delta`.
"""

import pickle
import tempfile
from collections.abc import Callable
from math import expm1
from pathlib import Path
from typing import Any, Self

from panprivacy.audit.enumeration.auditor import claim_of
from panprivacy.estimators.continual import Continual
from panprivacy.estimators.continual.observed import DriftTest, Observed, drawn_bits
from panprivacy.estimators.continual.shares import Shares
from panprivacy.estimators.merge import merge
from panprivacy.estimators.retention import Retention
from panprivacy.estimators.windows import Windows
from panprivacy.folder import StateFolder, gather
from panprivacy.folder.combining import Combiner
from panprivacy.paper import LaplaceMechanism, RandomizedResponse
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.coins import Coins
from panprivacy.state import load
from panprivacy.testing import SeededCoins, set_coins
from panprivacy.universe import Ids, Range


class Maker:
    """A constructor and its options: a function without a closure, which an audit can look into."""

    def __init__(self, build: Callable[..., Any], coins: Coins, **options: Any) -> None:
        self.build, self.coins, self.options = build, coins, options

    def __call__(self) -> Any:
        return self.build(self.coins, **self.options)


class Holder:
    """What all holders share: the claim of the estimator that they hold, and the verbs of a stream."""

    claimed_epsilon: float
    claimed_delta: float

    def _claim(self, est: Any) -> None:
        self.claimed_epsilon, self.claimed_delta = claim_of(est)

    def _call(self, verb: str, *given: Any) -> Any:
        raise NotImplementedError

    def update(self, *event: Any) -> None:
        self._call("update", *event)

    def remove(self, *event: Any) -> None:
        self._call("remove", *event)

    def rerandomize(self) -> None:
        self._call("rerandomize")

    def release(self) -> Any:
        return self._call("release")


class InFile(Holder):
    """An estimator in a state file: every call loads it and writes it. An intruder reads the files."""

    def __init__(self, est: Any, coins: Coins) -> None:
        self._claim(est)
        self._coins, self._universe = coins, est.universe
        with tempfile.TemporaryDirectory() as folder:
            est.save(Path(folder) / "state.pp", insecure=True)
            self._files = files_in(folder)

    def _call(self, verb: str, *given: Any) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            put_files(folder, self._files)
            est = load(Path(folder) / "state.pp", self._universe)
            set_coins(est, self._coins)
            returned = called(est, verb, *given)  # which writes the file: a loaded estimator is bound to it
            self._files = files_in(folder)
        return returned


class Pickled(Holder):
    """An estimator as a pickle, between any two calls. An intruder reads the pickle."""

    def __init__(self, est: Any, coins: Coins) -> None:
        self._claim(est)
        self._coins, self._pickle = coins, pickled(est)

    def _call(self, verb: str, *given: Any) -> Any:
        est = pickle.loads(self._pickle)
        set_coins(est, self._coins)
        returned = called(est, verb, *given)
        self._pickle = pickled(est)
        return returned


class InFolder(Holder):
    """An estimator in a state folder of two shards, opened anew for every call. An intruder reads all its files."""

    def __init__(self, est: Any, coins: Coins) -> None:
        self._claim(est)
        self._coins, self._universe = coins, est.universe
        with tempfile.TemporaryDirectory() as place:
            set_coins(est, SeededCoins(0))  # for the name of the folder, which has too many outcomes to be walked
            StateFolder.holding(est, Path(place) / "folder", shards=min(2, self._universe.size or 2))
            self._files = files_in(place)

    def _call(self, verb: str, *given: Any) -> Any:
        with tempfile.TemporaryDirectory() as place:
            put_files(place, self._files)
            folder = StateFolder(Path(place) / "folder", self._listed, coins=self._coins)
            returned = getattr(folder, verb)(*given)
            self._files = files_in(place)
        return returned

    @property
    def _listed(self) -> Any:
        return self._universe if hasattr(self._universe, "groups") else None


class Combined(Holder):
    """An estimator that is fed with packed sets of slots, each gathered elsewhere, as the service takes them."""

    def __init__(self, est: Any, coins: Coins) -> None:  # noqa: ARG002 - its coins are those of the estimator
        self._claim(est)
        self._est = est

    def _call(self, verb: str, *given: Any) -> Any:
        if verb not in ("update", "remove"):
            return called(self._est, verb)
        combiner = Combiner()
        with gather(self._est.layout(), self._est.universe) as gathered:
            gathered.add([given[0]], *([each] for each in given[1:]))
            combiner.take(gathered.packed(), self._est, remove=verb == "remove")
        combiner.redraw(self._est)
        return None


class InWindows(Holder):
    """Windows of time whose estimators make all of their planned releases, the last one at the end of the window."""

    def __init__(self, make: Callable[[], Any], times: int = 1, readings: int | None = None) -> None:
        self._windows: Windows[Any] = Windows(make, every=1, start=0)
        self._now = 0
        self.claimed_epsilon = self._windows.loss(times, readings=readings)
        self.claimed_delta = delta_of(self._windows, times, readings)

    def update(self, *event: Any) -> None:
        self._windows.update(*event, time=self._now)

    def remove(self, *event: Any) -> None:
        self._windows.open.remove(*event)

    def rerandomize(self) -> None:
        self._windows.open.rerandomize()

    def release(self) -> Any:
        est: Any = self._windows.open
        if est.budget.releases_made + 1 < est.budget.releases:
            return next_release(est)
        self._now += 1
        return self._windows.advance(self._now)


class Cycles(Holder):
    """An estimator whose bits are drawn anew in every cycle, and what it states for so many of them."""

    def __init__(self, est: Any, cycles: int, readings: int | None) -> None:
        self._est = est
        self.claimed_epsilon = est.loss(cycles, readings=readings)
        self.claimed_delta = delta_of(est, cycles, readings)

    def _call(self, verb: str, *given: Any) -> Any:
        return getattr(self._est, verb)(*given)


class Alone(Holder):
    """An estimator by itself; one with two periods ends the first of them with its first release."""

    def __init__(self, est: Any) -> None:
        self._claim(est)
        self._est = est

    def _call(self, verb: str, *given: Any) -> Any:
        return called(self._est, verb, *given)


class Together(Alone):
    """Users who act as one: k of them lose k times epsilon, with ``delta * (e^(k*epsilon) - 1) / (e^epsilon - 1)``."""

    def __init__(self, est: Any, users: int) -> None:
        super().__init__(est)
        self.claimed_delta *= expm1(users * self.claimed_epsilon) / expm1(self.claimed_epsilon)
        self.claimed_epsilon *= users


class Merged(Holder):
    """Two parts, one of which holds each user, that are merged before the first release."""

    def __init__(self, parts: list[Any]) -> None:
        self._claim(parts[0])
        self._parts = parts

    def _call(self, verb: str, *given: Any) -> Any:
        if verb == "release" and len(self._parts) > 1:
            self._parts = [merge(self._parts)]
        return [getattr(part, verb)(*given) for part in self._parts]


class Shards(Merged):
    """The same with batches."""

    def update_many(self, ids: Ids) -> None:
        self._call("update_many", ids)

    def remove_many(self, ids: Ids) -> None:
        self._call("remove_many", ids)


class MergedWithAnother(Holder):
    """A table that is merged with one of other people, made just then, before its release: users may overlap."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._est, self._merged = make, make(), False
        self._claim(self._est)

    def _call(self, verb: str, *given: Any) -> Any:
        if verb == "release" and not self._merged:
            self._est, self._merged = merge([self._est, self._make()], overlapping=True), True
        return getattr(self._est, verb)(*given)


class Grown(Holder):
    """An estimator whose universe gets one more user before every release but the first."""

    def __init__(self, est: Any) -> None:
        self._claim(est)
        self._est, self._made = est, 0

    def _call(self, verb: str, *given: Any) -> Any:
        if verb == "release":
            self._made += 1
            if self._made > 1:
                self._est.grow(self._est.universe.size + 1)
        return getattr(self._est, verb)(*given)


class ByCategory(Holder):
    """An estimator by category, or a holder of one: users appear in one category, in the other, or in both."""

    def __init__(self, est: Any, one: str, other: str) -> None:
        self._est, self._one, self._other = est, one, other
        self._claim(est)

    def _call(self, verb: str, *given: Any) -> Any:
        return getattr(self._est, verb)(*given)

    def update(self, *event: Any) -> None:
        self._est.update(*event, self._one)

    def update_other(self, *event: Any) -> None:
        self._est.update(*event, self._other)

    def remove(self, *event: Any) -> None:
        self._est.remove(*event, self._one)

    def remove_other(self, *event: Any) -> None:
        self._est.remove(*event, self._other)


class TwoCategories(ByCategory):
    """The same with batches, for an estimator by itself."""

    def update_many(self, ids: Ids) -> None:
        self._est.update_many(ids, self._one)

    def update_other_many(self, ids: Ids) -> None:
        self._est.update_many(ids, self._other)


class OneBit:
    """The abstract machine: one user's bit, drawn anew after so many releases, beside what the estimator states."""

    def __init__(self, split: Any, claimed: tuple[float, float], cycle: int, coins: Coins) -> None:
        self._split, self._coins, self._cycle, self._made = split, coins, cycle, 0
        self.claimed_epsilon, self.claimed_delta = claimed
        self._bit = coins.flip(split.pair.absent)

    def update(self, user: Any) -> None:  # noqa: ARG002 - there is one
        self._bit = self._coins.flip(self._split.pair.present)

    def remove(self, user: Any) -> None:  # noqa: ARG002
        self._bit = self._coins.flip(self._split.pair.absent)

    def release(self) -> int:
        released = self._coins.noisy(int(self._bit), self._split.noise)
        self._made = (self._made + 1) % self._cycle
        if not self._made:
            self._bit = self._coins.flip(self._split.pair.absent)
        return released


def next_release(est: Any) -> Any:
    """The next release that is due."""
    return est.next_release() if hasattr(est, "next_release") else est.release()


def called(est: Any, verb: str, *given: Any) -> Any:
    """What a verb of a stream returns."""
    return next_release(est) if verb == "release" else getattr(est, verb)(*given)


def delta_of(est: Any, times: int, readings: int | None) -> float:
    """The delta that is stated for so many windows or cycles and readings."""
    stated = est.delta_of if hasattr(est, "delta_of") else est.delta
    return float(stated(times, readings=readings))


def pickled(est: Any) -> bytes:
    """The pickle that an estimator on secure coins would have: one on other coins is refused."""
    set_coins(est, coin_sources.system, claimed_secure=True)
    return pickle.dumps(est)


def files_in(folder: str) -> dict[str, bytes]:
    """All files of a folder, by their names."""
    root = Path(folder)
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def put_files(folder: str, files: dict[str, bytes]) -> None:
    """Write files back."""
    for name, content in files.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o600)


class Observer(Continual):
    """Continual observation, its observations being what an audit takes for releases."""

    release = Continual.observe

    def with_low_threshold(self) -> Self:
        """Move as soon as one user more is seen: the planned threshold is beyond the few users of an audit."""
        self._observed.drift_test.bar = 1
        return self

    @classmethod
    def of(cls, shares: Shares, users: int, coins: Coins) -> Self:
        """An observer of a stream with deletions, by these shares; it moves as soon as one user more is seen."""
        density = drawn_bits(Range(users), users, shares, coins)
        return cls._of_parts(density, Observed(DriftTest(shares, bar=1), 1.0, 0.05, planned=1, insert_only=False))


class Periods(Retention):
    """Two periods, the first of which ends with the first release of an audit: that of the cohort."""

    def release(self, level: float = 0.95) -> Any:
        return super().release(level) if self.closed else self.close(level)


class Mechanism:
    """A mechanism of the static model: the data are held in the clear, and one answer is given about them."""

    def __init__(self, users: int, mechanism: RandomizedResponse | LaplaceMechanism) -> None:
        self._present = [0] * users
        self._mechanism = mechanism
        self.claimed_epsilon = mechanism.epsilon

    def update(self, user: int) -> None:
        self._present[user] = 1

    def remove(self, user: int) -> None:
        self._present[user] = 0

    def release(self) -> Any:
        if isinstance(self._mechanism, RandomizedResponse):
            return self._mechanism.answer(self._present)
        return self._mechanism.release(self._present)
