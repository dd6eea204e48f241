"""An S3-compatible store in memory, behind a proxy that answers some requests by errors; for tests and benchmarks.

    python benchmarks/lying_store.py        # prints its URL, and serves until standard input ends

Errors come in turn, before and after what was asked is done, and so does no answer at all. It needs moto.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from threading import Lock, Thread
from typing import Any

STATUSES = ("500 InternalError", "409 ConditionalRequestConflict", "412 PreconditionFailed", "503 SlowDown")
SILENCE = "no answer"


class LyingProxy:
    """Stands before a store, as HTTP. Every so many-th write, and read, is answered by an error.

    All errors come in turn: each comes, in whatever order threads run.
    """

    LIES = tuple((status, when) for status in (*STATUSES, SILENCE) for when in ("before", "after"))

    def __init__(self, store: Any, writes: int = 2, reads: int = 10) -> None:
        self._store = store
        self._every = {"PUT": writes, "GET": reads}
        self._asked = {"PUT": count(), "GET": count()}
        self._one = Lock()  # the store looks whether an object exists, and then writes it
        self.lied: set[tuple[str, str]] = set()

    def __call__(self, request: Any, begin: Any) -> Any:
        """Answer a request."""
        method = "PUT" if request["REQUEST_METHOD"] == "PUT" else "GET"
        number, every = next(self._asked[method]), self._every[method]
        if (number + 1) % every:
            return self._answered(request, begin)
        lie = self.LIES[number // every % len(self.LIES)] if method == "PUT" else self.LIES[0]
        if lie[1] == "after":
            self._answered(request, lambda *_: None)
        self.lied.add(lie)
        if lie[0] == SILENCE:
            request["werkzeug.socket"].close()
        begin("500" if lie[0] == SILENCE else lie[0], [("content-type", "application/xml")])
        return [f"<Error><Code>{lie[0].split()[1]}</Code><Message>no</Message></Error>".encode()]

    def _answered(self, request: Any, begin: Any) -> list[bytes]:
        with self._one:
            return list(self._store(request, begin))


@contextmanager
def lying_store(writes: int, reads: int) -> Iterator[tuple[str, LyingProxy]]:
    """The URL of a store that lies, as long as the `with` block lasts; all of them have the same objects."""
    from moto.moto_server.werkzeug_app import create_backend_app
    from werkzeug.serving import make_server

    lying = LyingProxy(create_backend_app("s3"), writes, reads)
    running = make_server("127.0.0.1", 0, lying, threaded=True)
    thread = Thread(target=running.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}", lying
    finally:
        running.shutdown()
        thread.join()


if __name__ == "__main__":
    import logging

    logging.disable()
    with lying_store(writes=5, reads=20) as (url, _):
        print(url, flush=True)
        sys.stdin.read()
