"""Compiled code: all of it is there before the service listens, and whoever waits for it is told why.

Numba compiles on a first start, and reads what it compiled from its cache on later ones. Estimators load all that they
need when they are made; readers of bodies would load theirs with the first body.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from panprivacy.lazily import loaded

COMPILING = "compiling, once: may take a minute"
_OF_READERS = ("panprivacy.serve.plain.lines", "panprivacy.events.fields")


def load_readers() -> None:
    """Load, and on a first start compile, what readers of bodies need."""
    for name in ("polars", *_OF_READERS):
        loaded(name)


@contextmanager
def told(say: Callable[[str], None]) -> Iterator[None]:
    """Say it as soon as something has to be compiled inside the block."""
    from numba.core import event

    class Teller(event.Listener):
        told = False

        def on_start(self, _event: Any) -> None:
            if not self.told:
                self.told = True
                say(COMPILING)

        def on_end(self, _event: Any) -> None:
            pass

    with event.install_listener("numba:compile", Teller()):
        yield
