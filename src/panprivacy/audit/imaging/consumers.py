"""Scenarios of a service that reads a broker, in which some messages of every batch are bad and passed over.

A batch with a bad message is counted in halves until the bad one is found. The good ones are users who were counted,
and neither they nor the bad ones may stay.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
from numpy.typing import NDArray

from panprivacy.audit.imaging.crowd import Crowd, letters
from panprivacy.audit.imaging.pipes import versions_of
from panprivacy.audit.imaging.processes import CannotImage
from panprivacy.audit.imaging.recorded import Recorded
from panprivacy.audit.imaging.scenarios import BATCHES, Scenario
from panprivacy.audit.imaging.servers import Server, started, until
from panprivacy.audit.imaging.stage import environment, folders
from panprivacy.audit.imaging.subjects import EPSILON, RELEASES
from panprivacy.audit.imaging.truth import Traces

_TOPIC = "audited"
_MOST = 5_000  # users of a batch: bad messages are found by halving
_BAD = 5  # of each kind in a batch
_STILL = 1.0  # seconds after the last acknowledgement
_KINDS = ('{{"person": "{}"}}', '{{"user": ["{}"]}}', '{{"user": "{}"', "[{}]")
"""Messages without the column, with an id that is none, cut off, and of no object."""


def run(
    scenario: Scenario, crowd: Crowd, users: int, *, hardened: bool, plants: Sequence[str]
) -> tuple[Recorded, Traces]:
    """Start a broker and a service that reads it, fill it batch after batch, and image the service."""
    planted = "".join("import {0}; {0}.{1}(); ".format(*plant.split(":")) for plant in plants)
    code = f"{planted}from panprivacy.cli import main; main()"
    strangers: list[NDArray[np.bytes_]] = []
    with folders() as (imaged, beside), ExitStack() as open_:
        broker = started(scenario.broker, beside / scenario.broker)
        open_.callback(broker.kill)
        broker.fill(_TOPIC, [_message(text) for text in letters(np.random.default_rng(users), 1)])
        file = beside / "counters.toml"
        file.write_text(_settings(broker, imaged))
        process = open_.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", code, "serve", str(file)],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=environment(hardened=hardened),
            )
        )
        open_.callback(process.kill)
        assert process.stdout is not None
        if not process.stdout.readline():
            raise CannotImage("the service has not started")
        _wait(broker)
        recorded = Recorded(crowd, imaged)
        recorded.start(process.pid, versions_of(process.pid, crowd))
        for number, step in enumerate(step for step in scenario.steps if step in BATCHES):
            batch = crowd.batch(number, step)
            batch = type(batch)(batch.last[:_MOST], min(batch.different, _MOST))
            strangers.append(letters(np.random.default_rng(number), _BAD * len(_KINDS)))
            broker.fill(_TOPIC, _mixed(crowd.given(batch.events), strangers[-1]))
            _wait(broker)
            recorded.step(batch, versions_of(process.pid, crowd))
        recorded.end(process.pid)
    traces = recorded.traces()
    for number, texts in enumerate(strangers[:-1]):
        traces.add_texts(texts, crowd.users + number * len(texts) + np.arange(len(texts)))
    return recorded, traces


def _settings(broker: Server, folder: Path) -> str:
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
