"""From noisy counts of ranges of slots to the rows of a release."""

import numpy as np

from panprivacy.privacy.ledger import Published
from panprivacy.privacy.noise import Noise
from panprivacy.privacy.pairs import Pair
from panprivacy.release.groups import GroupDensity
from panprivacy.release.spreads import Spreads
from panprivacy.slots.ranges import Ranges


def spreads_of(ranges: Ranges, pair: Pair, noise: Noise) -> Spreads:
    """The laws of the estimates of all ranges."""
    return Spreads(pair, ranges.bits, ranges.users, ranges.population, noise)


def rows_of(ranges: Ranges, published: Published, pair: Pair, noise: Noise) -> tuple[GroupDensity, ...]:
    """A row for each range, from the noisy number of its ones."""
    spreads = spreads_of(ranges, pair, noise)
    raw = spreads.densities(published.noisy)
    densities = np.clip(raw, 0.0, 1.0)
    lows, highs = spreads.intervals(raw, published.level)
    columns = (densities, spreads.stderr(densities), lows, highs, raw, ranges.population, spreads.noise_stderr)
    numbers = zip(*(column.tolist() for column in columns), ranges.users.tolist(), ranges.labels, strict=True)
    return tuple(
        GroupDensity(density, error, (low, high), unbounded, universe, noisy, group, users)
        for density, error, low, high, unbounded, universe, noisy, users, group in numbers
    )
