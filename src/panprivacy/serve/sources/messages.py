"""What all brokers have in common: they are asked for some messages, and told later which of them are on disk."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from panprivacy.errors import PanPrivacyError
from panprivacy.serve.sources.block import Block


class Unreachable(PanPrivacyError):
    """The broker does not answer, or has not got what is asked for; it is asked again after a while."""


class Hopeless(PanPrivacyError):
    """The broker will never give what is asked for."""


@dataclass(frozen=True)
class Messages:
    """Some messages, in the order of the broker, none of them empty.

    Whoever writes of one of them writes its `place`, which is no part of what it says.
    """

    payloads: Block
    """What they say; wiped by whoever has acknowledged them."""
    receipt: Any
    """What the broker needs to acknowledge them all."""
    place: Callable[[int], str]
    """Where the message of this number is: a partition and an offset, or what this broker has instead."""


class Broker(Protocol):
    """One topic, stream or consumer. All calls come from one thread, and connect where that is needed.

    What was not acknowledged is given out again, at the latest to whoever asks next after a crash.
    """

    @property
    def name(self) -> str:
        """What it is called where people read it: an address without credentials."""

    def fetch(self, most: int, seconds: float) -> Messages | None:
        """Some messages, as soon as there are any; None if none came in this time. Raises the two errors above."""

    def acknowledge(self, messages: Messages) -> None:
        """Have the broker never give these out again. Raises `Unreachable`: then it may."""

    def close(self) -> None:
        """Let go of the broker; what was acknowledged before is so afterwards."""
