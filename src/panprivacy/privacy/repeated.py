"""What is lost where one user's bit is drawn anew again and again: in every window, or in every cycle.

Two draws have nothing in common but the user, so what is lost in each adds up. The state holds the last draw only: who
reads it once reads one of them, and of the others has seen the releases alone.
"""

from panprivacy.privacy import exact, gaussian
from panprivacy.privacy.budget import Split
from panprivacy.privacy.noise import Gaussian


def loss(split: Split, times: int, readings: int | None = None) -> float:
    """What a user who appears in so many draws loses at most.

    The state may be read once in each of them; with `readings`, in so many of them only.
    """
    if times < 0 or (readings is not None and readings < 0):
        raise ValueError(f"how often is a number from 0 on, got {times} times and {readings} readings")
    read = times if readings is None else min(readings, times)
    return read * split.loss(*split.planned) + (times - read) * unread_loss(split)


def unread_loss(split: Split) -> float:
    """What one draw gives away by its releases alone.

    One release of epsilon r shows a bit that is 1 with probability p0 or p1: ``ln((1 + p1*(e^r - 1)) /
    (1 + p0*(e^r - 1)))``. Of several, no more is used than that their epsilons add up.
    """
    if isinstance(split.noise, Gaussian):
        return gaussian.loss(split.noise.square, split.releases, split.delta)
    released = exact.decimal(split.releases * split.noise.epsilon)
    if split.releases > 1:
        return exact.round_up(released)
    present, absent = (exact.log_mixture(p, released) for p in (split.pair.p1, split.pair.p0))
    return exact.round_up(exact.add(present, -absent))
