"""Evidence in words: the streams, the moment, the state and the release of a finding."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from itertools import groupby
from math import fsum, isinf
from typing import Any

import numpy as np

from panprivacy.audit.enumeration.delta import DeltaJudge, Excess, Place, Region, contrast_of, region
from panprivacy.audit.enumeration.loss import Finding, Judge, Visible
from panprivacy.audit.enumeration.machine import CODE, LOCKS, METHODS, Machine, Step, attributes, tombstones
from panprivacy.audit.enumeration.outcomes import EveryOutcome, Noised

AGREE = 1e-12
"""A claim is a float, computed in floats: it is compared to twelve digits."""


@dataclass(frozen=True)
class Witness:
    """Two streams that differ in one user's events, and what an observer sees that tells them apart best."""

    user: str
    """Whose events differ."""
    stream_a: tuple[str, ...]
    """The stream under which the observation is likelier, with readings, releases and redraws at their moments."""
    stream_b: tuple[str, ...]
    """The stream under which it is less likely."""
    moment: str
    """When the state was read."""
    state: str
    """The state seen: those parts of the memory that can differ."""
    release: str
    """What was released."""
    probability_a: float
    """Probability of that observation under `stream_a`; a density if the noise is on real numbers."""
    probability_b: float
    others: tuple[str, ...] = ()
    """With a delta: all else that is seen and tells the streams apart. The probabilities are of all of it together."""

    def __str__(self) -> str:
        return (
            f"Streams that differ in the events of user {self.user}:\n"
            f"  A: {', '.join(self.stream_a)}\n"
            f"  B: {', '.join(self.stream_b)}\n"
            f"Seen: {self.seen}\n"
            f"Moment: {self.moment}\n"
            f"Probability: {self.probability_a:.6g} under A, {self.probability_b:.6g} under B"
        )

    @property
    def seen(self) -> str:
        """The observation in one line."""
        first = "; ".join(part for part in (self.state, self.release) if part)
        return f"{first}, or {len(self.others)} more such" if self.others else first

    @property
    def sentence(self) -> str:
        """The evidence in one sentence."""
        against = "impossible" if not self.probability_b else f"{self.probability_b:.3g}"
        a, b = ", ".join(self.stream_a), ", ".join(self.stream_b)
        return f"{self.seen}: {self.probability_a:.3g} after '{a}', {against} after '{b}'"


@dataclass(frozen=True)
class Result:
    """The worst that an observer can learn about one user, beside what was claimed."""

    worst_loss: float
    """``ln`` of the largest ratio of probabilities, rounded up; infinite if something seen rules a stream out.

    With a delta: the epsilon that is kept with the claimed delta, to six digits.
    """
    claimed: float
    """What the estimator says of itself."""
    settled: bool
    """False if `worst_loss` is only a lower bound, because the width of the noise was itself hidden from view."""
    witness: Witness | None
    """Where the worst loss occurs; None if nothing that is seen depends on anybody."""
    timelines: int
    """How many different sets of laws were compared."""
    states: int
    """How many states of the memory were reached."""
    reach: int | None = None
    """How far from zero numbers were followed that stay in the state with noise on them; None if there are none.

    Such a number has infinitely many values. What leads beyond is left out, and the loss is exact up to the weight of
    that.
    """
    worst_delta: float = 0.0
    """With a delta: the largest that is needed at the claimed epsilon, never too small."""
    claimed_delta: float = 0.0
    """What the estimator says of itself; 0 if it claims epsilon alone, and then no delta is looked for."""

    @property
    def holds(self) -> bool:
        """Whether the loss is at most what was claimed, to twelve digits; with a delta, whether the delta is."""
        if self.claimed_delta:
            return self.worst_delta <= self.claimed_delta
        return self.settled and self.worst_loss <= self.claimed * (1 + AGREE)

    def __str__(self) -> str:
        verdict = (
            "holds"
            if self.holds
            else "DOES NOT HOLD"
            if self.claimed_delta or self.worst_loss > self.claimed
            else "is not proven"
        )
        if self.reach is not None:
            verdict += f" (noise in the state followed up to {self.reach})"
        if self.claimed_delta:
            head = (
                f"worst delta {self.worst_delta:.3g} at epsilon {self.claimed:.6f}, claimed {self.claimed_delta:.3g}: "
                f"the claim {verdict} (at delta {self.claimed_delta:.3g}, epsilon {self.worst_loss:.6f})"
            )
        else:
            bound = "" if self.settled or isinf(self.worst_loss) else "at least "
            head = f"worst loss {bound}{self.worst_loss:.6f}, claimed {self.claimed:.6f}: the claim {verdict}"
        return f"{head}\n{self.witness}" if self.witness else head

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        loss = "infinite" if isinf(self.worst_loss) else self.worst_loss
        claimed = "infinite" if isinf(self.claimed) else self.claimed
        return asdict(self) | {"worst_loss": loss, "claimed": claimed, "holds": self.holds}


_WORDS = {
    "update": "{} appears",
    "update_other": "{} appears in the other category",
    "remove": "{} is deleted",
    "remove_other": "{} is deleted from the other category",
    "read": "state read",
    "rerandomize": "redraw",
    "next_release": "release",
    "release": "release",
    "estimate": "release",
}


def witness_of(judge: Judge, machine: Machine) -> Witness | None:
    """Put the worst that a judge has found into words: noisy numbers, or without noise, what was returned."""
    if judge.worst is None:
        return None
    if isinstance(judge, DeltaJudge):
        return _witness_of_delta(judge, machine)
    finding: Finding = judge.worst
    gap = finding.gap
    columns = zip(*(one.numbers for one in gap.hidden), strict=True)
    shown = [_number(seen, column) for seen, column in zip(gap.point, columns, strict=True)]
    return _tell(
        finding,
        machine,
        state=_states_read(finding.visible, finding.rivals, machine),
        release=_released(shown) or _returned(finding.visible, machine),
        probability_a=float(gap.above),
        probability_b=float(gap.below),
    )


def _tell(found: Finding | Excess, machine: Machine, **seen: Any) -> Witness:
    """A witness: two streams, the user whose events they differ in, the moments of readings, and what was seen."""
    a, b = found.steps_a, found.steps_b
    user = next(
        user
        for i, user in enumerate(machine.users)
        if [step for step in a if step.users != (i,)] == [step for step in b if step.users != (i,)]
    )
    events_before = [
        [sum(bool(step.users) for step in steps[:i]) for i, step in enumerate(steps) if step.verb == "read"]
        for steps in (a, b)
    ]
    when = [f"read after {n} events of A and {m} of B" for n, m in zip(*events_before, strict=True)]
    return Witness(
        user=str(user),
        stream_a=_say(a, machine),
        stream_b=_say(b, machine),
        moment=" and ".join(when) or "the state is not read",
        **seen,
    )


def _states_read(visible: Visible, rivals: Sequence[Visible], machine: Machine) -> str:
    """The states that were read, in those parts in which others could have been read."""
    states = [
        _describe(part[1], {sight[i][1] for sight in rivals if sight[i][0] == "state"}, machine)
        for i, part in enumerate(visible)
        if part[0] == "state"
    ]
    return f"state {', then '.join(states)}" if states else ""


def _describe(state: Any, rivals: set[Any], machine: Machine) -> str:
    """Those parts of a state's memory in which it differs from some other state that could have been read.

    What an estimator shows as its `state` is easier to read than its memory, and used if it tells all states apart.
    """
    estimators = [machine.estimators[i] for i in [state, *(rivals - {state})]]
    shown = [getattr(est, "state", None) for est in estimators]
    things = shown if shown.count(shown[0]) == 1 else estimators
    here, *others = (
        {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in leaves(thing)}
        for thing in things
    )
    parts = [
        f"{name}={_show(value, [other[name] for other in others if name in other])}"
        for name, value in here.items()
        if any(other.get(name) != value for other in others)
    ]
    parts += [f"no {name}" for name in dict.fromkeys(name for other in others for name in other if name not in here)]
    return " ".join(parts) or "that is always the same"


def leaves(thing: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The named values in a memory."""
    if isinstance(thing, (EveryOutcome, memoryview, *LOCKS, *CODE, *METHODS)):
        return
    if isinstance(thing, np.ndarray):
        yield name, thing
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield from leaves(value, f"{name}.{key}" if name else str(key))
    elif isinstance(thing, set | frozenset):
        yield name, sorted(thing, key=repr)
        yield f"{name} (removed)", tombstones(thing)
    elif hasattr(thing, "_asdict"):
        yield from leaves(thing._asdict(), name)
    elif isinstance(thing, list | tuple) and any(hasattr(item, "__dict__") for item in thing):
        for i, item in enumerate(thing):
            yield from leaves(item, f"{name}[{i}]")
    elif hasattr(thing, "__dict__"):
        for attribute, value in attributes(thing):
            yield from leaves(value, f"{name}.{attribute.lstrip('_')}" if name else attribute.lstrip("_"))
    elif not repr(thing).endswith(f" object at {id(thing):#x}>"):
        yield name, thing


def _show(value: Any, rivals: Sequence[Any]) -> str:
    """Print a value; packed bits as bits, the first lowest."""
    everyone = [value, *rivals]
    if all(isinstance(x, list) and len(x) == 1 and isinstance(x[0], int) and x[0] >= 0 for x in everyone):
        width = max(x[0].bit_length() for x in everyone)
        if width <= 24:
            return f"{value[0]:0{width}b}"[::-1]
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _say(steps: Sequence[Step], machine: Machine) -> tuple[str, ...]:
    """A stream in words, repetitions counted."""
    said = []
    for step, run in groupby(steps):
        times = len(list(run))
        words = _WORDS.get(step.verb, f"{step.verb} {{}}").format(*(machine.users[i] for i in step.users))
        said.append(words if times == 1 else f"{words} {times} times")
    return tuple(said)


def _released(shown: Sequence[str]) -> str:
    return f"released {', '.join(shown)}" if shown else ""


def _returned(visible: Visible, machine: Machine) -> str:
    """What releases returned, noise aside."""
    return _released([machine.returned[part[1]] for part in visible if part[0] == "released"])


def _number(seen: Any, column: Sequence[Noised]) -> str:
    """A noisy number. Beyond the outermost values that noise can hide, all outputs tell the same."""
    if isinstance(seen, Decimal):
        return "far above" if seen > 0 else "far below"
    values = [number.value for number in column]
    text = f"{float(seen):.6g}"
    if max(values) == min(values):
        return text
    return f">= {text}" if seen == max(values) else f"<= {text}" if seen == min(values) else text


def _witness_of_delta(judge: DeltaJudge, machine: Machine) -> Witness | None:
    """What adds most to the delta first.

    None if nothing that was followed tells more than epsilon; the delta is then what was not followed.
    """
    one, other = (judge.views.of(law) for law in (judge.worst.law_a, judge.worst.law_b))
    sights = [judge.views.visible[seen] for seen in {**one, **other}]
    told: list[tuple[float, float, str, str]] = []
    for seen, weights in one.items():
        contrast, share, place = contrast_of(weights, other.get(seen))
        if found := region(contrast, judge.epsilon):
            visible, scale = judge.views.visible[seen], float(share * contrast.whole)
            numbers = len(next(iter(weights.shares)).numbers)
            shown = _said(found, place, numbers) if numbers else _returned(visible, machine)
            told.append((scale * found.a, scale * found.b, _states_read(visible, sights, machine), shown))
    if not told:
        return None
    told.sort(key=lambda part: -part[0])
    first, *others = told
    return _tell(
        judge.worst,
        machine,
        state=first[2],
        release=first[3],
        probability_a=fsum(a for a, *_ in told),
        probability_b=fsum(b for _, b, *_ in told),
        others=tuple("; ".join(part for part in (state, shown) if part) for *_, state, shown in others),
    )


def _said(found: Region, place: Place, numbers: int) -> str:
    """A set of noisy numbers: a threshold of their sum where it is one, and else its likeliest member."""
    told = sorted(i for group in place.told for i in group)
    moved = sum(place.moved)
    if not told:
        return "released anything"
    if found.least_sum is not None:
        threshold = f">= {found.least_sum + moved}"
    elif found.most_sum is not None:
        threshold = f"<= {found.most_sum + moved}"
    else:
        sums = zip(place.told, found.likeliest, place.moved, strict=True)
        return f"{_released([_summed(group, f'of {x + by}') for group, x, by in sums])}, or what tells as much"
    if len(told) == 1:
        return _released([threshold if i in told else "anything" for i in range(numbers)])
    return _released([_summed(told, threshold)])


def _summed(which: Sequence[int], text: str) -> str:
    """Which of the released numbers, and what of their sum."""
    *most, last = (str(i + 1) for i in which)
    return f"numbers {', '.join(most)} and {last} with a sum {text}" if most else f"number {last} {text}"
