"""The run of a scenario: start its process, feed it, image it, and search the image."""

from time import perf_counter

import numpy as np

from panprivacy.audit.memory.batches import UserPool
from panprivacy.audit.memory.commands import Command
from panprivacy.audit.memory.images import Imaged
from panprivacy.audit.memory.processes import ProcessUnderAudit, Program, Trial, folders
from panprivacy.audit.memory.scenarios import BATCHES, Scenario
from panprivacy.audit.memory.search import ImageSearch
from panprivacy.audit.memory.services import Consumer, Service
from panprivacy.audit.memory.traces import Record

_SEED = 20_260_101


def process_of(scenario: Scenario) -> type[ProcessUnderAudit]:
    """The kind of process that a scenario is about."""
    if scenario.broker:
        return Consumer
    return Service if scenario.service else Command if scenario.pipe else Program


def pool_of(trial: Trial) -> UserPool:
    """The users of a trial. A command or a service draws a secret key of its own."""
    scenario = trial.scenario
    own_key = process_of(scenario) is not Program
    return UserPool(scenario.kind, trial.users, scenario.container, _SEED, own_key=own_key)


def search(trial: Trial) -> Imaged:
    """Run a scenario, and search its last image."""
    started, scenario, pool = perf_counter(), trial.scenario, pool_of(trial)
    with folders() as places, process_of(scenario)(trial, pool, places) as process:
        record = Record(pool, places.imaged)
        record.start(process.pid, process.versions())
        for number, step in enumerate(scenario.steps):
            if step in BATCHES:
                batch = pool.batch(number % 8, step).up_to(process.most)
                beside = process.feed(number, step, batch)
                record.fed_with(batch, beside, process.versions())
            else:
                process.do(step)
                record.step(process.versions())
        record.end(process.pid)
    traces = record.traces()
    process.add_secrets(traces)
    assert record.last is not None
    ImageSearch(record.last, record.before).look_for(traces.all_windows, traces.all_runs)
    return Imaged(
        scenario=scenario.name,
        users=pool.users,
        came=len(np.unique(np.concatenate([fed.people for fed in record.fed]))),
        hardened=trial.hardened,
        bits_seen=record.located,
        users_named=traces.users_named(record.fed),
        words_found=traces.words_found(),
        ids_found=traces.ids_found(),
        counts_found=traces.counts_found(),
        releases_found=traces.released.found_in(record.last, record.before),
        keys_found=traces.keys_found(),
        where=traces.where(),
        image_bytes=record.last.size,
        seconds=round(perf_counter() - started, 1),
    )
