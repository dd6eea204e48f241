"""Evidence for a delta in words: the set of all that is seen and tells two streams apart."""

from collections.abc import Sequence
from math import fsum

from panprivacy.audit.contrasts import Place, contrast_of
from panprivacy.audit.delta_judge import DeltaJudge
from panprivacy.audit.divergence import Region, region
from panprivacy.audit.machine import Machine
from panprivacy.audit.result import Witness
from panprivacy.audit.wording import released, returned, states_read, tell


def witness_of_delta(judge: DeltaJudge, machine: Machine) -> Witness | None:
    """Put the worst that a judge has found into words: what adds most to the delta first.

    None if nothing that was followed tells more than epsilon; the delta is then what was not followed.
    """
    if judge.worst is None:
        return None
    one, other = (judge.views.of(law) for law in (judge.worst.law_a, judge.worst.law_b))
    sights = [judge.views.visible[seen] for seen in {**one, **other}]
    told: list[tuple[float, float, str, str]] = []
    for seen, weights in one.items():
        contrast, share, place = contrast_of(weights, other.get(seen))
        if found := region(contrast, judge.epsilon):
            visible, scale = judge.views.visible[seen], float(share * contrast.whole)
            numbers = len(next(iter(weights.shares)).numbers)
            shown = _said(found, place, numbers) if numbers else returned(visible, machine)
            told.append((scale * found.a, scale * found.b, states_read(visible, sights, machine), shown))
    if not told:
        return None
    told.sort(key=lambda part: -part[0])
    first, *others = told
    return tell(
        judge.worst.steps_a,
        judge.worst.steps_b,
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
    if not told:
        return released(["anything"])
    moved = sum(place.moved)
    if found.least_sum is not None:
        threshold = f">= {found.least_sum + moved}"
    elif found.most_sum is not None:
        threshold = f"<= {found.most_sum + moved}"
    else:
        sums = (
            _summed(group, f"of {x + by}")
            for group, x, by in zip(place.told, found.likeliest, place.moved, strict=True)
        )
        return f"{released(list(sums))}, or what tells as much"
    if numbers == 1:
        return released([threshold])
    if len(told) == 1:
        return released([threshold if i in told else "anything" for i in range(numbers)])
    return released([_summed(told, threshold)])


def _summed(which: Sequence[int], text: str) -> str:
    """Which of the released numbers, and what of their sum."""
    first, *more = (str(i + 1) for i in which)
    return (
        f"numbers {', '.join([first, *more[:-1]])} and {more[-1]} with a sum {text}"
        if more
        else f"number {first} {text}"
    )
