"""Whether it matters how events are delivered: one by one, or in a batch."""

from collections.abc import Iterable
from fractions import Fraction
from itertools import product
from typing import TypeAlias

from panprivacy.audit.machine import Machine, Step

_LONGEST_BATCH = 3
_MOST_OUTCOMES = 512

_Spread: TypeAlias = dict[int, Fraction]
"""How likely each state is."""


def batches_agree(machine: Machine, verbs: Iterable[str], length: int) -> bool:
    """Whether a batch does to a state exactly what its events do to it one by one.

    If so, an audit of single events holds for batches too. Compared are batches of one and of two users, the same
    one twice included, from every state that was reached, and of three from a new estimator; a batch with too many
    outcomes to walk is left out.
    """
    people = range(len(machine.users))
    for verb in (verb for verb in verbs if machine.can(verb + "_many")):
        for size in range(1, min(length, _LONGEST_BATCH) + 1):
            if machine.most_outcomes**size > _MOST_OUTCOMES:
                break
            states = 1 if size == _LONGEST_BATCH else len(machine.memories)
            for batch, state in product(product(people, repeat=size), range(states)):
                law = single = {state: Fraction(1)}
                for user in batch:
                    single = _after(machine, single, Step(verb, (user,)))
                if _after(machine, law, Step(verb + "_many", batch)) != single:
                    return False
    return True


def _after(machine: Machine, law: _Spread, step: Step) -> _Spread:
    after: _Spread = {}
    for state, weight in law.items():
        each, whole = machine.moves(state, step)
        for move in each:
            after[move.state] = after.get(move.state, Fraction(0)) + weight * Fraction(move.share, whole)
    return after
