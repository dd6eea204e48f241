"""Processes under audit: programs that embed the library, led from checkpoint to checkpoint, and shell commands."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from panprivacy.audit.memory.batches import LONG, Batch, UserPool, bare, store
from panprivacy.audit.memory.estimators import START, STRANGERS, TIMES, TableLocation, times_of
from panprivacy.audit.memory.images import CannotImage
from panprivacy.audit.memory.scenarios import BATCHES, Scenario
from panprivacy.audit.memory.search import ReleasedCounts
from panprivacy.audit.memory.traces import Record, TableVersion, Traces, secrets_of
from panprivacy.memory.hardening import AT_START


@dataclass(frozen=True)
class Trial:
    """One run of a scenario."""

    scenario: Scenario
    users: int
    hardened: bool
    """Whether the allocators of the process overwrite what is freed."""
    plants: tuple[str, ...] = ()
    """Functions, ``module:function``, that are called in the process before anything else: leaks to be found."""

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the process under audit: this one's modules, and its allocators as asked."""
        plain = {name: value for name, value in os.environ.items() if name not in AT_START}
        modules = os.pathsep.join(str(Path(folder).resolve()) for folder in sys.path)
        return plain | {"PYTHONPATH": modules} | (AT_START if self.hardened else {})

    @contextmanager
    def command(self, *words: str, **options: Any) -> "Iterator[subprocess.Popen[bytes]]":
        """Run ``panprivacy WORDS``; the process is killed in the end."""
        planted = "".join("import {0}; {0}.{1}(); ".format(*plant.split(":")) for plant in self.plants)
        code = f"{planted}from panprivacy.cli import main; main()"
        arguments = [sys.executable, "-c", code, *words]
        with subprocess.Popen(arguments, env=self.environment, **options) as process:
            try:
                yield process
            finally:
                process.kill()


def port_of(service: "subprocess.Popen[bytes]") -> int:
    """The port that a service prints when it has started."""
    assert service.stdout is not None
    found = re.search(rb":([0-9]+)/", service.stdout.readline())
    if found is None:
        said = service.stderr.read().decode() if service.stderr is not None else "it said nothing"
        raise CannotImage(f"the service has not started: {said}")
    return int(found[1])


class ImagedProgram:
    """The child process of a scenario, a program that embeds the library."""

    def __init__(self, trial: Trial, folder: Path, steps: Sequence[dict[str, Any]], handed: Path, **more: Any) -> None:
        self._keys, keys = os.pipe()
        self._counts, counts = os.pipe()
        for told in (self._keys, self._counts):
            os.set_blocking(told, False)
        plan = {"kind": trial.scenario.kind, "users": trial.users, "folder": str(folder), "steps": list(steps)}
        plan |= {"listed": None, "plants": trial.plants, "keys": keys, "counts": counts, **more}
        path = handed / "plan.json"
        path.write_text(json.dumps(plan))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "panprivacy.audit.memory.imaged_process", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[keys, counts],
            cwd=folder,
            env=trial.environment,
        )
        for given in (keys, counts):
            os.close(given)
        self.keys = b""
        """All keys that the coins have drawn so far."""
        self.counts = b""
        """All counts that were released so far, as `ReleasedCounts` reads them."""

    @property
    def process(self) -> int:
        """Its number."""
        return self._process.pid

    def versions(self) -> list[TableVersion]:
        """Wait for a checkpoint; the bits of all tables there."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            assert self._process.stderr is not None
            raise CannotImage(f"the process under audit has ended: {self._process.stderr.read().decode()}")
        self.keys += b"".join(_arrived(self._keys))
        self.counts += b"".join(_arrived(self._counts))
        return [TableVersion.at(TableLocation(**table), self.process) for table in json.loads(line)]

    def go_on(self) -> None:
        """Let it do the next step."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        for told in (self._keys, self._counts):
            os.close(told)


def _arrived(pipe: int) -> Iterator[bytes]:
    """What is in a pipe now."""
    try:
        while piece := os.read(pipe, 2**16):
            yield piece
    except BlockingIOError:
        pass


@contextmanager
def folders() -> Iterator[tuple[Path, Path]]:
    """A folder that is imaged, and one beside it for what the auditor hands over."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="panprivacy-audit-") as name:
        imaged, handed = Path(name) / "imaged", Path(name) / "handed"
        imaged.mkdir()
        handed.mkdir()
        yield imaged, handed


def run(trial: Trial, pool: UserPool) -> tuple[Record, Traces]:
    """Run a scenario in a child process."""
    scenario = trial.scenario
    with folders() as (imaged, handed):
        steps, batches = _steps(scenario, pool, handed)
        record = Record(pool, imaged)
        with ImagedProgram(trial, imaged, steps, handed, listed=_listed(pool, handed)) as program:
            record.start(program.process, program.versions())
            for batch in batches:
                program.go_on()
                record.step(batch, program.versions())
            record.end(program.process)
    traces = record.traces()
    if scenario.kind.endswith(TIMES):
        days = [day for batch, day in zip(batches, _days(scenario.steps), strict=True) if batch is not None]
        for fed, day in zip(record.fed[:-1], days, strict=False):
            moments = times_of(pool.given(fed.people), day, np.zeros(len(fed.people), dtype=np.int64))
            traces.add_times(moments.view("datetime64[us]"), fed.people)
            traces.add_in_order((moments - START).view(np.uint64), fed.people)
    if scenario.kind.endswith(STRANGERS):
        numbers = [number for number, batch in enumerate(batches) if batch is not None]
        for number, fed in zip(numbers[:-1], record.fed, strict=False):
            rows, inside = pool.among_strangers(pool.given(fed.people), number)
            traces.add_mask(inside, fed.people)
            if not pool.text:
                traces.add_in_order(rows.astype(np.uint64), np.repeat(fed.people, 2))
    traces.add_keys(secrets_of(program.keys, trial.users, LONG))
    traces.released = ReleasedCounts.told(program.counts)
    return record, traces


def _days(steps: Sequence[str]) -> list[int]:
    """The day on which each step is done."""
    return [steps[:number].count("next_window") for number in range(len(steps))]


def _steps(scenario: Scenario, pool: UserPool, handed: Path) -> tuple[list[dict[str, Any]], list[Batch | None]]:
    """The steps of the child, and the batch of each step that is one."""
    steps: list[dict[str, Any]] = []
    batches: list[Batch | None] = []
    for number, step in enumerate(scenario.steps):
        batch = pool.batch(number % 8, step) if step in BATCHES else None
        batches.append(batch)
        if batch is None:
            steps.append({"verb": step})
            continue
        container = bare(scenario.container) if step == "singly" else scenario.container
        ids = pool.given(batch.events)
        if scenario.kind.endswith(STRANGERS) and step != "singly":
            ids = pool.among_strangers(ids, number)[0]
        stored = store(ids, container, handed / f"batch{number}")
        steps.append({"verb": "feed singly" if step == "singly" else "feed", "batch": asdict(stored)})
    return steps, batches


def _listed(pool: UserPool, handed: Path) -> str | None:
    """The file with the list of users, where the universe is a list."""
    if pool.listed is None:
        return None
    path = handed / ("listed.txt" if pool.text else "listed")
    path.write_bytes(np.sort(pool.ids).tobytes())
    return str(path)
