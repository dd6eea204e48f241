"""Where events come from besides HTTP: brokers, each read by one class with the two methods of `Source`.

`[counters.NAME.source]` has a key `kind`, which says which of them, and the keys of that kind. A kind is registered
here as ``package.module:function``; the function takes the settings of the counter and the table, and returns a
`Source`, or raises `BadConfig` with the keys that are wrong. It is called once by ``--check`` and once at the start,
and connects to nothing: `start` does.
"""

from collections.abc import Callable
from concurrent.futures import Future
from importlib import import_module
from typing import Protocol, TypeAlias

from panprivacy.serve.bodies import Body
from panprivacy.serve.config import BadConfig, CounterSettings

Take: TypeAlias = "Callable[[Body], Future[int]]"
"""Hands a body to a counter, which wipes it. The result is there once its rows are on disk, or says what is wrong.

It raises, or the result does, `refusals.Refused`: a `status` below 500 means that this body can never be counted, any
other that it should be sent again after a while (`retry` seconds). Rows that are sent twice are as good as sent once,
except to counters that are not `repeatable`.
"""


class Source(Protocol):
    """Reads a broker in a thread of its own, and acknowledges what the counter says is on disk."""

    @property
    def stopped(self) -> str | None:
        """Why it takes no more messages, if it does not; None while it reads, or waits for a broker."""

    def start(self, take: Take) -> None:
        """Begin to read."""

    def close(self) -> None:
        """Stop reading, wait until what was handed over is acknowledged, and let go of the broker."""


KINDS: dict[str, str] = dict.fromkeys(("kafka", "nats", "redis"), f"{__name__}.brokers:source")
"""Which function makes a source of which kind."""


def source_of(settings: CounterSettings) -> Source | None:
    """The source that the table of a counter describes; None if it has none."""
    if settings.source is None:
        return None
    kind = settings.source.get("kind")
    if kind not in KINDS:
        known = ", ".join(KINDS)
        raise BadConfig([f"counters.{settings.name}.source.kind: there is no source {kind!r}; there are: {known}"])
    module, _, name = KINDS[kind].partition(":")
    made: Source = getattr(import_module(module), name)(settings, settings.source)
    return made
