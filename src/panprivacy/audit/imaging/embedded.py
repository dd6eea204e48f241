"""Scenarios of a program that embeds the library: a child process that is led from step to step."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from panprivacy.audit.imaging.containers import bare, store
from panprivacy.audit.imaging.counted import Counted
from panprivacy.audit.imaging.crowd import LONG, Batch, Crowd
from panprivacy.audit.imaging.keystreams import secrets_of
from panprivacy.audit.imaging.recorded import Recorded
from panprivacy.audit.imaging.scenarios import BATCHES, Scenario
from panprivacy.audit.imaging.stage import Stage, folders
from panprivacy.audit.imaging.subjects import START, TIMES, times_of
from panprivacy.audit.imaging.truth import Traces


def run(
    scenario: Scenario, crowd: Crowd, users: int, *, hardened: bool, plants: Sequence[str]
) -> tuple[Recorded, Traces]:
    """Run a scenario in a child process."""
    with folders() as (imaged, handed):
        plan, batches = _plan(scenario, crowd, users, imaged, handed)
        recorded = Recorded(crowd, imaged)
        with Stage(plan | {"plants": plants}, handed / "plan.json", hardened=hardened) as stage:
            recorded.start(stage.process, stage.versions())
            for batch in batches:
                stage.go_on()
                recorded.step(batch, stage.versions())
            recorded.end(stage.process)
    traces = recorded.traces()
    if scenario.kind.endswith(TIMES):
        days = [day for batch, day in zip(batches, _days(scenario.steps), strict=True) if batch is not None]
        for fed, day in zip(recorded.fed[:-1], days, strict=False):
            moments = times_of(crowd.given(fed.people), day, np.zeros(len(fed.people), dtype=np.int64))
            traces.add_times(moments.view("datetime64[us]"), fed.people)
            traces.add_offsets((moments - START).view(np.uint64), fed.people)
    traces.add_keys(secrets_of(stage.keys, users, LONG))
    traces.released = Counted.told(stage.counts)
    return recorded, traces


def _days(steps: Sequence[str]) -> list[int]:
    """On which day each step is done."""
    return [steps[:number].count("next_window") for number in range(len(steps))]


def _plan(
    scenario: Scenario, crowd: Crowd, users: int, imaged: Path, handed: Path
) -> tuple[dict[str, Any], list[Batch | None]]:
    """What the child is to do, and which step is which batch."""
    steps: list[dict[str, Any]] = []
    batches: list[Batch | None] = []
    for number, step in enumerate(scenario.steps):
        batch = crowd.batch(number % 8, step) if step in BATCHES else None
        batches.append(batch)
        if batch is None:
            steps.append({"verb": step})
            continue
        container = bare(scenario.container) if step == "singly" else scenario.container
        stored = store(crowd.given(batch.events), container, handed / f"batch{number}")
        steps.append({"verb": "feed singly" if step == "singly" else "feed", "batch": asdict(stored)})
    plan = {"kind": scenario.kind, "users": users, "folder": str(imaged), "steps": steps, "listed": None}
    if crowd.listed is not None:
        path = handed / ("listed.txt" if crowd.text else "listed")
        path.write_bytes(np.sort(crowd.ids).tobytes())
        plan["listed"] = str(path)
    return plan, batches
