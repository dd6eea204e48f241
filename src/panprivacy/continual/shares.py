r"""Where the budget of continual observation goes, and why it suffices for any number of observations.

The sparse-vector test compares the distance of the count from the last release with a bar plus threshold noise. In the
textbook's version that noise is drawn once and kept, and it pays for all the answers "not yet" together. But what is
kept is state. An intruder who has read it knows it, and from then on every answer is hidden by its own noise alone:
the loss grows with each observation. Here the threshold noise is a *walk*: before every test it takes a step of
discrete Laplace noise, and only the sum is kept.

**Any stream.** Take two worlds that differ in one user's bit, which the user may redraw before each observation, so
that the distance is off by -1, 0 or 1, differently each time. Fix everything that is seen. If in the other world the
walk runs one higher, then each "not yet" is at least as likely there, however many there are. To run one higher the
walk needs

- a first step that is larger by one: ``e^threshold``;
- a step that is smaller by one at the last observation before the reading, so that what is read is the same:
  ``e^threshold``; that one observation is hidden by its own noise, ``e^test``;
- a step that is larger by one again after the reading, from the value that the intruder knows: ``e^threshold``.

Each of the c answers "moved" is hidden by its test's noise, which must make up for the higher bar (``e^test``) and for
the bit (``e^test`` again); and the released count shows the bit once more (``e^value``). The bits at these c + 1
observations are coins that come out against the user with probability p1 at most, as in `panprivacy.privacy.budget`.
So in all

    total = eps_state + 3*threshold + c*test + ln(1 + p1*(e^((c + 1)*test + c*value) - 1)).          (any stream)

**A stream that only rises.** Without deletions the distance need not be absolute: the test asks whether the count is
*above* the last release by the bar. Then a bit of 1 always makes a move likelier and a "not yet" less likely, and every
event redraws the bit with the same p1. That is worth ``min(eps_state, c*test, c*p1*(test + value))``, as follows.

Let b be the path of the user's bit in world A and b' that in world B, f(b) the probability of all that is seen (but for
the bit that is read), and k = test + value, with test >= value (a smaller test counts as if it were value). The release
of a move makes f larger or smaller by ``e^value`` if the bit is 1; the numbers here are for larger, which is worst
unless said otherwise. Shares are counted in logarithms. If B's walk runs one higher, then

    (1)  ln f(b) - ln f(b') <= sum over moves of  test + k*(b - b'),    whatever the paths, beside steps of the walk;

if b >= b' at every "not yet", the walk need not run higher, and

    (2)  ln f(b) - ln f(b') <= sum over moves of  k*(b - b')    wherever b >= b'.

The right sides are differences of a function of b and one of b', so that f may be averaged over the paths of either
world: ln E f(b) - ln E f(b') is at most the same with ``ln E e^(k*sum of b)`` and ``ln E e^(k*sum of b')`` in place of
the sums. A coin of probability p that m moves see has ``pkm <= ln E e^(km) = ln(1 + p*(e^(km) - 1)) <= km``, and it is
convex in m: several coins together lie between the first and one coin for all.

*After the reading* both bits are what was read, until their user appears. While neither has: nothing is lost. Once
both have, every bit has the mean p1, in A as in B: by (1), m moves lose ``m*test + ln(1 + p1*(e^(km) - 1)) - p1*k*m``.
While only one has, and a 0 was read: A's user, by (2), ``ln(1 + p1*(e^(km) - 1))``; B's user, by (1),
``m*test - p1*k*m``. And if a 1 was read: A's user, by (1), ``m*test`` at most (also if the release makes f smaller);
B's user, by (2), ``p0*k*m``. All these, one after the other, come to at most

    after(c) = threshold + ln(1 + p1*(e^(kc) - 1)) + c*max(0, test - p1*k).

*Before the reading* there are three cases. If neither user has appeared, the two worlds are the same. If exactly one
has, say B's has not, B's bit was at all times the one that is read. The reading loses eps_state if that is the likelier
bit in A, a 1. So b' = 1, and by (1) a move loses ``test + k*(b - 1) <= test``; likewise with A's user away and a 0 that
is read. Should the reading show the other bit, eps_state is gained. If both have appeared, the reading tells nothing,
and by (1) m moves lose ``m*test + ln(1 + p1*(e^(km) - 1))`` at most. In every case two steps of the walk are paid, and
one test at the last observation before the reading. So in all

    total = 3*threshold + test + ln(1 + p1*(e^(kc) - 1)) + max(eps_state + c*max(0, test - p1*k), c*test).  (only rises)

The smaller of the two totals holds. There is no number of observations in either. Both are bounds.

**With a delta**, `panprivacy.continual.epochs` has a third law, in which moves add up like the root of their number.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from panprivacy.continual import epochs
from panprivacy.privacy import exact
from panprivacy.privacy.accounting import Law
from panprivacy.privacy.noise import Gaussian, Noise


@dataclass(frozen=True)
class Shares(Law):
    """The decided shares of a total epsilon."""

    moves: int
    """How often the published value may move."""
    threshold: Fraction
    """Share of the step that the threshold's walk takes before a test."""
    test: Fraction
    """Share of the noise on the distance in a test."""
    value: Noise
    """The noise on the count that is released when the published value moves: Gaussian if there is a delta."""
    rising: bool = False
    """Whether no bit was ever redrawn by a deletion, nor will be."""

    @property
    def planned(self) -> tuple[int]:
        """How many moves are planned."""
        return (self.moves,)

    def exact_loss(self, *done: int) -> Decimal:
        """The loss at most, of one reading, so many moves, and any number of observations."""
        (moves,) = done
        walk = exact.decimal(3 * self.threshold)
        if isinstance(self.value, Gaussian):
            read = exact.add(self.pair.exact_loss, walk, exact.decimal(self.test))
            return exact.add(read, exact.decimal(epochs.loss(self.test, self.value.square, moves, self.delta)))
        test, value = self.test, self.value.epsilon
        seen = exact.log_mixture(self.pair.p1, exact.decimal((moves + 1) * test + moves * value))
        of_any = exact.add(self.pair.exact_loss, walk, exact.decimal(moves * test), seen)
        if not self.rising:
            return of_any
        test = max(test, value)
        seen = exact.log_mixture(self.pair.p1, exact.decimal(moves * (test + value)))
        beside = exact.decimal(moves * max(Fraction(0), test - self.pair.p1 * (test + value)))
        most = max(exact.add(self.pair.exact_loss, beside), exact.decimal(moves * test))
        return min(of_any, exact.add(walk, exact.decimal(test), seen, most))

    def delta_after(self, *done: int) -> float:
        """The delta: all of it, from the first move on."""
        return self.delta if done[0] else 0.0
