"""Plotly's script, which draws the charts of the page: taken from its installed package, compressed once."""

import gzip
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from panprivacy.serve.refusals import Refused, Why


@dataclass(frozen=True)
class Script:
    """A script as it is sent: 4.8 MB that go over the wire as 1.5, or as nothing to a browser that has them."""

    packed: bytes
    tag: str


async def plotly_script(request: Request) -> Response:
    """Answer with the script."""
    path = script_path()
    if path is None:
        raise Refused(Why.not_found, "charts need Plotly: pip install plotly")
    script = await run_in_threadpool(_packed, path)
    headers = {"etag": script.tag, "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == script.tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(script.packed, headers=headers | {"content-encoding": "gzip"}, media_type="text/javascript")
    return Response(gzip.decompress(script.packed), headers=headers, media_type="text/javascript")


@cache
def script_path() -> Path | None:
    """Where the script is; None if Plotly is not installed. The package itself is not loaded."""
    found = find_spec("plotly")
    if found is None or not found.submodule_search_locations:
        return None
    path = Path(found.submodule_search_locations[0], "package_data", "plotly.min.js")
    return path if path.is_file() else None


@cache
def _packed(path: Path) -> Script:
    plain = path.read_bytes()
    return Script(gzip.compress(plain), f'"{sha256(plain).hexdigest()[:32]}"')
