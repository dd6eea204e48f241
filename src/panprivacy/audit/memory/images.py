"""Images: all memory of a process and its descendants, and all files of a folder, at one moment.

Linux says which pages a process can write to, and which of them hold bits. Nothing here stops the process: the auditor
takes an image while the process waits. `Imaged` is what was found in one.
"""

import os
import sys
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from panprivacy.errors import PanPrivacyError

_PROC = Path("/proc")
_PAGE = 4096
_THERE = np.uint64(3 << 62)  # in memory, or in swap


class CannotImage(PanPrivacyError):
    """The memory of a process cannot be read here; the message says what would help."""


def check_system() -> None:
    """Refuse systems without Linux's view of the memory of others."""
    if sys.platform != "linux" or not Path("/proc/self/mem").exists():
        raise CannotImage(f"images of memory are taken through Linux's /proc, which this system ({sys.platform}) lacks")


def family(process: int) -> list[int]:
    """A process and all its descendants."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir(_PROC):  # noqa: PTH208 - several times as fast, and asked for often
        if name.isdigit() and (status := _read_small(f"{_PROC}/{name}/stat")):
            parents.setdefault(int(status.rpartition(b")")[2].split()[1]), []).append(int(name))
    found = [process]
    for member in found:
        found += parents.get(member, [])
    return found


def near_family(process: int) -> list[int]:
    """The same at little cost, for looks many times a second; a process that ends meanwhile may hide its siblings."""
    found = [process]
    for member in found:
        found += [int(child) for children in about_threads(member, "children") for child in children.split()]
    return found


def about_threads(process: int, file: str) -> Iterator[bytes]:
    """What Linux says in a small file about each thread of a process."""
    with suppress(OSError):  # the process has ended meanwhile
        for thread in os.listdir(f"{_PROC}/{process}/task"):  # noqa: PTH208
            if told := _read_small(f"{_PROC}/{process}/task/{thread}/{file}"):
                yield told


def _read_small(path: str) -> bytes:
    """A file of the system; empty if what it is about has ended meanwhile."""
    with suppress(OSError), open(path, "rb", buffering=0) as file:  # noqa: PTH123 - quicker than a path
        return file.read(_PAGE)
    return b""


def writable(process: int) -> Iterator[tuple[int, int, str]]:
    """Start, end and name of all that a process can write to, as far as there are pages: untouched ones hold zeros."""
    for line in _lines(process, "maps"):
        place, rights, _, _, _, *name = line.split(maxsplit=5)
        if rights.startswith("rw"):
            start, end = (int(edge, 16) for edge in place.split("-"))
            for first, last in _touched(process, start, end):
                yield first, last, name[0].strip() if name else "anonymous"


def bits_of(process: int) -> list[tuple[int, int]]:
    """Start and length of the pages that no child inherits and no core dump shows: see `memory.scratch`."""
    found, place = [], (0, 0)
    for line in _lines(process, "smaps"):
        if not line[0].isupper():  # as the names of fields are
            start, end = (int(edge, 16) for edge in line.split()[0].split("-"))
            place = (start, end - start)
        elif line.startswith("VmFlags:") and {"wf", "dd"} <= set(line.split()):
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
    """The parts of a mapping that have pages, by the map of the process; all of it where the system does not tell."""
    try:
        with Path(f"/proc/{process}/pagemap").open("rb", buffering=0) as map_:
            map_.seek(start // _PAGE * 8)
            entries = np.frombuffer(map_.read((end - start) // _PAGE * 8), dtype=np.uint64)
    except OSError:
        return [(start, end)]
    return [(start + first, start + last) for first, last in _stretches((entries & _THERE) != 0)]


def _stretches(pages: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """The first and the last byte of neighbouring pages that are chosen."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], pages, [False]]).astype(np.int8))) * _PAGE
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


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

    @property
    def owner(self) -> tuple[int, str]:
        """The process, or the file, in which addresses are places."""
        return self.process, "" if self.process else self.name


@dataclass(frozen=True)
class Image:
    """Everything that an intruder copies."""

    segments: list[Segment]

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return sum(len(segment.octets) for segment in self.segments)

    @cached_property
    def _by_owner(self) -> dict[tuple[int, str], list[Segment]]:
        """The segments of each process and of each file, in ascending order: they do not overlap."""
        found: dict[tuple[int, str], list[Segment]] = {}
        for segment in sorted(self.segments, key=lambda segment: segment.address):
            found.setdefault(segment.owner, []).append(segment)
        return found

    def earlier(self, later: Segment) -> Octets:
        """What stood where a segment of a later image stands; zeros where there was nothing."""
        found = np.zeros(len(later.octets), dtype=np.uint8)
        end = later.address + len(later.octets)
        segments = self._by_owner.get(later.owner, [])
        at = max(bisect_right(segments, later.address, key=lambda segment: segment.address) - 1, 0)
        while at < len(segments) and segments[at].address < end:
            segment = segments[at]
            first = max(segment.address, later.address)
            last = min(segment.address + len(segment.octets), end)
            if first < last:
                found[first - later.address : last - later.address] = segment.octets[
                    first - segment.address : last - segment.address
                ]
            at += 1
        return found

    def written_since(self, origin: "Image") -> "Image":
        """The pages that differ from an image of the process that this one is a fork of, with a page on either side.

        No process that knew no secret has left one in the others. What is looked for reaches less than a page from any
        of its bytes, so that nothing is missed that was written in part only.
        """
        parts = []
        for segment in self.segments:
            octets, short = segment.octets, -len(segment.octets) % _PAGE
            both = (np.pad(each, (0, short)) if short else each for each in (octets, origin.earlier(segment)))
            now, then = (each.view(np.uint64) for each in both)
            differs = np.pad((now != then).reshape(-1, _PAGE // 8).any(axis=1), 1)
            for first, last in _stretches(differs[:-2] | differs[1:-1] | differs[2:]):
                parts.append(replace(segment, address=segment.address + first, octets=octets[first:last]))
        return Image(parts)


def take(process: int, folder: Path) -> Image:
    """Copy the memory of a process that waits, of all its descendants, and a folder with all its files."""
    segments = [segment for member in family(process) for segment in memory_of(member)]
    for path in sorted(folder.rglob("*")):  # hidden files, too
        if path.is_file():
            octets = np.frombuffer(path.read_bytes(), dtype=np.uint8)
            segments.append(Segment(str(path.relative_to(folder)), 0, 0, octets))
    return Image(segments)


def memory_of(process: int) -> Iterator[Segment]:
    """Copy all that one process can write to."""
    try:
        memory = os.open(f"/proc/{process}/mem", os.O_RDONLY)
    except OSError as error:
        raise refused(process, error) from None
    try:
        for start, end, name in writable(process):
            octets = np.zeros(end - start, dtype=np.uint8)
            _read(memory, start, octets)
            yield Segment(name, process, start, octets)
    finally:
        os.close(memory)


def _read(memory: int, address: int, octets: Octets) -> None:
    """Copy pages; those that cannot be read, such as [vvar] or what was given back just now, stay zeros."""
    at = 0
    while at < len(octets):
        try:
            got = os.preadv(memory, [octets[at:].data], address + at)
        except OSError:
            at += _PAGE
            continue
        if not got:
            raise CannotImage("the process under audit has ended")
        at += got


@dataclass(frozen=True)
class Imaged:
    """What was found in the last image of one scenario; all zeros is the claim."""

    scenario: str
    users: int
    """Users there could be."""
    came: int
    """Users who came."""
    hardened: bool
    """Whether the allocators of the process overwrite freed memory."""
    bits_seen: bool
    """Whether the bits were found in the process; if not, an older version of them could not be told from them."""
    users_named: int
    """Users who are certain to have come: their bit differs between two versions in the image, or its flip is there."""
    where: tuple[str, ...]
    """The mappings and files in which something was found."""
    image_bytes: int
    """Bytes of the image, or of the notes about files."""
    seconds: float
    words_found: int = 0
    """Words of earlier tables, or of flips, that were found, whether or not they name a user."""
    ids_found: int = 0
    """Users of batches before the last whose id, hash or place was found."""
    counts_found: int = 0
    """Counts of ones in words of earlier tables that were found."""
    releases_found: int = 0
    """Counts of releases as they were before noise, or the noise on them, that were found."""
    keys_found: int = 0
    """Keys of coins, or stretches of keystream, that were found."""
    differences: int = 0
    """Batches after which names, lengths, times or calls of files tell whether one user was in them."""

    @property
    def clean(self) -> bool:
        """Whether nothing was found, and everything was looked for."""
        return not self.users_named and not self.ids_found and not self.details

    @property
    def details(self) -> list[str]:
        """What was found beside users and ids, and whether the bits were not."""
        found = {
            "words": self.words_found,
            "counts": self.counts_found,
            "exact counts of releases": self.releases_found,
            "keys": self.keys_found,
            "batches told by files": self.differences,
        }
        unseen = [] if self.bits_seen else ["bits not located"]
        return [f"{number:,} {what}" for what, number in found.items() if number] + unseen

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self) | {"clean": self.clean}

    def __str__(self) -> str:
        mode = "hardened" if self.hardened else "plain"
        found = f"{self.users_named:,} of {self.came:,} users named, {self.ids_found:,} ids found"
        where = f" in {', '.join(self.where)}" if self.where else ""
        return f"{self.scenario} ({self.users:,} users, {mode}): {', '.join([found, *self.details])}{where}"
