"""What Linux tells of a process: its descendants, what it can write to, and which of that is its bits.

Nothing here stops the process: whoever takes an image sees to it that the process waits.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from panprivacy.errors import PanPrivacyError

_PROC = Path("/proc")
_PAGE = 4096
_THERE = np.uint64(3 << 62)  # in memory, or in swap


class CannotImage(PanPrivacyError):
    """The memory of a process cannot be read here; the message says what would help."""


@dataclass(frozen=True)
class Stretch:
    """Neighbouring pages of a process that it can write to."""

    start: int
    end: int
    name: str


def check_system() -> None:
    """Refuse systems without Linux's view of the memory of others."""
    if sys.platform != "linux" or not Path("/proc/self/mem").exists():
        raise CannotImage(f"images of memory are taken through Linux's /proc, which this system ({sys.platform}) lacks")


def family(process: int) -> list[int]:
    """A process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for folder in _PROC.iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found = [process]
    for member in found:
        found += parents.get(member, [])
    return found


def writable(process: int) -> Iterator[Stretch]:
    """All that a process can write to, as far as there are pages: untouched ones hold zeros and are left out."""
    for line in _lines(process, "maps"):
        place, rights, _, _, _, *name = line.split(maxsplit=5)
        if not rights.startswith("rw"):
            continue
        start, end = (int(edge, 16) for edge in place.split("-"))
        for first, last in _touched(process, start, end):
            yield Stretch(first, last, name[0].strip() if name else "anonymous")


def bits_of(process: int) -> list[tuple[int, int]]:
    """Start and length of the pages that no child inherits and no core dump shows: those of `panprivacy.memory`."""
    found, place = [], (0, 0)
    for line in _lines(process, "smaps"):
        head = line.split()[0]
        if "-" in head and not head.endswith(":"):
            start, end = (int(edge, 16) for edge in head.split("-"))
            place = (start, end - start)
        elif head == "VmFlags:" and {"wf", "dd"} <= set(line.split()):
            found.append(place)
    return found


def peek(process: int, address: int, size: int) -> bytes:
    """Read a few bytes of a process."""
    try:
        with Path(f"/proc/{process}/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)
    except OSError as error:
        raise refused(process, error) from None


def refused(process: int, error: OSError) -> CannotImage:
    """Why the memory of a process could not be read."""
    return CannotImage(
        f"the memory of process {process} cannot be read ({(error.strerror or str(error)).lower()}): a process that "
        "has made itself not dumpable, or is another user's, is read by root only; run this as root"
    )


def _lines(process: int, file: str) -> list[str]:
    try:
        return (_PROC / str(process) / file).read_text().splitlines()
    except OSError as error:
        raise refused(process, error) from None


def _touched(process: int, start: int, end: int) -> list[tuple[int, int]]:
    """The parts of a mapping that have pages; all of it where the system does not tell."""
    try:
        with Path(f"/proc/{process}/pagemap").open("rb", buffering=0) as map_:
            map_.seek(start // _PAGE * 8)
            entries = np.frombuffer(map_.read((end - start) // _PAGE * 8), dtype=np.uint64)
    except OSError:
        return [(start, end)]
    there = np.concatenate([[False], (entries & _THERE) != 0, [False]]).astype(np.int8)
    edges = np.flatnonzero(np.diff(there)) * _PAGE + start
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]
