"""Estimators with a bug each, which the auditor has to find."""

from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from typing import Any

from exact_counts import OtherNoise
from panprivacy import Density
from panprivacy.privacy import exact
from panprivacy.privacy.budget import Budget
from panprivacy.privacy.coins import ONE, Coins
from panprivacy.privacy.noise import Gaussian, Laplace
from panprivacy.privacy.pairs import Pair
from panprivacy.table import Table


class Bits:
    """A bit for every user and nothing else: no bug, and any split of the budget."""

    def __init__(self, users: int, pair: Pair, rate: Fraction, coins: Coins, releases: int = 1) -> None:
        self.pair, self.rate, self.coins = pair, rate, coins
        self.bits = [coins.flip(pair.absent) for _ in range(users)]
        released = exact.decimal(releases * rate)
        self.claimed_epsilon = exact.round_up(exact.add(pair.exact_loss, exact.log_mixture(pair.p1, released)))

    def update(self, user: int) -> None:
        self.bits[user] = self.coins.flip(self.pair.present)

    def remove(self, user: int) -> None:
        self.bits[user] = self.coins.flip(self.pair.absent)

    def release(self) -> int:
        return self.coins.noisy(sum(self.bits), Laplace(self.rate))


class CountsEvents(Density):
    """Keeps a count of events beside its bits."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.events = 0

    def update(self, user: int, category: Any = None) -> None:  # noqa: ARG002
        super().update(user)
        self.events += 1


class CachesAtFirstEvent(Density):
    """Sets an attribute when the first event comes: that it is there tells of an event."""

    def update(self, user: int, category: Any = None) -> None:  # noqa: ARG002
        super().update(user)
        self.cache = "warm"


class RedrawsZerosOnly(Density):
    """Skips the redraw of a bit that is 1 already, so that each appearance is one more chance."""

    def update(self, user: int, category: Any = None) -> None:  # noqa: ARG002
        if not self._table.bits(0, self._table.size)[user]:
            super().update(user)

    update_many = None  # type: ignore[assignment]


class OneCoinForTheBatch(Density):
    """Flips one coin for all events of a batch."""

    def update_many(self, ids: Any, categories: Any = None, **_: Any) -> None:  # noqa: ARG002
        flip = self._coins.flip(self._ledger.pair.present)
        for user in ids:
            self._table.redraw_one(user, flip)


class OneCoinForTheTable(Density):
    """Flips one coin for all bits at the start."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        flip = self._coins.flip(self._ledger.pair.absent)
        self._table = Table.empty(self._table.size)
        for slot in range(self._table.size):
            self._table.redraw_one(slot, flip)


class ForgetsToRedraw(Density):
    """Books a rerandomisation and flips nothing."""

    def rerandomize(self) -> None:
        self._ledger.note_redraw()


class HalfTheNoise(OtherNoise, Density):
    """Draws the noise of twice the epsilon that is booked."""

    drawn = staticmethod(lambda booked: Laplace(2 * booked.epsilon))


class TellsTheParity(Density):
    """A release with noise that also returns something without."""

    def release(self, level: float = 0.95) -> Any:
        return super().release(level), self._table.ones() % 2


class KeepsItsKey(Bits):
    """Expands flips from a key, and keeps the key."""

    def __init__(self, users: int, pair: Pair, rate: Fraction, coins: Coins) -> None:
        super().__init__(users, pair, rate, coins)
        self.key, self.drawn = coins.randbelow(8), 0

    def update(self, user: int) -> None:
        word = sha256(bytes([self.key, self.drawn])).digest()[:4]
        self.bits[user] = int.from_bytes(word, "big") < self.pair.present
        self.drawn = 1 - self.drawn


class SetOfIds(Bits):
    """Keeps the users whose bit is 1 in a set, which marks the place of everyone who was removed from it."""

    def __init__(self, users: int, pair: Pair, rate: Fraction, coins: Coins) -> None:
        super().__init__(users, pair, rate, coins)
        self.ids = {user for user, bit in enumerate(self.bits) if bit}
        del self.bits

    def update(self, user: int) -> None:
        if self.coins.flip(self.pair.present):
            self.ids.add(user)
        else:
            self.ids.discard(user)

    def release(self) -> int:
        return self.coins.noisy(len(self.ids), Laplace(self.rate))


class Sleeper(Bits):
    """Notes in the clear who appears, but only after user 1 was there."""

    def __init__(self, users: int, pair: Pair, rate: Fraction, coins: Coins) -> None:
        super().__init__(users, pair, rate, coins)
        self.awake, self.noted = False, set[int]()

    def update(self, user: int) -> None:
        if self.awake:
            self.noted.add(user)
        self.awake |= user == 1


class ListOfIds(SetOfIds):
    """Keeps them in a list, in the order in which they came."""

    def __init__(self, users: int, pair: Pair, rate: Fraction, coins: Coins) -> None:
        super().__init__(users, pair, rate, coins)
        self.order = sorted(self.ids)
        del self.ids

    def update(self, user: int) -> None:
        self.order = [other for other in self.order if other != user]
        if self.coins.flip(self.pair.present):
            self.order.append(user)

    def release(self) -> int:
        return self.coins.noisy(len(self.order), Laplace(self.rate))


class NoiseOfHiddenWidth:
    """Chooses the width of its noise by a coin that depends on whether anybody came."""

    claimed_epsilon = 5.0

    def __init__(self, coins: Coins) -> None:
        self.coins, self.came = coins, False

    def update(self, user: int) -> None:  # noqa: ARG002
        self.came = True

    def release(self) -> float:
        wide = self.coins.flip(3 * ONE // 4 if self.came else ONE // 4)
        return self.coins.noisy_real(0.0, 2.0 if wide else 1.0)


# --- with a delta -----------------------------------------------------------------------------------------------------


class GaussianBits:
    """A bit for every user, and releases with Gaussian noise: no bug, and any claim."""

    def __init__(self, users: int, pair: Pair, square: Fraction, coins: Coins, claimed: tuple[float, float]) -> None:
        self.pair, self.square, self.coins = pair, square, coins
        self.claimed_epsilon, self.claimed_delta = claimed
        self.bits = [coins.flip(pair.absent) for _ in range(users)]

    def update(self, user: int) -> None:
        self.bits[user] = self.coins.flip(self.pair.present)

    def release(self) -> int:
        return self.coins.noisy(sum(self.bits), Gaussian(self.square))


class LessGaussianNoise(OtherNoise, Density):
    """Draws noise whose square is 30 % below the one that is booked."""

    drawn = staticmethod(lambda booked: Gaussian(booked.square * 7 / 10))


class ClaimsATenth(Density):
    """Says that its delta is a tenth of what was planned for."""

    @property
    def budget(self) -> Budget:
        booked = super().budget
        return replace(booked, delta=booked.delta / 10)


class ReusesItsNoise(GaussianBits):
    """Draws the noise of its first release, keeps it, and adds it to the next release again."""

    noise: int | None = None

    def release(self) -> int:
        ones = sum(self.bits)
        if self.noise is None:
            self.noise = super().release() - ones
        return ones + self.noise
