r"""What a user loses in several windows or cycles, each with a bit of its own.

A *draw* is one window or one cycle: the user's bit is drawn anew, so two draws have nothing in common but the user. The
state holds the bit of one draw only. A reading tells of that draw, and of the others only the releases are seen.

**Laplace noise.** The losses of the draws add up. A draw that is read loses `Split.loss`. A draw that is not read, with
K releases of epsilon r each and R = K*r, loses at most

    f(K) = ln(p1 + p0*e^-R) - K*ln(p0 + p1*e^-r)
    or, if r > 2*eps_state and it is larger, f(K-k) + f(k) + k*(r + 2*ln(p0 + p1*e^-r)) with k = K/2 rounded down.

Let y be the ratio of the probabilities of a released number for a 1 and for a 0, from e^-r to e^r. The ratio of two
worlds is a quotient of products, over the blocks between redraws, of ``1 - p + p * (product of y)``. In each y it is
one linear function over another, hence largest at an end: every y is e^r or e^-r. In a block of both signs the two
factors of the mean are negatively correlated, and blocks of one sign are positively correlated: so the numerator is
largest with one block for each sign. The denominator is smallest with blocks of one release, or with pairs of
opposite signs, whose factor is 1. The function f is convex and f(0) = 0, so all releases have one sign, or as many
pairs as possible are made. The first is attained: absent, against redrawn before every release. With counters
(`places` > 1) no coin hides where a counter stands: R takes the place of f.

**Gaussian noise.** The releases of all draws that are not read, and of one that is, are one composition beside one
reading: the proofs of `panprivacy.privacy.gaussian` and `panprivacy.privacy.renyi` allow any redraws. So w draws and
one reading lose ``eps_state + eps_G(w*K, delta)`` with the delta of one draw.

With R readings in R draws, each reading shows one bit, which loses eps_state, and changes one block of the path that
the first world is compared with. Which draws are read may depend on the releases. So there are at most ``(w*K + 1)^R``
such paths, and the whole is ``R*eps_state + eps_G(w*K, R*delta)`` for that number of paths. If every draw is read, the
losses and the deltas of the draws also add up, and the smaller one of the two losses holds. If only some are read, they
do not: an intruder who has seen the releases of a draw then chooses whether that draw is read.
"""

from decimal import Decimal
from fractions import Fraction

from panprivacy.errors import InvalidValue
from panprivacy.privacy import exact, gaussian, renyi
from panprivacy.privacy.budget import Split
from panprivacy.privacy.noise import Gaussian, Laplace


def loss(split: Split, draws: int, readings: int | None = None) -> float:
    """The largest loss of a user who appears in this number of draws, except with probability at most `delta`.

    The state may be read once in each of them; `readings` limits the number of draws in which it is read.
    """
    read = _readings(draws, readings)
    if isinstance(split.noise, Laplace):
        unread = exact.times(draws - read, unread_laplace(split, split.noise))
        return exact.round_up(exact.add(exact.times(read, split.exact_loss(*split.planned)), unread))
    if not read:
        return _unread_gaussian(split, draws)
    if read == 1:
        return split.loss(split.releases * draws, split.intrusions)
    together = _read_gaussian(split, draws, read)
    apart = exact.round_up(draws * Fraction(split.loss(*split.planned)))
    return min(together, apart) if read == draws else together


def delta(split: Split, draws: int, readings: int | None = None) -> float:
    """The probability, at most, that such a user loses more than `loss`."""
    charged = max(_readings(draws, readings), min(draws, 1))
    return min(exact.round_up(charged * Fraction(split.delta)), 1.0)


def unread_loss(split: Split) -> float:
    """The loss of one draw by its releases alone, without a reading."""
    if isinstance(split.noise, Gaussian):
        return _unread_gaussian(split, 1)
    return exact.round_up(unread_laplace(split, split.noise))


def _readings(draws: int, readings: int | None) -> int:
    if draws < 0 or (readings is not None and readings < 0):
        raise InvalidValue(
            f"draws and readings are numbers from 0 on, got {draws} and {readings}", code="readings-range"
        )
    return draws if readings is None else min(readings, draws)


def _read_gaussian(split: Split, draws: int, read: int) -> float:
    """The loss by the releases of these draws, of which several are read."""
    assert isinstance(split.noise, Gaussian)
    releases = split.releases * draws
    paths = read * gaussian.log_choices(releases, split.intrusions, split.places)
    whole = delta(split, draws, read)
    beside = gaussian.loss(split.noise.square, releases, whole, split.sensitivity, paths)
    state = split.exact_loss(0, split.intrusions)
    return exact.round_up(exact.add(*[state] * read, exact.decimal(beside)))


def _unread_gaussian(split: Split, draws: int) -> float:
    """The loss by the releases of these draws, with no reading beside them."""
    assert isinstance(split.noise, Gaussian)
    releases = split.releases * draws
    pure = gaussian.loss(split.noise.square, releases, split.delta, split.sensitivity)
    if not split.of_one_bit:
        return pure
    return min(pure, renyi.loss(split.noise.square, releases, split.delta, split.pair.p1, read=False))


def unread_laplace(split: Split, noise: Laplace) -> Decimal:
    """The larger one of the two formulas at the top of this file; of counters, all releases."""
    if not split.of_one_bit:
        return exact.decimal(split.releases * split.sensitivity * noise.epsilon)
    each = exact.decimal(noise.epsilon)
    seen_once = exact.log_mixture(split.pair.p1, -each)  # ln(p0 + p1*e^-r)

    def one_sign(releases: int) -> Decimal:
        kept = exact.log_mixture(split.pair.p0, exact.decimal(-releases * noise.epsilon))
        return exact.add(kept, exact.times(-releases, seen_once))

    pairs = split.releases // 2
    gained = exact.add(each, seen_once, seen_once)
    if gained <= 0 or not pairs:
        return one_sign(split.releases)
    paired = exact.add(one_sign(split.releases - pairs), one_sign(pairs), exact.times(pairs, gained))
    return max(one_sign(split.releases), paired)
