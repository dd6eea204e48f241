"""Phases: which part of the users is reset on which day, so that every day some part tells of the last k days."""


def phase_reset_on(day: int, phases: int) -> int:
    """The phase whose bits are drawn anew at the start of a day; days are counted from 0."""
    return day % phases


def phases_by_age(day: int, phases: int) -> list[list[int]]:
    """For k = 1, 2, ..., the phases that tell of the last k days: this one, and the k-1 before it.

    At the start all bits are new. So on the first days several phases tell of all the days that there were.

    >>> [phases_by_age(day, 3) for day in range(4)]
    [[[0, 1, 2]], [[1], [0, 2]], [[2], [1], [0]], [[0], [2], [1]]]
    """
    ages: list[list[int]] = [[] for _ in range(min(day + 1, phases))]
    for phase in range(phases):
        reset = day - (day - phase) % phases
        ages[day - max(reset, 0)].append(phase)
    return ages
