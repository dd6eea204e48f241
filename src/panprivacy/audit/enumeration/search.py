"""Every pair of adjacent streams, with the readings and releases at every moment among their events.

Two streams are adjacent if they are the same once one user's events are deleted from both: that user's events may
be added, removed or moved. So all streams adjacent to each other share a *timeline*: the events of all other users,
the readings, the releases and the redraws, in one order. They differ in what the user does between its points. The
search walks over timelines, and carries along, for each, the laws under everything the user can have done so far.
A finished timeline is then only asked, for each outcome, for the largest and the smallest of its
probabilities under those laws: no pair need be formed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from panprivacy.audit.enumeration.machine import Laws, Step

if TYPE_CHECKING:
    from panprivacy.audit.enumeration.loss import Judge

READ = Step("read")
RELEASE = Step("release")
REDRAW = Step("rerandomize")

Path: TypeAlias = "tuple[Path, Step] | None"
"""How a law came about: the last step, and those before it."""

Finished: TypeAlias = dict[int, Path]
"""The laws of a finished timeline under all that one user can have done, and how each came about."""


def steps_of(path: Path) -> tuple[Step, ...]:
    """The steps of a path in their order."""
    steps: list[Step] = []
    while path is not None:
        path, step = path
        steps.append(step)
    return tuple(reversed(steps))


class Streams:
    """Which streams are audited: a tree of beginnings, since each beginning of a stream is a stream.

    Those that are listed, or all up to a length: then a beginning is the number of events that may still come.
    """

    def __init__(self, length: int = 0, listed: Iterable[Iterable[Step]] | None = None) -> None:
        self.start = length if listed is None else 0
        self._all = listed is None
        self._longer: dict[tuple[int, Step], int] = {}
        for stream in listed or ():
            node = self.start
            for event in stream:
                node = self._longer.setdefault((node, event), len(self._longer) + 1)

    def after(self, node: int, event: Step) -> int | None:
        """The beginning that is one event longer, or None if there is none."""
        if self._all:
            return node - 1 if node else None
        return self._longer.get((node, event))

    def covers(self, node: int, other: int) -> bool:
        """Whether whatever can still follow the other beginning can follow this one."""
        return node >= other if self._all else node == other


@dataclass(frozen=True)
class Left:
    """What may still be seen."""

    releases: int
    readings: int
    """Readings before the next redraw."""
    redraws: int = 0
    per_redraw: int = 0
    """Readings after each redraw."""
    stretch: int = 0
    """After this many releases one reading is left again, unless no release is; 0 if readings do not depend on them."""

    @property
    def done(self) -> bool:
        return not (self.readings or self.redraws or self.releases)

    def choices(self, release: Step) -> Iterator[tuple[Step, "Left"]]:
        """What can come next. A redraw comes after all readings before it: an unread stretch shows less."""
        if self.readings:
            yield READ, replace(self, readings=self.readings - 1)
        elif self.redraws:
            yield REDRAW, replace(self, redraws=self.redraws - 1, readings=self.per_redraw)
        if self.releases:
            left = self.releases - 1
            again = self.stretch and left % self.stretch == 0
            yield release, replace(self, releases=left, readings=int(left > 0) if again else self.readings)


@dataclass(frozen=True)
class Beginning:
    """The law under one user's events so far, a batch that is not yet processed, and where the stream may go on."""

    law: int
    pending: Step | None
    node: int


Front: TypeAlias = dict[Beginning, Path]


@dataclass
class Search:
    """A walk over all timelines around one user, reporting each finished one."""

    laws: Laws
    streams: Streams
    verbs: tuple[str, ...]
    batched: bool
    """Whether events come in batches, one between any two points of observation, instead of one by one."""
    judge: "Judge"
    """Hears of each finished timeline, and ends the search when nothing worse can come."""

    def around(self, own: tuple[int, ...], left: Left) -> None:
        """Walk over every timeline on which the events of these users are the ones that differ."""
        people = range(len(self.laws.machine.users))
        self._own = [Step(verb, (one,)) for verb in self.verbs for one in own]
        self._others = [Step(verb, (other,)) for verb in self.verbs for other in people if other not in own]
        self._visited: set[tuple[frozenset[Beginning], Left]] = set()
        self._walk({Beginning(self.laws.start, None, self.streams.start): None}, left)

    def _walk(self, front: Front, left: Left) -> None:
        if self.judge.is_certain():
            return
        if left.done:
            finished: Finished = {}
            for one, path in front.items():  # of streams that lead to the same law, the first is the shortest
                finished.setdefault(self.laws.ended(one.law), path)
            self.judge.hear(finished)
            return
        front = self._with_own_events(front)
        key = frozenset(front), left
        if key in self._visited:
            return
        self._visited.add(key)
        for point, rest in left.choices(self.laws.machine.release):
            self._walk(self._observed(front, point), rest)
        for event in self._others:
            grown = _reduced(self._grown(front, event), self.streams)
            can_differ = (self.streams.after(one.node, event) is not None for one in grown for event in self._own)
            if len(grown) > 1 or any(can_differ):
                self._walk(grown, left)

    def _with_own_events(self, front: Front) -> Front:
        """Add all that the user can do before the next point of the timeline."""
        whole, fresh = dict(front), front
        while fresh:
            grown = {one: path for event in self._own for one, path in self._grown(fresh, event)}
            before = whole
            whole = _reduced([*whole.items(), *grown.items()], self.streams)
            fresh = {one: path for one, path in whole.items() if one not in before}
        return whole

    def _grown(self, front: Front, event: Step) -> Iterator[tuple[Beginning, Path]]:
        """Add one event to each beginning that it may follow; to its batch, where events come in batches."""
        many = event.verb + "_many"
        for one, path in front.items():
            node = self.streams.after(one.node, event)
            if node is None:
                continue
            if not (self.batched and self.laws.machine.can(many)):
                longer = Beginning(self.laws.after(self._processed(one), event), None, node)
            elif one.pending and one.pending.verb == many:
                longer = Beginning(one.law, Step(many, one.pending.users + event.users), node)
            else:
                longer = Beginning(self._processed(one), Step(many, event.users), node)
            yield longer, (path, event)

    def _processed(self, one: Beginning) -> int:
        return self.laws.after(one.law, one.pending) if one.pending else one.law

    def _observed(self, front: Front, point: Step) -> Front:
        seen: list[tuple[Beginning, Path]] = []
        for one, path in front.items():
            law = self._processed(one)
            law = self.laws.read(law) if point is READ else self.laws.after(law, point)
            seen.append((Beginning(law, None, one.node), (path, point)))
        return _reduced(seen, self.streams)


def _reduced(found: Iterable[tuple[Beginning, Path]], streams: Streams) -> Front:
    """Leave out what another beginning with the same law covers."""
    fronts: dict[tuple[int, Step | None], Front] = {}
    for one, path in found:
        rivals = fronts.setdefault((one.law, one.pending), {})
        if any(streams.covers(rival.node, one.node) for rival in rivals):
            continue
        for rival in [rival for rival in rivals if streams.covers(one.node, rival.node)]:
            del rivals[rival]
        rivals[one] = path
    return {one: path for rivals in fronts.values() for one, path in rivals.items()}
