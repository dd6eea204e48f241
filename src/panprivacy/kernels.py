"""Kernels are loaded late: numba takes a second, and neither help texts nor plans need it.

The modules below are imported as any others are, and their code runs when something in them is first used. Estimators
load what they need when they are built, so that no event decides which kernels are compiled: all in `ALWAYS`, and
those that their universe, slots and table name as `KERNELS`.
"""

import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from typing import Any

ALWAYS = (
    "memory.intrinsics",
    "privacy.kernels",
    "universe.kernels",
    "slots.kernels",
    "table.kernels",
)
"""The modules that every estimator needs."""
SOME = ("universe.lookup_kernels", "slots.hashed_kernels", "table.counter_kernels")
"""The modules that some estimators need."""


READERS = ("ingest.csv_kernels", "ingest.ndjson_kernels", "folder.kernels")
"""The modules that readers of files and bodies, and state folders, import when they need them."""
SIGNATURES = 33
"""Kernels in the modules of `ALWAYS`, counted by their types: what a first run compiles for a `Density`."""
_LATE = {f"panprivacy.{name}" for name in (*ALWAYS, *SOME)}


class _LateFinder(MetaPathFinder):
    """Finds these modules as Python does, with the loader of the standard library that waits until they are used."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in _LATE else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def load_late() -> None:
    """From now on, load kernels when they are first used."""
    if not any(isinstance(finder, _LateFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _LateFinder())


def load_kernels(names: Iterable[str] = ALWAYS) -> None:
    """Load the kernels of these modules now; a person at a terminal is told if that compiles them."""
    if sys.stderr is not None and sys.stderr.isatty():
        _tell_compiling()
    for name in names:
        vars(import_module(f"panprivacy.{name}"))  # a look at its names loads a module


@cache
def _tell_compiling() -> None:
    """From now on, show on standard error that numba compiles, as it does on a first run, and how far it is."""
    from numba.core import event

    class Teller(event.Listener):
        begun = inside = 0

        def on_start(self, _event: Any) -> None:
            if not self.inside:
                if not self.begun:
                    print("panprivacy: the first run compiles, once: 10 to 60 seconds", file=sys.stderr)
                self.begun += 1
                whole = max(self.begun, SIGNATURES)
                bar = ("#" * (40 * self.begun // whole)).ljust(40, ".")
                print(f"\r{bar} {self.begun} of {whole}", end="", file=sys.stderr, flush=True)
            self.inside += 1

        def on_end(self, _event: Any) -> None:
            self.inside -= 1
            if not self.inside:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    register: Any = event.register  # which has no types
    register("numba:compile", Teller())


def load_kernels_of(*parts: object) -> None:
    """Load the kernels that the parts of an estimator name."""
    for part in parts:
        load_kernels(getattr(part, "KERNELS", ()))
