"""What commands say where releases are mostly noise: before anything is spent, and when it is."""

from collections.abc import Sequence
from typing import Any

from panprivacy.cli.plainly import Speaker
from panprivacy.estimator import Estimator
from panprivacy.noisy import expected_noise, is_mostly_noise
from panprivacy.sizes import counted

_BETTER = "panprivacy plan finds an epsilon and a size that do better"


def note_expected_noise(est: Estimator[Any], speaker: Speaker) -> None:
    """Say beforehand that releases will be mostly noise, and what would help."""
    noise = expected_noise(est)
    if noise is not None:
        speaker.note(noise)


def note_noise(released: Any, speaker: Speaker) -> None:
    """Say of a release that it is mostly noise, if it is."""
    if is_mostly_noise(released):
        speaker.note(f"this answer is mostly noise; {_BETTER}")


def note_noise_of_series(releases: Sequence[Any], speaker: Speaker) -> None:
    """Say of a series that its releases are mostly noise, if at least half of them are.

    The first ones of many a series are: next to nobody has come yet.
    """
    noisy = sum(map(is_mostly_noise, releases))
    if noisy and 2 * noisy >= len(releases):
        speaker.note(f"{noisy:,} of {counted(len(releases), 'release')} are mostly noise; {_BETTER}")
