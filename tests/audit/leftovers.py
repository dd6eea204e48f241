"""A process that draws coins from a known key and then holds still, to be searched from outside.

Run as ``python leftovers.py KEYFILE PLANT``. The key comes from the file straight into the buffer that the coins hand
out, so no other copy of it is ever in this process, and no word of its keystream but those the coins make.
"""

import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from panprivacy import Density
from panprivacy.privacy import coins

FLIPS = 600_000
"""Three blocks, each with a key of its own."""
USERS = 9_000


def main(key_file: Path, plant: str) -> None:
    """Use the coins as a program would, plant a leak if asked to, and wait."""
    kept: list[object] = []

    def fill(buffer: bytearray) -> None:
        device = os.open(key_file, os.O_RDONLY)
        os.readv(device, [buffer])
        os.close(device)

    keystream = coins.keystream

    def keystream_and_keep(key: bytearray) -> Callable[[coins.Buffer], None]:
        if plant == "keys":
            kept.append(bytes(key))
        draw = keystream(key)

        def draw_and_keep(zeros: coins.Buffer) -> None:
            draw(zeros)
            if plant == "words":
                kept.append(bytes(zeros[1001:1025]))

        return draw_and_keep

    coins.fill_from_system = fill
    coins.keystream = keystream_and_keep
    kept.append(int(coins.system.below(2**31, FLIPS).sum()))
    est = Density(USERS, 1.0)
    est.update_many(np.arange(USERS))
    kept += [est, est.to_bytes(), pickle.dumps(est), coins.system]
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
