"""Files of the page and Plotly's script: in memory once, and sent in short pieces, so that slow readers cost little."""

import gzip
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from mimetypes import guess_type
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from panprivacy.ingest.problems import ProblemType, Refused

STATIC = Path(__file__).parent.parent / "static"
"""What the page is made of."""
_PIECE = 2**15  # bytes that are handed to a connection at a time
_PLOTLY = "plotly.min.js"


class SharedResponse(Response):
    """An answer whose bytes many connections share. A piece is sent when the reader has taken the one before."""

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        """Answer, as ASGI has it."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = memoryview(self.body)
        for at in range(0, 0 if scope["method"] == "HEAD" else len(body), _PIECE):
            await send({"type": "http.response.body", "body": bytes(body[at : at + _PIECE]), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@dataclass(frozen=True)
class Asset:
    """A file as it is sent: plain, or packed, or not at all to a browser that has it."""

    plain: bytes
    packed: bytes
    tag: str
    media_type: str

    @classmethod
    def of(cls, plain: bytes, media_type: str) -> "Asset":
        """An asset of some bytes."""
        return cls(plain, gzip.compress(plain), f'"{sha256(plain).hexdigest()[:32]}"', media_type)

    def answer(self, request: Request) -> Response:
        """Answer a request for it."""
        headers = {"etag": self.tag, "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
            return SharedResponse(self.packed, headers=headers, media_type=self.media_type)
        return SharedResponse(self.plain, headers=headers, media_type=self.media_type)


@cache
def _read(path: Path) -> Asset:
    return Asset.of(path.read_bytes(), guess_type(path.name)[0] or "application/octet-stream")


@cache
def static_files() -> dict[str, Asset]:
    """All files of the page, by name."""
    return {path.name: _read(path) for path in STATIC.iterdir() if path.is_file()}


async def static_file(request: Request) -> Response:
    """Answer with a file of the page."""
    name = str(request.path_params["file"])
    if name == _PLOTLY:
        path = script_path()
        if path is None:
            raise Refused(ProblemType.not_found, "charts need Plotly: pip install plotly")
        return (await run_in_threadpool(_read, path)).answer(request)
    found = static_files().get(name)
    if found is None:
        raise HTTPException(404)
    return found.answer(request)


@cache
def script_path() -> Path | None:
    """Where Plotly's script is; None if Plotly is not installed. The package itself is not loaded."""
    found = find_spec("plotly")
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0], "package_data", _PLOTLY)
    return path if path.is_file() else None
