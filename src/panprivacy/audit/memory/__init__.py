"""The memory auditor: runs the shipping code in a process of its own, and searches an image of its memory and files.

In reading order: `scenarios` are what is run; `estimators`, `batches` and `imaged_process` are the program that is
imaged; `programs`, `pipes`, `services` with `refusals` and `brokers` start a process and feed it; `images` copies its
memory; `traces` knows what must not be there, `patterns` how it would look, `search` finds it with `kernels`; `files`
compares names, lengths and times of files in two runs that differ in one user's rows.
"""

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from panprivacy.audit.memory.images import CannotImage, Imaged, check_system
from panprivacy.audit.memory.scenarios import SCENARIOS, Scenario, named, scenarios

if TYPE_CHECKING:
    from panprivacy.audit.memory.programs import Trial

__all__ = ["SCENARIOS", "CannotImage", "Imaged", "Scenario", "image", "scenarios"]

_SEED = 20_260_101


def image(
    scenario: str | Scenario,
    users: int = 100_000,
    *,
    hardened: bool | None = None,
    plants: Sequence[str] = (),
) -> Imaged:
    """Run a scenario with the shipping code in a child process, image it, and look for what must not be there.

    Searched are all writable memory of the child, freed or not, and the folder of its state, for: any version of its
    bits but the present one, packed, a byte a bit, or as counts per word; the flips of earlier batches; ids, hashes and
    places of batches before the last, in their order and sorted; keys of the coins and their keystream; the counts of
    releases before noise, and the noise.

    Parameters
    ----------
    scenario
        One of `SCENARIOS`, or its name.
    users
        Users of the universe.
    hardened
        Start the child with allocators that overwrite what is freed. Without it, nothing can be promised about ids that
        are Python objects. The default is that of the scenario.
    plants
        Names of functions, ``module:function``, that the child calls before anything else: leaks that must be found.
    """
    check_system()
    # Loaded now: the search compiles loops, which few programs need.
    from panprivacy.audit.memory import files, programs

    chosen = named(scenario) if isinstance(scenario, str) else scenario
    trial = programs.Trial(chosen, users, chosen.hardened if hardened is None else hardened, tuple(plants))
    return files.compare(trial) if chosen.adjacent else _searched(trial)


def _searched(trial: "Trial") -> Imaged:
    """Run a scenario, and search its last image."""
    import numpy as np

    from panprivacy.audit.memory import pipes, programs, services
    from panprivacy.audit.memory.batches import UserPool
    from panprivacy.audit.memory.search import ImageSearch

    started, scenario = perf_counter(), trial.scenario
    piped = True
    if scenario.broker:
        run = services.run_consumer
    elif scenario.service:
        run = services.run_service
    elif scenario.pipe:
        run = pipes.run
    else:
        run, piped = programs.run, False
    pool = UserPool(scenario.kind, trial.users, scenario.container, _SEED, piped=piped)
    record, traces = run(trial, pool)
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
