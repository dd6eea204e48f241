"""Every pair of adjacent streams, with the readings and releases at every moment among their events.

Two streams are adjacent if they are the same once one user's events are deleted from both: that user's events may
be added, removed or moved. So all streams adjacent to each other share a *timeline*: the events of all other users,
the readings, the releases and the redraws, in one order. They differ in what the user does between its points. The
search walks over timelines, and carries along, for each, the laws under everything the user can have done so far.
A finished timeline is then only asked, for each outcome, for the largest and the smallest of its
probabilities under those laws: no pair need be formed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from panprivacy.audit.enumeration.machine import Laws, Step

READ = Step("read")
RELEASE = Step("release")
ESTIMATE = Step("estimate")
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


class Streams(Protocol):
    """Which streams are audited: a tree of beginnings, since each beginning of a stream is a stream."""

    @property
    def start(self) -> Any:
        """The empty stream."""

    def after(self, node: Any, event: Step) -> Any:
        """The beginning that is one event longer, or None if there is none."""

    def covers(self, node: Any, other: Any) -> bool:
        """Whether whatever can still follow the other beginning can follow this one."""


@dataclass(frozen=True)
class AllStreams:
    """Every stream up to a length; a beginning is the number of events that may still come."""

    start: int

    def after(self, node: int, event: Step) -> int | None:  # noqa: ARG002 (any event may follow)
        return node - 1 if node else None

    def covers(self, node: int, other: int) -> bool:
        return node >= other


class ListedStreams:
    """These streams and their beginnings."""

    def __init__(self, streams: Sequence[Sequence[Step]]) -> None:
        self.start = 0
        self._after: dict[tuple[int, Step], int] = {}
        for stream in streams:
            node = self.start
            for event in stream:
                node = self._after.setdefault((node, event), len(self._after) + 1)

    def after(self, node: int, event: Step) -> int | None:
        return self._after.get((node, event))

    def covers(self, node: int, other: int) -> bool:
        return node == other


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

    def after_reading(self) -> "Left":
        return replace(self, readings=self.readings - 1)

    def after_redraw(self) -> "Left":
        return replace(self, redraws=self.redraws - 1, readings=self.per_redraw)

    def after_release(self) -> "Left":
        left = self.releases - 1
        again = self.stretch and left % self.stretch == 0
        return replace(self, releases=left, readings=int(left > 0) if again else self.readings)

    def choices(self, release: Step) -> Iterator[tuple[Step, "Left"]]:
        """What can come next. A redraw comes after all readings before it: an unread stretch shows less."""
        if self.readings:
            yield READ, self.after_reading()
        elif self.redraws:
            yield REDRAW, self.after_redraw()
        if self.releases:
            yield release, self.after_release()


@dataclass(frozen=True)
class Beginning:
    """The law under one user's events so far, a batch that is not yet processed, and where the stream may go on."""

    law: int
    pending: Step | None
    node: Any


Front: TypeAlias = dict[Beginning, Path]


@dataclass
class Search:
    """A walk over all timelines around one user, reporting each finished one."""

    laws: Laws
    streams: Streams
    verbs: tuple[str, ...]
    release: Step
    batched: bool
    """Whether events come in batches, one between any two points of observation, instead of one by one."""
    report: Callable[[Finished], None]
    enough: Callable[[], bool]
    """Whether the search may stop, since nothing worse can come."""

    def around(self, user: int | tuple[int, ...], left: Left) -> None:
        """Walk over every timeline on which the events of this user, or of these, are the ones that differ."""
        people = range(len(self.laws.machine.users))
        own = user if isinstance(user, tuple) else (user,)
        self._own = [Step(verb, (one,)) for verb in self.verbs for one in own]
        self._others = [Step(verb, (other,)) for verb in self.verbs for other in people if other not in own]
        self._visited: set[tuple[frozenset[Beginning], Left]] = set()
        self._walk({Beginning(self.laws.start, None, self.streams.start): None}, left)

    def _walk(self, front: Front, left: Left) -> None:
        if self.enough():
            return
        if left.done:
            finished: Finished = {}
            for one, path in front.items():  # of streams that lead to the same law, the first is the shortest
                finished.setdefault(self.laws.ended(one.law), path)
            self.report(finished)
            return
        front = self._with_own_events(front)
        key = frozenset(front), left
        if key in self._visited:
            return
        self._visited.add(key)
        for point, rest in left.choices(self.release):
            self._walk(self._observed(front, point), rest)
        for event in self._others:
            grown = _reduced(self._grown(front, event), self.streams)
            if len(grown) > 1 or self._can_still_differ(grown):
                self._walk(grown, left)

    def _can_still_differ(self, front: Front) -> bool:
        return any(self.streams.after(one.node, event) is not None for one in front for event in self._own)

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
        for one, path in front.items():
            node = self.streams.after(one.node, event)
            if node is not None:
                yield self._fed(one, event, node), (path, event)

    def _fed(self, one: Beginning, event: Step, node: Any) -> Beginning:
        many = event.verb + "_many"
        if not (self.batched and self.laws.machine.can(many)):
            return Beginning(self.laws.after(self._processed(one), event), None, node)
        if one.pending and one.pending.verb == many:
            return Beginning(one.law, Step(many, one.pending.users + event.users), node)
        return Beginning(self._processed(one), Step(many, event.users), node)

    def _processed(self, one: Beginning) -> int:
        return self.laws.after(one.law, one.pending) if one.pending else one.law

    def _observed(self, front: Front, point: Step) -> Front:
        seen: list[tuple[Beginning, Path]] = []
        for one, path in front.items():
            law = self._processed(one)
            law = self.laws.read(law) if point is READ else self.laws.after(law, point)
            seen.append((Beginning(law, None, one.node), (path, point)))
        return _reduced(seen, self.streams)


def _reduced(found: Any, streams: Streams) -> Front:
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
