"""One seed for a whole reproduction, and what each run makes of it."""

from hashlib import sha256

import numpy as np


def sequence(root: int, *names: object) -> np.random.SeedSequence:
    """The seed sequence of one thing, found by its names and by nothing else.

    So a number does not depend on who computes it, when, or what else is computed.

    Examples
    --------
    >>> sequence(1, "zipf", 7).generate_state(1) == sequence(1, "zipf", 7).generate_state(1)
    array([ True])
    >>> sequence(1, "zipf", 7).generate_state(1) == sequence(1, "zipf", 8).generate_state(1)
    array([False])
    """
    words = np.frombuffer(sha256(repr(names).encode()).digest(), dtype="<u4")
    return np.random.SeedSequence(root, spawn_key=tuple(int(word) for word in words))


def generator(root: int, *names: object) -> np.random.Generator:
    """A generator for what is named: a stream."""
    return np.random.default_rng(sequence(root, *names))


def number(root: int, *names: object) -> int:
    """A seed of 128 bits for what is named: the coins of a run."""
    return int.from_bytes(sequence(root, *names).generate_state(4).astype("<u4").tobytes(), "little")
