"""Plotly's script, which draws the charts of the page: taken from its installed package, compressed once."""

import gzip
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from panprivacy.serve.refusals import Refused, Why


class PlotlyScript:
    """Answers with the script; 4.8 MB that go over the wire as 1.5, or as nothing to a browser that has them."""

    def __init__(self) -> None:
        self._plain = b""
        self._packed = b""
        self._tag = ""

    async def __call__(self, request: Request) -> Response:
        """Answer a request."""
        if not self._plain:
            await run_in_threadpool(self._read)
        headers = {"etag": self._tag, "vary": "accept-encoding"}
        if request.headers.get("if-none-match") == self._tag:
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(self._packed, headers=headers | {"content-encoding": "gzip"}, media_type="text/javascript")
        return Response(self._plain, headers=headers, media_type="text/javascript")

    def _read(self) -> None:
        path = script_path()
        if path is None:
            raise Refused(Why.not_found, "charts need Plotly: pip install plotly")
        plain = path.read_bytes()
        self._packed = gzip.compress(plain, compresslevel=6)
        self._tag = f'"{sha256(plain).hexdigest()[:32]}"'
        self._plain = plain


def script_path() -> Path | None:
    """Where the script is; None if Plotly is not installed. The package itself is not loaded."""
    found = find_spec("plotly")
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0], "package_data", "plotly.min.js")
    return path if path.is_file() else None
