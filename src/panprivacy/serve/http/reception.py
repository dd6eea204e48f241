"""Receiving a body: into memory of our own, within limits of size and time.

What the HTTP library has of its beginning are Python objects, which it lets go of as soon as they are copied here; in a
process that was started hardened, as the command starts itself, the C library overwrites them then.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request

from panprivacy.memory import room, wipe
from panprivacy.serve.bodies import Body, Form
from panprivacy.serve.config import Limits
from panprivacy.serve.filling import FILL
from panprivacy.serve.refusals import Refused, Why

_FORMS = {
    **{form.value: form for form in Form},
    "application/ndjson": Form.ndjson,
    "application/jsonl": Form.ndjson,
    "application/x-jsonlines": Form.ndjson,
}
_LONG = 2**17  # bytes of a body that is worth pages of its own, and better not handed over by HTTP's parser
_PIECE = 2**18  # bytes that are taken from a socket at a time


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
    pages = _Pages(length, limits.body, place)
    try:
        async with asyncio.timeout(limits.seconds):
            await _fill(request, pages)
    except TimeoutError:
        pages.wipe()
        raise Refused(Why.slow) from None
    except ConnectionError:
        pages.wipe()
        raise Refused(Why.bad_request, "the body ended early") from None
    except BaseException:
        pages.wipe()
        raise
    return Body(pages.filled, form, delete)


async def _fill(request: Request, pages: "_Pages") -> None:
    """Fill pages with a body: a short one as HTTP's parser hands it over, a long one straight from the socket."""
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        pages.add(message.get("body", b""))
        more = message.get("more_body", False)
        if more and pages.lacking >= _LONG and FILL in request.scope:
            await request.scope[FILL](pages)
            return


class _Pages:
    """The pages of a body. The system lends those of a long one as it comes, and so does the room of all bodies."""

    def __init__(self, length: int | None, most: int, place: Place) -> None:
        self._length, self._most = length, most
        size = most if length is None else length
        self._pages: NDArray[np.uint8] = room(size) if size >= _LONG else np.empty(size, dtype=np.uint8)
        self._place = place
        self._used = 0

    def add(self, chunk: bytes) -> None:
        """Write some bytes."""
        end = self._used + len(chunk)
        if end > len(self._pages):
            raise Refused(Why.too_large, f"at most {self._most} bytes")
        self._place.grow(end)
        self._pages[self._used : end] = np.frombuffer(chunk, dtype=np.uint8)
        self._used = end

    @property
    def lacking(self) -> int:
        """How many bytes of the body are to come; 0 if nobody knows."""
        return 0 if self._length is None else self._length - self._used

    def next(self) -> memoryview:
        """Where the next bytes go."""
        end = self._used + min(_PIECE, self.lacking)
        self._place.grow(end)
        return self._pages.data[self._used : end]

    def note(self, size: int) -> None:
        """So many bytes have been written there."""
        self._used += size

    @property
    def filled(self) -> NDArray[np.uint8]:
        return self._pages[: self._used]

    def wipe(self) -> None:
        wipe(self.filled)
