"""Where events come from besides HTTP: brokers, each read by one class with the two methods of `Source`.

`[counters.NAME.source]` has a key `kind`, which says which of them, and the keys of that kind. A kind is registered
here as ``package.module:function``; the function takes the name of the counter and the table, and returns a `Source`,
or raises `BadConfig` with the key that is wrong. It is called once by ``--check`` and once at the start, and connects
to nothing: `start` does.
"""

from collections.abc import Callable
from concurrent.futures import Future
from importlib import import_module
from typing import Any, Protocol, TypeAlias

from panprivacy.serve.bodies import Body
from panprivacy.serve.config.table import BadConfig

Take: TypeAlias = "Callable[[Body], Future[int]]"
"""Hands a body to a counter, which wipes it. The result is there once its rows are on disk, or says what is wrong.

It raises, or the result does, `refusals.Refused`: a `status` below 500 means that this body can never be counted, any
other that it should be sent again after a while (`retry` seconds). Rows that are sent twice are as good as sent once,
except to counters that are not `repeatable`.
"""


class Source(Protocol):
    """Reads a broker in a thread of its own, and acknowledges what the counter says is on disk."""

    def start(self, take: Take) -> None:
        """Begin to read."""

    def close(self) -> None:
        """Stop reading, wait until what was handed over is acknowledged, and let go of the broker."""


KINDS: dict[str, str] = {}
"""Which function makes a source of which kind."""


def source_of(counter: str, table: dict[str, Any]) -> Source:
    """The source that a table describes."""
    kind = table.get("kind")
    if kind not in KINDS:
        known = ", ".join(KINDS) or "none is installed"
        raise BadConfig([f"counters.{counter}.source.kind: there is no source {kind!r}; there are: {known}"])
    module, _, name = KINDS[kind].partition(":")
    made: Source = getattr(import_module(module), name)(counter, table)
    return made
