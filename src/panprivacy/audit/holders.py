"""Estimators as the stream of an audit meets them: by themselves, in a file, in a folder, in windows of time.

An intruder finds the memory of a holder. Its methods are the verbs of a stream. It states its loss as
`claimed_epsilon` and `claimed_delta`.
"""

import os
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from panprivacy.audit.enumeration import claim_of
from panprivacy.estimators.continual import Continual, DriftTest, Observed, drawn_bits
from panprivacy.estimators.continual_law import Shares
from panprivacy.estimators.merge import merge
from panprivacy.estimators.windows import Windows
from panprivacy.folder import StateFolder, gather
from panprivacy.folder.batches import Combiner
from panprivacy.folder.shards import shard_name
from panprivacy.privacy import coins as coin_sources
from panprivacy.privacy.coins import Coins
from panprivacy.state import load
from panprivacy.testing import SeededCoins, observed_of, set_coins
from panprivacy.universe import Range


def new_place() -> "tempfile.TemporaryDirectory[str]":
    """A new folder that is removed in the end, in memory where it can be: disks take longer than all else."""
    memory = "/dev/shm"  # Linux's file system in memory
    return tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None)


class Maker:
    """A constructor and its options: a function without a closure, which an audit can look into."""

    def __init__(self, build: Callable[..., Any], coins: Coins, **options: Any) -> None:
        self.build, self.coins, self.options = build, coins, options

    def __call__(self) -> Any:
        return self.build(self.coins, **self.options)


def _verb(name: str) -> Any:
    def verb(self: "Holder", *given: Any) -> Any:
        return self._call(name, *given)

    return verb


class Holder:
    """An estimator by itself: the verbs of a stream, and the stated loss, which is the estimator's own unless given.

    An estimator with two periods ends the first of them with its first release.
    """

    def __init__(self, est: Any, _: Coins | None = None, *, claim: tuple[float, float] | None = None) -> None:
        self._est = est
        self.claimed_epsilon, self.claimed_delta = claim or claim_of(est)

    def _call(self, verb: str, *given: Any) -> Any:
        if verb == "release" and hasattr(self._est, "next_release"):
            verb = "next_release"
        return getattr(self._est, verb)(*given)

    update, remove, rerandomize, release = map(_verb, ("update", "remove", "rerandomize", "release"))


class Stored(Holder):
    """An estimator that lies in files between any two calls. An intruder reads the files."""

    def __init__(self, est: Any, coins: Coins) -> None:
        super().__init__(None, claim=claim_of(est))
        self._coins, self._universe = coins, est.universe
        with new_place() as place:
            self._store(est, Path(place) / "state")
            self._files = files_in(place)

    def _call(self, verb: str, *given: Any) -> Any:
        with new_place() as place:
            put_files(place, self._files)
            self._est = self._open(Path(place) / "state")
            returned = super()._call(verb, *given)
            self._close(self._est, Path(place) / "state")
            self._est, self._files = None, files_in(place)
        return returned

    _store: Callable[[Any, Path], None]
    _open: Callable[[Path], Any]

    def _close(self, est: Any, path: Path) -> None:
        """Write what has changed, unless the estimator has."""


class InFile(Stored):
    """An estimator in a state file: every call loads it, and writes it, since a loaded estimator is bound to a file."""

    def _store(self, est: Any, path: Path) -> None:
        est.save(path, insecure=True)

    def _open(self, path: Path) -> Any:
        est = load(path, self._universe)
        set_coins(est, self._coins)
        return est


class Pickled(Stored):
    """An estimator as a pickle: as one on secure coins would have it, since one on other coins is refused."""

    def _store(self, est: Any, path: Path) -> None:
        set_coins(est, coin_sources.system, claimed_secure=True)
        path.write_bytes(pickle.dumps(est))

    def _open(self, path: Path) -> Any:
        est = pickle.loads(path.read_bytes())
        set_coins(est, self._coins)
        return est

    _close = _store


class InFolder(Stored):
    """An estimator in a state folder of two shards, opened anew for every call."""

    def _store(self, est: Any, path: Path) -> None:
        set_coins(est, SeededCoins(0))  # for the name of the folder, which has too many outcomes to be walked
        StateFolder.holding(est, path, shards=min(2, self._universe.size or 2))

    def _open(self, path: Path) -> Any:
        listed = self._universe if hasattr(self._universe, "groups") else None
        return StateFolder(path, listed, coins=self._coins)


class LosingShards(InFolder):
    """The same, with a shard that is lost before every release, and replaced by a new one."""

    def release(self) -> Any:
        lost = f"state/{shard_name(0)}.pp"
        with new_place() as place:
            put_files(place, {name: content for name, content in self._files.items() if name != lost})
            self._open(Path(place) / "state").replace_shard(0)
            self._files = files_in(place)
        return super().release()


class Combined(Holder):
    """An estimator that is fed with packed sets of slots, each gathered elsewhere, as the service takes them."""

    def _call(self, verb: str, *given: Any) -> Any:
        if verb not in ("update", "remove"):
            return super()._call(verb)
        combiner = Combiner()
        with gather(self._est.layout(), self._est.universe) as gathered:
            gathered.add([given[0]], *([each] for each in given[1:]))
            combiner.take(gathered.packed(), self._est, remove=verb == "remove")
        combiner.redraw(self._est)
        return None


class InWindows(Holder):
    """Windows of time whose estimators make all of their planned releases, the last one at the end of the window."""

    def __init__(self, make: Callable[[], Any], times: int = 1, readings: int | None = None) -> None:
        windows: Windows[Any] = Windows(make, every=1, start=0)
        super().__init__(windows, claim=claim_for(windows, times, readings))
        self._now = 0

    def _call(self, verb: str, *given: Any) -> Any:
        if verb == "update":
            return self._est.update(*given, time=self._now)
        est: Any = self._est.open
        if verb != "release":
            return getattr(est, verb)(*given)
        if est.budget.releases_made + 1 < est.budget.releases:
            return est.next_release()
        self._now += 1
        return self._est.advance(self._now)


class Merged(Holder):
    """Two parts, one of which holds each user, that are merged before the first release."""

    def __init__(self, parts: list[Any]) -> None:
        super().__init__(None, claim=claim_of(parts[0]))
        self._parts = parts

    def _call(self, verb: str, *given: Any) -> Any:
        if verb == "release" and len(self._parts) > 1:
            self._parts = [merge(self._parts)]
        return [getattr(part, verb)(*given) for part in self._parts]

    update_many, remove_many = _verb("update_many"), _verb("remove_many")


class MergedWithAnother(Holder):
    """A table that is merged with one of other people, made just then, before its release: users may overlap."""

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__(make())
        self._make, self._merged = make, False

    def _call(self, verb: str, *given: Any) -> Any:
        if verb == "release" and not self._merged:
            self._est, self._merged = merge([self._est, self._make()], overlapping=True), True
        return super()._call(verb, *given)


class Grown(Holder):
    """An estimator whose universe gets one more user before every release but the first."""

    def __init__(self, est: Any) -> None:
        super().__init__(est)
        self._made = 0

    def _call(self, verb: str, *given: Any) -> Any:
        if verb == "release":
            self._made += 1
            if self._made > 1:
                self._est.grow(self._est.universe.size + 1)
        return super()._call(verb, *given)


class ByCategory(Holder):
    """An estimator by category, or a holder of one: users appear in one category, in the other, or in both."""

    def __init__(self, est: Any, one: str, other: str) -> None:
        super().__init__(est)
        self._one, self._other = one, other

    def _call(self, verb: str, *given: Any) -> Any:
        if not verb.startswith(("update", "remove")):
            return super()._call(verb, *given)
        category = self._other if "_other" in verb else self._one
        return getattr(self._est, verb.replace("_other", ""))(*given, category)

    update_other, remove_other = _verb("update_other"), _verb("remove_other")


class TwoCategories(ByCategory):
    """The same with batches, for an estimator by itself."""

    update_many, update_other_many = _verb("update_many"), _verb("update_other_many")


class OneBit:
    """The abstract machine: one user's bit, drawn anew after each cycle of releases, and the loss that is stated."""

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


def claim_for(est: Any, times: int, readings: int | None) -> tuple[float, float]:
    """Epsilon and delta that windows, or an estimator with cycles, state for this many of them and readings."""
    stated = est.delta_of if hasattr(est, "delta_of") else est.delta
    return est.loss(times, readings=readings), float(stated(times, readings=readings))


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


class ObserverByShares(Continual):
    """Continual observation by given shares; it moves as soon as one user more is seen."""

    @classmethod
    def of(cls, shares: Shares, users: int, coins: Coins) -> Self:
        """An observer of a stream with deletions."""
        density = drawn_bits(Range(users), users, shares, coins)
        return cls._of_parts(density, Observed(DriftTest(shares, bar=1), 1.0, 0.05, planned=1, insert_only=False))


def with_low_threshold(observer: Continual) -> Continual:
    """Move as soon as one user more is seen: the planned threshold is beyond the few users of an audit."""
    observed_of(observer).drift_test.bar = 1
    return observer


class Mechanism:
    """A mechanism of the static model: the data are held in the clear, and one answer is given about them."""

    def __init__(self, users: int, epsilon: float, answer: Callable[[list[int]], Any]) -> None:
        self._present, self.claimed_epsilon, self._answer = [0] * users, epsilon, answer

    def update(self, user: int) -> None:
        self._present[user] = 1

    def remove(self, user: int) -> None:
        self._present[user] = 0

    def release(self) -> Any:
        return self._answer(self._present)
