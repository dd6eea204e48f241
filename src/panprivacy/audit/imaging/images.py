"""Images: all memory of a process and its descendants, and all files of a folder, at one moment."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.imaging.processes import check_system, family, refused, writable

Octets: TypeAlias = NDArray[np.uint8]


@dataclass(frozen=True)
class Segment:
    """Bytes that stood next to each other: pages of a process, or a file."""

    name: str
    """The mapping or the file."""
    process: int
    """Whose memory it is; 0 for a file."""
    address: int
    octets: Octets


@dataclass(frozen=True)
class Image:
    """Everything that an intruder copies."""

    segments: list[Segment]

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return sum(len(segment.octets) for segment in self.segments)

    def earlier(self, later: Segment) -> Octets:
        """What stood where a segment of a later image stands; zeros where there was nothing."""
        found = np.zeros(len(later.octets), dtype=np.uint8)
        end = later.address + len(later.octets)
        for segment in self.segments:
            first = max(segment.address, later.address)
            last = min(segment.address + len(segment.octets), end)
            same_place = segment.process == later.process and (segment.process or segment.name == later.name)
            if same_place and first < last:
                found[first - later.address : last - later.address] = segment.octets[
                    first - segment.address : last - segment.address
                ]
        return found


def take(process: int, folder: Path | None = None) -> Image:
    """Copy the memory of a process that waits, of all its descendants, and a folder with all its files."""
    check_system()
    segments = [segment for member in family(process) for segment in _memory(member)]
    return Image(segments + (list(_files(folder)) if folder else []))


def _memory(process: int) -> Iterator[Segment]:
    try:
        memory = os.open(f"/proc/{process}/mem", os.O_RDONLY)
    except OSError as error:
        raise refused(process, error) from None
    try:
        for stretch in writable(process):
            octets = np.empty(stretch.end - stretch.start, dtype=np.uint8)
            try:
                got = _read(memory, stretch.start, octets)
            except OSError:  # [vvar] and the like cannot be read
                continue
            yield Segment(stretch.name, process, stretch.start, octets[:got])
    finally:
        os.close(memory)


def _read(memory: int, address: int, octets: Octets) -> int:
    at = 0
    while at < len(octets) and (got := os.preadv(memory, [octets[at:].data], address + at)):
        at += got
    return at


def _files(folder: Path) -> Iterator[Segment]:
    for path in sorted(folder.rglob("*")):  # hidden files, too
        if path.is_file():
            yield Segment(str(path.relative_to(folder)), 0, 0, np.frombuffer(path.read_bytes(), dtype=np.uint8))
