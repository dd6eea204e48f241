"""After a batch, no key and no word of its keystream is anywhere in the process."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import leftovers
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from panprivacy.privacy import coins

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs Linux's /proc"),
]

KEY = bytes.fromhex("8f1c9d20e47ab3565b02d9f7a61e843cc95d3a7710be64f2297fe08b4da1c635")
RUN = 16
"""Bytes in a row that count as a find: shorter ones are too common, longer ones contain them."""


def keystream(key: bytes, size: int) -> bytes:
    """AES-256-CTR, computed apart from the coins."""
    return Cipher(algorithms.AES256(key), modes.CTR(bytes(16))).encryptor().update(bytes(size))


def secrets_of(flips: int) -> list[bytes]:
    """The keys and blocks by which a batch of so many flips is drawn."""
    key, secrets = KEY, []
    for start in range(0, flips, coins._BLOCK):
        block = keystream(key, len(KEY) + 2 * min(coins._BLOCK, flips - start))
        secrets += [key, block]
        key = block[: len(KEY)]
    return [*secrets, key]


def windows(secrets: list[bytes]) -> NDArray[np.uint64]:
    """All runs of 8 bytes, wherever they start."""
    parts = [
        np.frombuffer(secret[start : start + (len(secret) - start) // 8 * 8], dtype=np.uint64)
        for secret in secrets
        for start in range(8)
        if len(secret) - start >= 8
    ]
    return np.unique(np.concatenate(parts))


def memory_of(process: int) -> Iterator[bytes]:
    """All that the process can write to."""
    regions = Path(f"/proc/{process}/maps").read_text().splitlines()
    with Path(f"/proc/{process}/mem").open("rb", buffering=0) as memory:
        for region in regions:
            place, rights, *_ = region.split()
            if not rights.startswith("rw"):
                continue
            start, end = (int(edge, 16) for edge in place.split("-"))
            for at in range(start, end, 2**26):
                try:
                    memory.seek(at)
                    yield memory.read(min(2**26, end - at))
                except (OSError, ValueError):  # [vvar] and the like cannot be read
                    break


def found_in(process: int, secrets: list[bytes]) -> list[bytes]:
    """Runs of secret bytes in the memory of a process.

    A run of 16 bytes contains a whole aligned word, so it is enough to look words up, and then at their surroundings.
    """
    known = windows(secrets)
    shift, factor = np.uint64(64 - 24), np.uint64(0x9E3779B97F4A7C15)
    seen = np.zeros(2**24, dtype=np.bool_)
    seen[known * factor >> shift] = True
    finds = []
    for piece in memory_of(process):
        words = np.frombuffer(piece[: len(piece) // 8 * 8], dtype=np.uint64)
        likely = np.flatnonzero(seen[words * factor >> shift])
        nearest = np.minimum(np.searchsorted(known, words[likely]), len(known) - 1)
        for at in likely[known[nearest] == words[likely]]:
            around = piece[max(8 * at - 8, 0) : 8 * at + RUN]
            runs = (around[i : i + RUN] for i in range(len(around) - RUN + 1))
            finds += [run for run in runs if any(run in secret for secret in secrets)]
    return finds


def search(tmp_path: Path, plant: str) -> list[bytes]:
    key_file = tmp_path / "key"
    key_file.write_bytes(KEY)
    command = [sys.executable, str(Path(leftovers.__file__)), str(key_file), plant]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            return found_in(process.pid, secrets_of(leftovers.FLIPS) + secrets_of(leftovers.USERS))
        except PermissionError:
            pytest.skip("this kernel does not let a parent read the memory of its child")
        finally:
            process.communicate()


def test_nothing_of_a_batch_is_left_in_the_process(tmp_path: Path) -> None:
    assert search(tmp_path, "nothing") == []


@pytest.mark.parametrize("plant", ["keys", "words"])
def test_what_is_left_behind_is_found(tmp_path: Path, plant: str) -> None:
    assert search(tmp_path, plant)
