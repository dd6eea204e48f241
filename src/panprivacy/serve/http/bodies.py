"""Receiving bodies: into memory of our own, within limits of size and time.

The HTTP library has the beginning of a body as Python objects, which it frees as soon as they are copied here. In a
process that was started hardened, as the command starts itself, the C library overwrites freed memory.
"""

import asyncio
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request

from panprivacy.ingest.batch import ProblemType, Refused
from panprivacy.ingest.bodies import Body, ContentType
from panprivacy.memory.scratch import pages, use_large_pages, wipe
from panprivacy.serve.config import Limits
from panprivacy.serve.memory import MemoryLimit

FILL = "panprivacy.fill"
"""Where the scope of a request has the function that fills a buffer with the rest of its body, if there is one."""

_CONTENT_TYPES = {
    **{each.value: each for each in ContentType},
    "application/ndjson": ContentType.ndjson,
    "application/jsonl": ContentType.ndjson,
    "application/x-jsonlines": ContentType.ndjson,
}
_OWN_PAGES = 2**14  # bytes of a body that gets pages of its own
_LARGE_PAGES = 2**21  # bytes after which large pages cost at most as much again
_LONG = 2**17  # bytes of a body that does not pass through HTTP's parser
_PIECE = 2**18  # bytes that are taken from a socket at a time


class BodyQuota:
    """The bytes of all bodies that are here at once.

    A sender has no more of them than it leaves to others, or than the longest body (`longest`) has.
    """

    def __init__(self, most: int, memory: MemoryLimit | None = None, longest: int | None = None) -> None:
        self._most, self._memory = most, memory or MemoryLimit(None)
        self._longest = most if longest is None else longest
        self.taken = 0
        self._by_sender: Tally[bytes] = Tally()

    @contextmanager
    def reserve(self, sender: bytes = b"") -> Iterator[Callable[[int], None]]:
        """A function that takes the bytes of one body, up to a number of them; given back at the end of the block.

        They grow as the body comes: announcing a long body takes nothing from others.
        """
        taken = 0

        def grow(size: int) -> None:
            nonlocal taken
            if size > taken:
                self._take(size - taken, sender)
                taken = size

        try:
            yield grow
        finally:
            self._add(-taken, sender)

    def _take(self, size: int, sender: bytes) -> None:
        """Take this many bytes more, or refuse them."""
        own, free = self._by_sender[sender] + size, self._most - self.taken - size
        if free < 0 or own > max(self._longest, free) or self._memory.is_full:
            raise Refused(ProblemType.busy, retry=1.0)
        self._add(size, sender)

    def _add(self, size: int, sender: bytes) -> None:
        self.taken += size
        self._by_sender[sender] += size
        if not self._by_sender[sender]:
            del self._by_sender[sender]


class BodyBuffer:
    """The memory of one body. It costs what has come: pages are lent as bytes arrive, and `grow` is told of them."""

    def __init__(self, length: int | None, most: int, grow: Callable[[int], None]) -> None:
        self._length, self._most, self._grow = length, most, grow
        size = most if length is None else length
        self._used, self._has_large = 0, False
        if size < _OWN_PAGES:
            grow(size)
        self._pages: NDArray[np.uint8]
        self._pages = pages(size, small=True) if size >= _OWN_PAGES else np.empty(size, dtype=np.uint8)

    def add(self, chunk: bytes) -> None:
        """Write some bytes."""
        end = self._used + len(chunk)
        if end > len(self._pages):
            raise Refused(ProblemType.too_large, f"at most {self._most} bytes")
        self._grow(end)
        self._pages[self._used : end] = np.frombuffer(chunk, dtype=np.uint8)
        self.note(len(chunk))

    @property
    def lacking(self) -> int:
        """How many bytes of the body are to come; 0 if that is not known."""
        return 0 if self._length is None else self._length - self._used

    def next(self) -> memoryview:
        """Where the next bytes go."""
        end = self._used + min(_PIECE, self.lacking)
        self._grow(end)
        return self._pages.data[self._used : end]

    def note(self, size: int) -> None:
        """Note that this many bytes have been written there."""
        self._used += size
        if self._used >= _LARGE_PAGES and not self._has_large:
            use_large_pages(self._pages)
            self._has_large = True

    @property
    def filled(self) -> NDArray[np.uint8]:
        """The bytes so far."""
        return self._pages[: self._used]


async def receive_body(request: Request, limits: Limits, grow: Callable[[int], None], *, delete: bool) -> Body:
    """The body of a request, for whose bytes `grow` is asked; the caller wipes it."""
    content_type = _CONTENT_TYPES.get(request.headers.get("content-type", "").partition(";")[0].strip().lower())
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise Refused(ProblemType.content_type, "send it without Content-Encoding")
    if content_type is None:
        raise Refused(ProblemType.content_type)
    said = request.headers.get("content-length")  # None if it comes in chunks
    if said is not None and not said.isdecimal():
        raise Refused(ProblemType.bad_request)
    length = None if said is None else int(said)
    if length is not None and length > limits.body:
        raise Refused(ProblemType.too_large, f"at most {limits.body} bytes")
    buffer = BodyBuffer(length, limits.body, grow)
    try:
        async with asyncio.timeout(limits.seconds):
            await _fill(request, buffer)
    except BaseException as error:
        wipe(buffer.filled)
        if isinstance(error, TimeoutError):
            raise Refused(ProblemType.slow) from None
        if isinstance(error, ConnectionError):
            raise Refused(ProblemType.bad_request, "the body ended early") from None
        raise
    return Body(buffer.filled, content_type, delete)


async def _fill(request: Request, buffer: BodyBuffer) -> None:
    """Fill a buffer with a body: a short one as HTTP's parser hands it over, a long one straight from the socket."""
    more = True
    while more:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        buffer.add(message.get("body", b""))
        more = message.get("more_body", False)
        if more and buffer.lacking >= _LONG and FILL in request.scope:
            await request.scope[FILL](buffer)
            return
