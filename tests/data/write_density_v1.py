"""Writes density-v1.bin, the state that version 1 of the format is pinned by. Run once; the file is kept."""

from pathlib import Path

import panprivacy as pp
from panprivacy.testing import SeededCoins


def main() -> None:
    """Write a small state that has every part in use: a sample, a release, a redraw."""
    est = pp.Density(500, 1.5, sample=128, releases=4, intrusions=1, key=bytes(range(16)), coins=SeededCoins(1))
    est.update_many(range(0, 500, 3))
    est.release(level=0.9)
    est.rerandomize()
    est.remove(3)
    Path(__file__).with_name("density-v1.bin").write_bytes(est.to_bytes(insecure=True))


if __name__ == "__main__":
    main()
