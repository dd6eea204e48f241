"""Receiving a body: into memory of our own, within limits of size and time.

What the HTTP library has of it are Python objects, which it lets go of as soon as they are copied here; in a process
that was started hardened, as the command starts itself, the C library overwrites them then.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from starlette.requests import ClientDisconnect, Request

from panprivacy.memory import wipe
from panprivacy.serve.bodies import Body, Form
from panprivacy.serve.config import Limits
from panprivacy.serve.refusals import Refused, Why

_FORMS = {
    **{form.value: form for form in Form},
    "application/ndjson": Form.ndjson,
    "application/jsonl": Form.ndjson,
    "application/x-jsonlines": Form.ndjson,
}
_FIRST = 2**18  # bytes of room for the beginning of a body
_GROWTH = 4  # how many times as much it gets when that is full


class Room:
    """The bytes of all bodies that are here at once."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.taken = 0

    @contextmanager
    def for_body(self) -> Iterator["Place"]:
        """A place for a body, given back at the end of the block."""
        place = Place(self)
        try:
            yield place
        finally:
            self.taken -= place.size

    def take(self, size: int) -> None:
        """Take that many bytes more, or refuse them."""
        if self.taken + size > self._most:
            raise Refused(Why.busy, retry=1.0)
        self.taken += size


class Place:
    """What one body has of the room: it grows as the body comes, so that nobody takes room by announcing a body."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self.size = 0

    def grow(self, size: int) -> None:
        """Have this many bytes in all, or be refused."""
        self._room.take(size - self.size)
        self.size = size


def form_of(request: Request) -> Form:
    """What a body is said to be."""
    said = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if said not in _FORMS or request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Refused(Why.type)
    return _FORMS[said]


def length_of(request: Request, limits: Limits) -> int | None:
    """How many bytes a body is said to have; None if it comes in chunks."""
    said = request.headers.get("content-length")
    if said is None:
        return None
    if not said.isdecimal():
        raise Refused(Why.bad_request)
    if int(said) > limits.body:
        raise Refused(Why.too_large, f"at most {limits.body} bytes")
    return int(said)


async def received(
    request: Request, form: Form, length: int | None, limits: Limits, place: Place, *, delete: bool
) -> Body:
    """The body of a request; whoever gets it wipes it."""
    pages = _Pages(limits.body if length is None else length, limits.body, place)
    try:
        async with asyncio.timeout(limits.seconds):
            async for chunk in request.stream():
                pages.add(chunk)
    except TimeoutError:
        pages.wipe()
        raise Refused(Why.slow) from None
    except ClientDisconnect:
        pages.wipe()
        raise Refused(Why.bad_request, "the body ended early") from None
    except BaseException:
        pages.wipe()
        raise
    return Body(pages.filled, form, delete)


class _Pages:
    """Bytes that grow, and leave nothing behind where they were."""

    def __init__(self, announced: int, most: int, place: Place) -> None:
        size = min(_FIRST, announced)
        place.grow(size)
        self._room: NDArray[np.uint8] = np.empty(size, dtype=np.uint8)
        self._announced, self._most = announced, most
        self._place = place
        self._used = 0

    def add(self, chunk: bytes) -> None:
        end = self._used + len(chunk)
        if end > self._most:
            raise Refused(Why.too_large, f"at most {self._most} bytes")
        if end > len(self._room):
            size = max(min(_GROWTH * len(self._room), self._announced), end)
            self._place.grow(size)
            larger = np.empty(size, dtype=np.uint8)
            larger[: self._used] = self._room[: self._used]
            wipe(self._room)
            self._room = larger
        self._room[self._used : end] = np.frombuffer(chunk, dtype=np.uint8)
        self._used = end

    def wipe(self) -> None:
        wipe(self._room)

    @property
    def filled(self) -> NDArray[np.uint8]:
        return self._room[: self._used]
