"""Keeping a process from leaving what it has freed: `pp.harden()`, and commands that start themselves that way.

The library wipes what it makes. Python, Polars and the C library do not wipe their copies of ids:
these stay in freed memory until it is used again. The allocators can be told to overwrite or give back freed memory,
some of them only before the process starts.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from panprivacy.display import format_bytes
from panprivacy.memory.scratch import lock_bits

if TYPE_CHECKING:
    from rich.console import Group

_PERTURB, _SET_DUMPABLE, _GET_DUMPABLE = -6, 4, 3  # numbers of glibc and Linux that Python has no names for
_FREED = 0xA5  # what freed memory is filled with
_POLARS = ("_RJEM_MALLOC_CONF", "junk:free,tcache:false,dirty_decay_ms:0,muzzy_decay_ms:0")
_UNCACHED = ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0")
_ARROW = ("ARROW_DEFAULT_MEMORY_POOL", "system")  # the C library's, which overwrites
AT_START = {"MALLOC_PERTURB_": str(_FREED), "PYTHONMALLOC": "malloc", **dict([_UNCACHED, _POLARS, _ARROW])}
"""What the environment of a process says before it starts, so that its allocators overwrite or give back freed memory.

Without caches of threads: memory freed into a cache is neither overwritten nor given back.
"""

STARTED = "PANPRIVACY_STARTED_HARDENED"
"""The variable of a command that has started itself anew."""

_is_program = False


@dataclass(frozen=True)
class Measure:
    """One thing that protects the memory of this process, and whether it is in force."""

    name: str
    in_force: bool
    note: str = ""
    """Why it is not in force and what would help, or what limits it."""
    at_start: bool = False
    """Whether it has to be said before Python starts."""

    def __str__(self) -> str:
        return f"{'yes' if self.in_force else 'NO '} {self.name}{f': {self.note}' if self.note else ''}"


@dataclass(frozen=True)
class Hardening:
    """What `pp.harden()` did."""

    measures: tuple[Measure, ...]

    @property
    def complete(self) -> bool:
        """Whether everything is in force."""
        return not self.missing

    @property
    def missing(self) -> tuple[Measure, ...]:
        """The measures that are not in force."""
        return tuple(measure for measure in self.measures if not measure.in_force)

    def __iter__(self) -> Iterator[Measure]:
        return iter(self.measures)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.measures), *self._advice])

    @property
    def _advice(self) -> list[str]:
        if not any(measure.at_start for measure in self.missing):
            return []
        settings = " ".join(f"{name}={value}" for name, value in AT_START.items())
        return [f"what has to be said before Python starts: env {settings} python ..."]

    def __rich__(self) -> "Group":
        from rich.console import Group
        from rich.table import Table

        grid = Table("measure", "in force", "note", title="harden")
        for measure in self.measures:
            grid.add_row(measure.name, "yes" if measure.in_force else "[bold red]no", measure.note)
        return Group(grid, *self._advice)


def harden() -> Hardening:
    """Do what can be done in a running process against copies of its memory, and list the measures in force.

    Call it first, before Polars is imported and before estimators are made. `docs/explanation/guarantee.md` says
    what each measure does, and what remains. Calling it again is harmless, and tells whether later tables could be
    locked, too.

    >>> import panprivacy as pp
    >>> [measure.name for measure in pp.harden()][:2]                                       # doctest: +SKIP
    ['the C library overwrites what is freed', 'Python frees its small objects to the C library']
    """
    return Hardening(
        (
            _overwritten_by_libc(),
            _python_uses_libc(),
            _overwritten_by_polars(),
            _no_core_dumps(),
            _not_dumpable(),
            _bits_locked(),
        )
    )


def _libc() -> ctypes.CDLL:
    if sys.platform == "win32":
        raise OSError("this needs a C library of POSIX")
    return ctypes.CDLL(None, use_errno=True)


def _overwritten_by_libc() -> Measure:
    name = "the C library overwrites what is freed"
    try:
        libc = _libc()
        libc.gnu_get_libc_version  # noqa: B018 - others have a mallopt that knows nothing of this
        libc.mallopt(_PERTURB, _FREED)
        small, large = (_is_overwritten(libc, size) for size in (1000, 5000))
    except (OSError, AttributeError):
        return Measure(name, in_force=False, note="this needs glibc, the C library of most Linux systems")
    if small and large:
        return Measure(name, in_force=True)
    cached = "pieces of up to 1 KiB are kept for the next who asks, as they are"
    return Measure(name, in_force=False, note=cached if large else "this glibc does not do it", at_start=True)


def _is_overwritten(libc: ctypes.CDLL, size: int) -> bool:
    """Free something, and look whether it is still there; others may have got the place meanwhile."""
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.restype, libc.free.argtypes = None, [ctypes.c_void_p]
    used = 64  # bytes at both ends in which the allocator keeps its own lists
    found, written = bytearray(size - 2 * used), 1
    view = (ctypes.c_char * len(found)).from_buffer(found)
    place = libc.malloc(size)
    ctypes.memset(place, written, size)
    libc.free(place)
    ctypes.memmove(view, place + used, len(found))
    return bytes([written]) * 16 not in found


def _python_uses_libc() -> Measure:
    name = "Python frees its small objects to the C library"
    if sys.getallocatedblocks() == 0:  # Python's own allocator counts its blocks
        return Measure(name, in_force=True)
    return Measure(name, in_force=False, note="Python's own allocator overwrites nothing", at_start=True)


def _overwritten_by_polars() -> Measure:
    name, (variable, setting) = "Polars overwrites what it frees", _POLARS
    if f"{variable}={setting}" in _environment_at_start():
        return Measure(name, in_force=True)
    if "polars" in sys.modules and setting not in os.environ.get(variable, ""):  # Polars puts its own before it
        note = "it is loaded already: call pp.harden() before anything imports it"
        return Measure(name, in_force=False, note=note, at_start=True)
    os.environ[variable] = setting  # read when Polars is loaded
    return Measure(name, in_force=True)


def polars_overwrites() -> bool:
    """Whether Polars was told to overwrite what it frees."""
    variable, setting = _POLARS
    return setting in os.environ.get(variable, "")


@cache  # a process that is not dumpable may not read this any more
def _environment_at_start() -> str:
    with suppress(OSError):
        return Path("/proc/self/environ").read_bytes().decode(errors="replace")
    return ""


def _no_core_dumps() -> Measure:
    name = "no core dumps"
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, OSError, ValueError) as error:
        return Measure(name, in_force=False, note=str(error))
    return Measure(name, in_force=True)


def _not_dumpable() -> Measure:
    name = "other processes of this user cannot read its memory"
    try:
        libc = _libc()
        libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
        done = libc.prctl(_GET_DUMPABLE, 0, 0, 0, 0) == 0
    except (OSError, AttributeError):
        done = False
    return Measure(name, done, "the administrator can" if done else "this needs Linux")


def _bits_locked() -> Measure:
    name, problem = "the bits of tables are not swapped out", lock_bits()
    if problem is None:
        return Measure(name, in_force=True, note=_lockable())
    return Measure(name, in_force=False, note=f"{problem}; {_lockable()} (ulimit -l, LimitMEMLOCK of systemd)")


def _lockable() -> str:
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    except (ImportError, OSError):
        return ""
    return "" if limit == resource.RLIM_INFINITY else f"this process may lock {format_bytes(limit)}"


# --- commands ---------------------------------------------------------------------------------------------------------


def started_as_program() -> None:
    """Note that this process is the `panprivacy` program, which may start itself anew, and not a user's."""
    global _is_program  # noqa: PLW0603 - what this process is
    _is_program = True


def start_hardened() -> Hardening | None:
    """Start this command once more with allocators that overwrite freed memory, before anything is read or locked.

    Returns in the process that was started so, hardened further; in a process that is not the program, does nothing.
    """
    if not _is_program:
        return None
    if STARTED not in os.environ:
        _start_again()
    return harden()


def _start_again() -> None:
    if not sys.executable or sys.platform == "win32":
        return
    settings = dict(AT_START)
    name, ours = _UNCACHED
    if theirs := os.environ.get(name):
        settings[name] = f"{theirs}:{ours}"
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    with suppress(OSError):  # then it goes on as it was started, and lists the missing measures
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], os.environ | settings | {STARTED: "1"})
