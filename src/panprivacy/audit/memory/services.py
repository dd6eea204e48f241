"""``panprivacy serve``: services that get bodies over HTTP, and services that read a broker.

Each row has a note in a column that is not counted, which must leave nothing either, where the format has room for it.
A client reads the event stream and all pages. Some messages of a broker are bad: a batch with a bad message is counted
in halves until the bad one is found. Ids must not stay, neither of good messages nor of bad ones.
"""

import json
import re
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from signal import SIGHUP
from time import sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.memory import refusals
from panprivacy.audit.memory.batches import LETTERS, People, encoded, letters
from panprivacy.audit.memory.brokers import started, until
from panprivacy.audit.memory.images import CannotImage
from panprivacy.audit.memory.processes import ProcessUnderAudit
from panprivacy.audit.memory.refusals import PLAN, RefusedRequests, trusting
from panprivacy.audit.memory.traces import Beside, TableVersion, Traces
from panprivacy.folder import gather

_PAGES = ("/", "/counters", "/counters/audited", "/counters/audited/releases", "/metrics", "/health")
_PATIENCE = 60.0  # seconds for a batch
_LISTED = 20_000  # ids of a JSON array, which the service takes up to 1 MiB of
_ROWS = 1_000_000  # of one in another form: as NDJSON they are nearly as much as the service takes
_TOPIC = "audited"
_MOST = 5_000  # users of a batch: bad messages are found by halving
_BAD = 5  # of each kind in a batch
_STILL = 1.0  # seconds after the last acknowledgement
_KINDS = ('{{"person": "{}"}}', '{{"user": ["{}"]}}', '{{"user": "{}"', "[{}]")
"""Messages without the column, with an id that is none, cut off, and of no object."""


class Service(ProcessUnderAudit):
    """A service with a counter `audited`, and a client that sends bodies of one form and reads all pages."""

    def start(self) -> None:
        self._form, refusing, encrypted, tls = self.scenario.form, self.scenario.refused, self.scenario.encrypted, ""
        if refusing:
            self.scenario = replace(self.scenario, plants=(refusals.FAULTS, *self.scenario.plants))
        if encrypted:
            tls = '[service.tls]\ncertificate = "{}"\nkey = "{}"\n'.format(*write_certificate(self.handed))
        port = self._serve(refusals.settings(self._kind, self.imaged, tls) if refusing else tls + self._settings)
        self._most = refusals.ROWS if refusing else _LISTED if self._form == "JSON" else _ROWS
        self._token = {"authorization": f"Bearer {refusals.FEEDER}"} if refusing else {}
        self._connection, self._reader = (
            HTTPSConnection("127.0.0.1", port, timeout=_PATIENCE, context=trusting())
            if encrypted
            else HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
            for _ in range(2)
        )
        self._reader.request("GET", "/stream")
        self._refusals = RefusedRequests(port, encrypted=encrypted, process=self.pid)
        for each in (self._connection, self._reader, self._refusals):
            self._open.callback(each.close)

    def _serve(self, settings: str) -> int:
        """Start it by a file of settings, which are public; returns its port."""
        self._file, log = self.handed / "counters.toml", self.handed / "log"
        self._file.write_text(settings)
        with log.open("wb") as errors:
            words = "serve", str(self._file), "--initialize"
            self._process = self._command(*words, stdout=subprocess.PIPE, stderr=errors)
        assert self._process.stdout is not None
        found = re.search(rb":([0-9]+)/", self._process.stdout.readline())
        if found is None:
            raise CannotImage(f"the service has not started: {log.read_text()}")
        return int(found[1])

    @property
    def _kind(self) -> str:
        """The kind of the counter, in the words of its settings."""
        if self.pool.open:
            return f'kind = "distinct"\nids = "{"text" if self.pool.text else "integers"}"'
        return f'kind = "{"counts" if self.pool.bits_each > 1 else "density"}"\nuniverse = {self.users}'

    @property
    def _settings(self) -> str:
        roles = '["feed", "read", "release", "admin"]'
        service = f'[service]\nport = 0\nfolder = "{self.imaged}"\nanonymous = {roles}\n'
        return f"{service}[counters.audited]\n{self._kind}\n{PLAN}"

    def versions(self) -> list[TableVersion]:
        """The bits: read off their pages, or off the file where the service has other counters, too."""
        return [self.version_in(self.imaged / "audited.pp")] if self.scenario.refused else super().versions()

    def feed(self, number: int, step: str, people: People) -> Beside:  # noqa: ARG002
        """Send a batch; it is counted, and on disk, when this returns."""
        ids = self.pool.ids[people]
        notes = letters(np.random.default_rng(number), len(ids))
        for start in range(0, len(ids), self._most):
            part = slice(start, start + self._most)
            self._ask("POST", "/counters/audited/events", self._body(ids[part], notes[part]))
        self._look_around()
        return Beside(texts=notes if self._form in ("CSV", "NDJSON") else None)

    def do(self, step: str) -> None:
        if step in ("refused", "refused quickly"):
            self._connection.close()  # the service would, after a while: the next request opens it again
            (self._refusals.send_all if step == "refused" else self._refusals.send_quickly)()
        elif step == "reload":
            with self._file.open("a") as settings:
                settings.write(f'[counters.added]\nkind = "density"\nuniverse = 1000\n{PLAN}')
            self._process.send_signal(SIGHUP)
            until(lambda: self._answer("GET", "/counters/added")[0] == 200, "the file is read again", _PATIENCE)
        else:
            self._ask("POST", "/counters/audited/releases")
        self._look_around()

    def _look_around(self) -> None:
        for path in _PAGES:
            self._answer("GET", path)

    def _body(self, ids: NDArray[Any], notes: NDArray[np.bytes_]) -> bytes:
        if self._form == "slots":  # gathered here, outside the process that is imaged
            with gather(self._ask("GET", "/counters/audited/layout")) as gathered:
                gathered.add(ids)
                return gathered.packed().tobytes()
        if self._form == "JSON":
            return json.dumps((ids.astype(str) if self.pool.text else ids).tolist()).encode()
        return encoded(self._form, {"user": ids} | ({} if self._form == "Arrow" else {"note": notes}))

    def _ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Make a request that must be granted; returns the answer."""
        status, said = self._answer(method, path, body)
        if status >= 300:
            raise CannotImage(f"{method} {path}: {status} {said.decode(errors='replace')}")
        return said

    def _answer(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        headers = {"content-type": refusals.TYPES[self._form]} if body else {}
        self._connection.request(method, path, body, headers | self._token)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def add_secrets(self, traces: Traces) -> None:
        """Look for what came with requests that were refused: ids, and addresses of senders."""
        addresses = np.array(self._refusals.addresses, dtype=f"S{LETTERS}")
        traces.add_strangers([*(ids for _, ids in self._refusals.sent), addresses])


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a new certificate and its key; return where they are."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now, hour = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC), timedelta(hours=1)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - hour)
        .not_valid_after(now + hour)
        .sign(key, hashes.SHA256())
    )
    written, secret = folder / "certificate.pem", folder / "key.pem"
    written.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return written, secret


class Consumer(Service):
    """A service that reads a broker, some of whose messages are bad."""

    most = _MOST

    def start(self) -> None:
        kind = self.scenario.fed_by
        self._broker = started(kind, self.handed / kind)
        self._open.callback(self._broker.kill)
        self._strangers: list[NDArray[np.bytes_]] = []
        self._broker.fill(_TOPIC, [_message(text) for text in letters(np.random.default_rng(self.users), 1)])
        source = self._broker.source(_TOPIC) | {"bad": "skip", "format": "json"}
        lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in source.items())
        self._serve(f"{self._settings}[counters.audited.source]\nbatch = 1000\n{lines}")
        self._wait()

    def feed(self, number: int, step: str, people: People) -> Beside:  # noqa: ARG002
        """Send messages of users, with bad ones in between."""
        bad = letters(np.random.default_rng(number), _BAD * len(_KINDS))
        self._strangers.append(bad)
        messages = [_message(text) for text in self.pool.ids[people]]
        for place, text in enumerate(bad.tolist()):
            message = _KINDS[place % len(_KINDS)].format(text.decode()).encode()
            messages.insert((2 * place + 1) * len(messages) // (2 * len(bad)), message)
        self._broker.fill(_TOPIC, messages)
        self._wait()
        return Beside()

    def _wait(self) -> None:
        until(lambda: self._broker.left(_TOPIC) == 0, "all messages are counted, or passed over", _PATIENCE)
        sleep(_STILL)

    def add_secrets(self, traces: Traces) -> None:
        traces.add_strangers(self._strangers[:-1])


def _message(text: Any) -> bytes:
    return b'{"user": "%s"}' % bytes(text)
