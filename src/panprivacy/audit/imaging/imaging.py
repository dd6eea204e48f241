"""Run a scenario in a process of its own, image it, and attack the image."""

from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from panprivacy.audit.imaging.containers import bare, store
from panprivacy.audit.imaging.crowd import LONG, Batch, Crowd
from panprivacy.audit.imaging.images import Image, take
from panprivacy.audit.imaging.keystreams import secrets_of
from panprivacy.audit.imaging.processes import check_system
from panprivacy.audit.imaging.result import Imaged
from panprivacy.audit.imaging.scenarios import Scenario, named
from panprivacy.audit.imaging.searching import Haystack
from panprivacy.audit.imaging.stage import Stage, folders
from panprivacy.audit.imaging.truth import Fed, Traces, Version

_BATCHES = ("short", "medium", "long", "singly")
_SEED = 20_260_101


def image(
    scenario: str | Scenario,
    users: int = 100_000,
    *,
    hardened: bool | None = None,
    plant: str | None = None,
) -> Imaged:
    """Run a scenario with the shipping code in a child process, image it, and look for what must not be there.

    Searched are all writable memory of the child, freed or not, and the folder of its state, for: any version of its
    bits but the present one, packed, a byte a bit, or as counts per word; the flips of earlier batches; ids, hashes and
    places of batches before the last, in their order and sorted; keys of the coins and their keystream.

    `scenario` is one of `scenarios.SCENARIOS`, or its name. `hardened` starts the child with allocators that overwrite
    what is freed; without it, only containers are fed whose memory can be wiped. `plant` is ``module:function``, called
    in the child before anything else: a leak that must be found.
    """
    check_system()
    run = named(scenario) if isinstance(scenario, str) else scenario
    hardened = run.hardened if hardened is None else hardened
    started = perf_counter()
    with folders() as (imaged, handed):
        crowd = Crowd(run.kind, users, run.container, _SEED)
        plan, batches = _plan(run, crowd, users, imaged, handed)
        with Stage(plan | {"plant": plant}, handed / "plan.json", hardened=hardened) as stage:
            recorded = _Recorded(crowd, batches)
            recorded.start(stage, imaged)
            for batch in batches:
                stage.go_on()
                recorded.step(stage, batch)
            last = take(stage.process, imaged)
        traces = recorded.traces(secrets_of(stage.keys, users, LONG))
    Haystack(last, recorded.before).look_for(traces.all_windows, traces.all_runs)
    return Imaged(
        scenario=run.name,
        users=crowd.users,
        came=len(np.unique(np.concatenate([fed.people for fed in recorded.fed]))),
        hardened=hardened,
        users_named=traces.users_named(recorded.fed),
        words_found=traces.words_found(),
        ids_found=traces.ids_found(),
        counts_found=traces.counts_found(),
        keys_found=traces.keys_found(),
        where=traces.where(),
        image_bytes=last.size,
        seconds=round(perf_counter() - started, 1),
    )


def _plan(
    run: Scenario, crowd: Crowd, users: int, imaged: Path, handed: Path
) -> tuple[dict[str, Any], list[Batch | None]]:
    """What the child is to do, and which step is which batch."""
    steps, batches = [], []
    for number, step in enumerate(run.steps):
        batch = crowd.batch(number % 8, step) if step in _BATCHES else None
        batches.append(batch)
        if batch is None:
            steps.append({"verb": step})
            continue
        container = bare(run.container) if step == "singly" else run.container
        stored = store(crowd.given(batch.events), container, handed / f"batch{number}")
        steps.append({"verb": "feed singly" if step == "singly" else "feed", "batch": asdict(stored)})
    plan = {"kind": run.kind, "users": users, "folder": str(imaged), "steps": steps, "listed": None}
    if crowd.listed is not None:
        path = handed / ("listed.txt" if crowd.text else "listed")
        path.write_bytes(np.sort(crowd.ids).tobytes())
        plan["listed"] = str(path)
    return plan, batches


class _Recorded:
    """What was seen of the bits on the way."""

    def __init__(self, crowd: Crowd, batches: list[Batch | None]) -> None:
        self._crowd = crowd
        self._last = max(i for i, batch in enumerate(batches) if batch is not None)
        self._number = 0
        self.versions: list[list[Version]] = []
        self.fed: list[Fed] = []
        self._after: list[tuple[Fed, list[Version], bool]] = []
        self.before: Image | None = None

    def start(self, stage: Stage, folder: Path) -> None:
        """Take the image before the first batch."""
        self.versions.append(stage.versions())
        self.before = take(stage.process, folder)

    def step(self, stage: Stage, batch: Batch | None) -> None:
        """Note what a step has made of the bits."""
        versions = stage.versions()
        self.versions.append(versions)
        if batch is not None:
            places = self._crowd.places(batch.events)
            fed = Fed(batch, batch.events, places, self._crowd.slots(places), versions[0].shown.epoch)
            self.fed.append(fed)
            self._after.append((fed, versions, self._number == self._last))
        self._number += 1

    def traces(self, keys: list[bytes]) -> Traces:
        """All that must not be in the last image."""
        traces = Traces(self._crowd)
        *earlier, present = self.versions
        for version in (version for versions in earlier for version in versions):
            traces.add_version(version, present)
        for fed, versions, last in self._after:
            if not last:
                traces.add_ids(fed)
                for version in versions:
                    traces.add_flips(fed, version)
        traces.add_keys(keys)
        return traces
