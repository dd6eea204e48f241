"""Kernels are loaded late: numba takes a second, and neither help texts nor plans need it.

The modules below are imported as any others are, and their code runs when something in them is first used. Estimators
call `load_kernels` when they are imported, so that no event decides what is loaded or compiled.
"""

import sys
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from typing import Any

LATE = tuple(
    f"panprivacy.{name}"
    for name in (
        "memory.stack",
        "privacy.kernels",
        "privacy.noise_kernels",
        "universe.kernels",
        "slots.kernels",
        "table.kernels",
        "table.counter_kernels",
    )
)
"""The modules that are loaded when they are first used."""


class _LateFinder(MetaPathFinder):
    """Finds these modules as Python does, with the loader of the standard library that waits until they are used."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in LATE else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


def load_late() -> None:
    """From now on, load kernels when they are first used."""
    if not any(isinstance(finder, _LateFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _LateFinder())


def load_kernels() -> None:
    """Load all kernels now."""
    for name in LATE:
        vars(import_module(name))  # a look at its names loads a module
