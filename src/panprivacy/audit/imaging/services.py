"""Scenarios of ``panprivacy serve``: bodies over HTTP, a reader of the event stream, and one who looks at everything.

Each row has a note that nobody asked for, which must leave nothing either, where the kind of body has room for it.
"""

import io
import json
import re
import ssl
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from hashlib import sha256
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.imaging import refused
from panprivacy.audit.imaging.certificates import write_certificate
from panprivacy.audit.imaging.containers import LETTERS
from panprivacy.audit.imaging.crowd import Crowd, letters
from panprivacy.audit.imaging.pipes import versions_of
from panprivacy.audit.imaging.processes import CannotImage
from panprivacy.audit.imaging.recorded import Recorded
from panprivacy.audit.imaging.refusals import Refusals
from panprivacy.audit.imaging.scenarios import BATCHES, Scenario
from panprivacy.audit.imaging.stage import environment, folders
from panprivacy.audit.imaging.subjects import EPSILON, RELEASES, Shown
from panprivacy.audit.imaging.truth import Traces, Version

_TYPES = {
    "CSV": "text/csv",
    "NDJSON": "application/x-ndjson",
    "Arrow": "application/vnd.apache.arrow.stream",
    "JSON": "application/json",
}
_PATIENCE = 60.0  # seconds for a batch
_LISTED = 20_000  # ids of a JSON array, which the service takes up to 1 MiB of
_ROWS = 1_000_000  # of one in another form: as NDJSON they are nearly as much as the service takes


def run(
    scenario: Scenario, crowd: Crowd, users: int, *, hardened: bool, plants: Sequence[str]
) -> tuple[Recorded, Traces]:
    """Start a service, send it batch after batch, and image it while it waits for more."""
    planted = "".join("import {0}; {0}.{1}(); ".format(*plant.split(":")) for plant in plants)
    code = f"{planted}from panprivacy.cli import main; main()"
    with folders() as (imaged, beside), ExitStack() as open_:
        file = beside / "counters.toml"  # what it says is public
        tls = _tls_in(beside) if scenario.encrypted else ""
        file.write_text(_settings(crowd, users, imaged, tls, refusing=scenario.refused))
        recorded = Recorded(crowd, imaged)
        process = open_.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", code, "serve", str(file)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(hardened=hardened),
            )
        )
        open_.callback(process.kill)
        visitor = _Visitor(process, scenario)
        open_.callback(visitor.close)
        audited = imaged / "audited.pp" if scenario.refused else None
        recorded.start(process.pid, _versions(process.pid, crowd, audited))
        for number, step in enumerate(scenario.steps):
            batch = crowd.batch(number, step) if step in BATCHES else None
            if batch is not None:
                visitor.send(crowd.given(batch.events), number)
            elif step == "refused":
                visitor.be_refused()
            else:
                visitor.ask("POST", "/counters/audited/releases")
            visitor.look_around()
            recorded.step(batch, _versions(process.pid, crowd, audited))
        recorded.end(process.pid)
    traces = recorded.traces()
    for notes, fed in zip(visitor.notes[:-1], recorded.fed, strict=False):
        traces.add_texts(notes, fed.people)
    strangers = crowd.users
    for texts in visitor.refused:
        traces.add_texts(texts, strangers + np.arange(len(texts)))
        strangers += len(texts)
    return recorded, traces


def _versions(process: int, crowd: Crowd, file: Path | None) -> list[Version]:
    """The bits: read off their pages, or off the file where the service has other counters, too."""
    if file is None:
        return versions_of(process, crowd)
    octets = -(-crowd.slots_in_all // 64) * 8
    address = file.stat().st_size - sha256().digest_size - octets
    shown = Shown(address, octets, crowd.slots_in_all, sparse=False, epoch=0, offset=0, each=1, file=str(file))
    return [Version.at(shown, process)]


def _tls_in(folder: Path) -> str:
    certificate, key = write_certificate(folder)
    return f'[service.tls]\ncertificate = "{certificate}"\nkey = "{key}"\n'


def _settings(crowd: Crowd, users: int, folder: Path, tls: str, *, refusing: bool) -> str:
    kind = f'kind = "distinct"\nids = "{"text" if crowd.text else "integers"}"' if crowd.open else _closed(users)
    if refusing:
        return refused.settings(kind, folder, tls)
    return (
        f'[service]\nport = 0\nfolder = "{folder}"\nanonymous = ["feed", "read", "release", "admin"]\n'
        f'{tls}[counters.audited]\n{kind}\nepsilon = {EPSILON}\nreleases = {RELEASES}\ncolumn = "user"\n'
    )


def _closed(users: int) -> str:
    return f'kind = "density"\nuniverse = {users}'


class _Visitor:
    """Sends bodies of one kind, and reads all that can be read."""

    def __init__(self, process: subprocess.Popen[bytes], scenario: Scenario) -> None:
        assert process.stdout is not None
        found = re.search(rb":([0-9]+)/", process.stdout.readline())
        if found is None:
            assert process.stderr is not None
            raise CannotImage(f"the service has not started: {process.stderr.read().decode()}")
        port, encrypted = int(found[1]), scenario.encrypted
        self._form = scenario.service
        self._most = refused.ROWS if scenario.refused else _LISTED if self._form == "JSON" else _ROWS
        self._token = {"authorization": f"Bearer {refused.FEEDER}"} if scenario.refused else {}
        self._connection, self._reader = (_connected(port, encrypted=encrypted) for _ in range(2))
        self._reader.request("GET", "/stream")
        self._refusals = Refusals(port, encrypted=encrypted)
        self.notes: list[NDArray[np.bytes_]] = []
        """What came with the ids, by batch."""

    def be_refused(self) -> None:
        """Make requests that are refused, or never finished."""
        self._connection.close()  # the service would, after a while: the next request opens it again
        self._refusals.send_all()

    @property
    def refused(self) -> list[NDArray[np.bytes_]]:
        """What came with requests that were refused: ids, and addresses of senders."""
        addresses = np.array(self._refusals.addresses, dtype=f"S{LETTERS}")
        return [texts for texts in (*(ids for _, ids in self._refusals.sent), addresses) if len(texts)]

    def send(self, ids: NDArray[Any], number: int) -> None:
        """Send a batch; it is counted, and on disk, when this returns."""
        notes = letters(np.random.default_rng(number), len(ids))
        if self._form in ("CSV", "NDJSON"):
            self.notes.append(notes)
        for start in range(0, len(ids), self._most):
            part = slice(start, start + self._most)
            self.ask("POST", "/counters/audited/events", _body(self._form, ids[part], notes[part]))

    def ask(self, method: str, path: str, body: bytes = b"") -> None:
        """Make a request that must be granted."""
        headers = {"content-type": _TYPES[self._form]} if body else {}
        self._connection.request(method, path, body, headers | self._token)
        answer = self._connection.getresponse()
        said = answer.read()
        if answer.status >= 300:
            raise CannotImage(f"{method} {path}: {answer.status} {said.decode(errors='replace')}")

    def close(self) -> None:
        """Leave."""
        self._connection.close()
        self._reader.close()
        self._refusals.close()

    def look_around(self) -> None:
        """Read what anybody may."""
        for path in ("/", "/counters", "/counters/audited", "/counters/audited/releases", "/metrics", "/health"):
            self.ask("GET", path)


def _connected(port: int, *, encrypted: bool) -> HTTPConnection:
    if not encrypted:
        return HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE  # it is ours, and on this machine
    return HTTPSConnection("127.0.0.1", port, timeout=_PATIENCE, context=trusting)


def _body(form: str, ids: NDArray[Any], notes: NDArray[np.bytes_]) -> bytes:
    users: list[Any] = ids.astype(f"U{LETTERS}").tolist() if ids.dtype.kind == "S" else ids.tolist()
    if form == "Arrow":
        import polars as pl

        out = io.BytesIO()
        pl.DataFrame({"user": users}).write_ipc_stream(out)
        return out.getvalue()
    if form == "JSON":
        return json.dumps(users).encode()
    rows = zip(users, (note.decode() for note in notes.tolist()), strict=True)
    if form == "CSV":
        return ("user,note\n" + "".join(f"{user},{note}\n" for user, note in rows)).encode()
    return "".join(json.dumps({"user": user, "note": note}) + "\n" for user, note in rows).encode()
