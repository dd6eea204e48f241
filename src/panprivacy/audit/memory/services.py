"""Scenarios of ``panprivacy serve``: bodies over HTTP, refused requests, and messages of a broker.

Each row has a note in a column that is not counted, which must leave nothing either, where the format has room for it.
A client reads the event stream and all pages. Some messages of a broker are bad: a batch with a bad message is counted
in halves until the bad one is found. Neither the ids of good messages nor those of bad ones may stay.
"""

import io
import json
import ssl
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from signal import SIGHUP
from time import sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.memory import refusals
from panprivacy.audit.memory.batches import LETTERS, UserPool, letters
from panprivacy.audit.memory.brokers import Server, started, until
from panprivacy.audit.memory.estimators import EPSILON, RELEASES, TableLocation
from panprivacy.audit.memory.images import CannotImage
from panprivacy.audit.memory.pipes import versions_of
from panprivacy.audit.memory.programs import Trial, folders, port_of
from panprivacy.audit.memory.refusals import RefusedRequests
from panprivacy.audit.memory.scenarios import BATCHES, Scenario
from panprivacy.audit.memory.traces import Record, TableVersion, Traces
from panprivacy.folder import gather

_TYPES = {
    "CSV": "text/csv",
    "NDJSON": "application/x-ndjson",
    "Arrow": "application/vnd.apache.arrow.stream",
    "JSON": "application/json",
    "slots": "application/vnd.panprivacy.slots",
}
_PATIENCE = 60.0  # seconds for a batch
_LISTED = 20_000  # ids of a JSON array, which the service takes up to 1 MiB of
_ROWS = 1_000_000  # of one in another form: as NDJSON they are nearly as much as the service takes
_HOURS = 1  # that a certificate is valid
_TOPIC = "audited"
_MOST = 5_000  # users of a batch: bad messages are found by halving
_BAD = 5  # of each kind in a batch
_STILL = 1.0  # seconds after the last acknowledgement
_KINDS = ('{{"person": "{}"}}', '{{"user": ["{}"]}}', '{{"user": "{}"', "[{}]")
"""Messages without the column, with an id that is none, cut off, and of no object."""


def run_service(trial: Trial, pool: UserPool) -> tuple[Record, Traces]:
    """Start a service, send it batch after batch, and image it while it waits for more."""
    scenario = trial.scenario
    if scenario.refused:
        trial = replace(trial, plants=(refusals.FAULTS, *trial.plants))
    with folders() as (imaged, beside), ExitStack() as open_:
        file = beside / "counters.toml"  # what it says is public
        tls = _tls_in(beside) if scenario.encrypted else ""
        file.write_text(_settings(pool, trial.users, imaged, tls, refusing=scenario.refused))
        record = Record(pool, imaged)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = open_.enter_context(trial.command("serve", str(file), **pipes))
        client = _Client(process, scenario)
        open_.callback(client.close)
        audited = imaged / "audited.pp" if scenario.refused else None
        record.start(process.pid, _versions(process.pid, pool, audited))
        for number, step in enumerate(scenario.steps):
            batch = pool.batch(number, step) if step in BATCHES else None
            if batch is not None:
                client.send(pool.given(batch.events), number)
            elif step == "refused":
                client.be_refused()
            elif step == "reload":
                _reload(process, file)
                until(lambda: client.knows("added"), "the file is read again", _PATIENCE)
            else:
                client.ask("POST", "/counters/audited/releases")
            client.look_around()
            record.step(batch, _versions(process.pid, pool, audited))
        record.end(process.pid)
    traces = record.traces()
    for notes, fed in zip(client.notes[:-1], record.fed, strict=False):
        traces.add_texts(notes, fed.people)
    _add_strangers(traces, pool, client.refused)
    return record, traces


def _reload(process: subprocess.Popen[bytes], file: Path) -> None:
    """Add a counter to the file of a service, and have the service read it again."""
    with file.open("a") as settings:
        settings.write(f'[counters.added]\nkind = "density"\nuniverse = 1000\nepsilon = {EPSILON}\ncolumn = "user"\n')
    process.send_signal(SIGHUP)


def run_consumer(trial: Trial, pool: UserPool) -> tuple[Record, Traces]:
    """Start a broker and a service that reads it, fill it batch after batch, and image the service."""
    scenario = trial.scenario
    strangers: list[NDArray[np.bytes_]] = []
    with folders() as (imaged, beside), ExitStack() as open_:
        broker = started(scenario.broker, beside / scenario.broker)
        open_.callback(broker.kill)
        broker.fill(_TOPIC, [_message(text) for text in letters(np.random.default_rng(trial.users), 1)])
        file = beside / "counters.toml"
        file.write_text(_consumer_settings(broker, imaged))
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        process = open_.enter_context(trial.command("serve", str(file), **pipes))
        port_of(process)
        _wait(broker)
        record = Record(pool, imaged)
        record.start(process.pid, versions_of(process.pid, pool))
        for number, step in enumerate(step for step in scenario.steps if step in BATCHES):
            batch = pool.batch(number, step)
            batch = type(batch)(batch.last[:_MOST], min(batch.different, _MOST))
            strangers.append(letters(np.random.default_rng(number), _BAD * len(_KINDS)))
            broker.fill(_TOPIC, _mixed(pool.given(batch.events), strangers[-1]))
            _wait(broker)
            record.step(batch, versions_of(process.pid, pool))
        record.end(process.pid)
    traces = record.traces()
    _add_strangers(traces, pool, strangers[:-1])
    return record, traces


def _add_strangers(traces: Traces, pool: UserPool, texts: Sequence[NDArray[np.bytes_]]) -> None:
    """Look for texts of senders who are not in the pool: they get numbers above those of its users."""
    first = pool.users
    for each in texts:
        traces.add_texts(each, first + np.arange(len(each)))
        first += len(each)


def _versions(process: int, pool: UserPool, file: Path | None) -> list[TableVersion]:
    """The bits: read off their pages, or off the file where the service has other counters, too."""
    if file is None:
        return versions_of(process, pool)
    octets = -(-pool.slots_in_all // 64) * 8
    address = file.stat().st_size - sha256().digest_size - octets
    location = TableLocation(
        address, octets, pool.slots_in_all, sparse=False, epoch=0, offset=0, each=1, file=str(file)
    )
    return [TableVersion.at(location, process)]


def _tls_in(folder: Path) -> str:
    certificate, key = write_certificate(folder)
    return f'[service.tls]\ncertificate = "{certificate}"\nkey = "{key}"\n'


def _settings(pool: UserPool, users: int, folder: Path, tls: str, *, refusing: bool) -> str:
    kind = f'kind = "distinct"\nids = "{"text" if pool.text else "integers"}"' if pool.open else _closed(users)
    if refusing:
        return refusals.settings(kind, folder, tls)
    return (
        f'[service]\nport = 0\nfolder = "{folder}"\nanonymous = ["feed", "read", "release", "admin"]\n'
        f'{tls}[counters.audited]\n{kind}\nepsilon = {EPSILON}\nreleases = {RELEASES}\ncolumn = "user"\n'
    )


def _closed(users: int) -> str:
    return f'kind = "density"\nuniverse = {users}'


class _Client:
    """Sends bodies of one kind, and reads all that can be read."""

    def __init__(self, process: subprocess.Popen[bytes], scenario: Scenario) -> None:
        port, encrypted = port_of(process), scenario.encrypted
        self._form = scenario.service
        self._most = refusals.ROWS if scenario.refused else _LISTED if self._form == "JSON" else _ROWS
        self._token = {"authorization": f"Bearer {refusals.FEEDER}"} if scenario.refused else {}
        self._connection, self._reader = (_connected(port, encrypted=encrypted) for _ in range(2))
        self._reader.request("GET", "/stream")
        self._refusals = RefusedRequests(port, encrypted=encrypted)
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
            body = self._gathered(ids[part]) if self._form == "slots" else _body(self._form, ids[part], notes[part])
            self.ask("POST", "/counters/audited/events", body)

    def _gathered(self, ids: NDArray[Any]) -> bytes:
        """The slots of users, gathered here, in another process than the one that is imaged."""
        with gather(self.ask("GET", "/counters/audited/layout")) as gathered:
            gathered.add(ids)
            return gathered.packed().tobytes()

    def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Make a request that must be granted; returns what is answered."""
        status, said = self._answer(method, path, body)
        if status >= 300:
            raise CannotImage(f"{method} {path}: {status} {said.decode(errors='replace')}")
        return said

    def knows(self, counter: str) -> bool:
        """Whether the service has a counter."""
        return self._answer("GET", f"/counters/{counter}")[0] == 200

    def _answer(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        headers = {"content-type": _TYPES[self._form]} if body else {}
        self._connection.request(method, path, body, headers | self._token)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def close(self) -> None:
        """Close all connections."""
        self._connection.close()
        self._reader.close()
        self._refusals.close()

    def look_around(self) -> None:
        """Read all public pages."""
        for path in ("/", "/counters", "/counters/audited", "/counters/audited/releases", "/metrics", "/health"):
            self._answer("GET", path)


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


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a new certificate and its key; return where they are."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=_HOURS))
        .not_valid_after(now + timedelta(hours=_HOURS))
        .sign(key, hashes.SHA256())
    )
    written, secret = folder / "certificate.pem", folder / "key.pem"
    written.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return written, secret


def _consumer_settings(broker: Server, folder: Path) -> str:
    source = broker.source(_TOPIC) | {"bad": "skip", "format": "json"}
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in source.items())
    return (
        f'[service]\nport = 0\nfolder = "{folder}"\nanonymous = ["read"]\n[counters.audited]\nkind = "distinct"\n'
        f'ids = "text"\nepsilon = {EPSILON}\nreleases = {RELEASES}\ncolumn = "user"\n'
        f"[counters.audited.source]\nbatch = 1000\n{lines}"
    )


def _message(text: Any) -> bytes:
    return b'{"user": "%s"}' % bytes(text)


def _mixed(ids: NDArray[Any], bad: NDArray[np.bytes_]) -> list[bytes]:
    """Messages of users, with bad ones in between."""
    messages = [_message(text) for text in ids]
    for number, text in enumerate(bad.tolist()):
        message = _KINDS[number % len(_KINDS)].format(text.decode()).encode()
        messages.insert((2 * number + 1) * len(messages) // (2 * len(bad)), message)
    return messages


def _wait(broker: Server) -> None:
    until(lambda: broker.left(_TOPIC) == 0, "all messages are counted, or passed over", 60)
    sleep(_STILL)
