"""The first body of each kind, and the first release, load nothing and compile nothing: that was done at the start."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

WATCH = """
import io, json, os, signal, sys, threading
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from panprivacy.serve import server
from panprivacy.serve.config import settings_of

OURS = ("panprivacy", "numba", "polars", "scipy")
PLAIN = {"universe": 1000, "epsilon": 2.0, "column": "user"}
COUNTERS = {
    "flu": PLAIN | {"kind": "density"},
    "people": {"kind": "distinct", "ids": "integers", "epsilon": 2.0, "column": "user"},
    "often": PLAIN | {"kind": "counts", "up_to": 4},
}
ROWS = [{"user": 5}, {"user": 17}]
BODIES = {
    "application/x-ndjson": "".join(json.dumps(row) + chr(10) for row in ROWS),
    "text/csv": "user" + chr(10) + "5" + chr(10),
    "application/json": json.dumps(ROWS),
}
found = {}

def loaded():
    from numba.core.dispatcher import Dispatcher
    kernels = set()
    for module in [name for name in sys.modules if name.startswith("panprivacy")]:
        for name, thing in vars(sys.modules[module]).items():
            if isinstance(thing, Dispatcher):
                kernels.add(f"{module}.{name} {len(thing.signatures)}")
    return {name for name in sys.modules if name.startswith(OURS)} | kernels

def ask(port):
    import polars as pl
    stream = io.BytesIO()
    pl.DataFrame(ROWS).write_ipc_stream(stream)
    bodies = BODIES | {"application/vnd.apache.arrow.stream": stream.getvalue()}
    connection = HTTPConnection("127.0.0.1", port)
    for name in COUNTERS:
        for kind, body in [*bodies.items(), (None, None)]:
            before = loaded()
            path, headers = ("events", {"content-type": kind}) if kind else ("releases", {})
            connection.request("POST", f"/counters/{name}/{path}", body, headers)
            answer = connection.getresponse()
            assert answer.status in (201, 204), answer.read()
            answer.read()
            found[f"{name} {kind}"] = sorted(loaded() - before)
    os.kill(os.getpid(), signal.SIGTERM)

def ready(address):
    threading.Thread(target=ask, args=(int(address.split(":")[2].rstrip("/")),)).start()

said = {"port": 0, "anonymous": ["feed", "read", "release"]}
PLANTED
settings = settings_of({"service": said, "counters": COUNTERS}, Path(sys.argv[1]))
server.run(replace(settings, initialize=True), None, ready)
print(json.dumps(found))
"""


def _loaded_later(folder: Path, planted: str = "") -> dict[str, list[str]]:
    command = [sys.executable, "-c", WATCH.replace("PLANTED", planted), str(folder)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    found: dict[str, list[str]] = json.loads(printed)
    assert len(found) == 15
    return {what: names for what, names in found.items() if names}


def test_what_bodies_and_releases_need_is_there_before_the_service_listens(tmp_path: Path) -> None:
    assert _loaded_later(tmp_path) == {}


def test_a_service_that_leaves_its_readers_to_the_first_body_would_be_noticed(tmp_path: Path) -> None:
    late = _loaded_later(tmp_path, "server.load_readers = lambda: None")
    assert "panprivacy.ingest.csv_kernels" in late["flu text/csv"]


def test_whoever_waits_for_a_compilation_is_told_once() -> None:
    code = """
from panprivacy.serve.logs import compiling_told as told
from numba import njit
with told(print):
    for make in (lambda x: x + 1, lambda x: x + 2):
        njit(make)(1)
"""
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert printed == "compiling, once: may take a minute\n"
