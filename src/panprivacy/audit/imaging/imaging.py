"""Run a scenario in a process of its own, image it, and attack the image."""

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np

from panprivacy.audit.imaging import adjacent, consumers, embedded, pipes, services
from panprivacy.audit.imaging.crowd import Crowd
from panprivacy.audit.imaging.processes import check_system
from panprivacy.audit.imaging.recorded import Recorded
from panprivacy.audit.imaging.result import Imaged
from panprivacy.audit.imaging.scenarios import Scenario, named
from panprivacy.audit.imaging.searching import Haystack
from panprivacy.audit.imaging.truth import Traces

_SEED = 20_260_101


def _runner(scenario: Scenario) -> Callable[..., tuple[Recorded, Traces]]:
    if scenario.broker:
        return consumers.run
    return services.run if scenario.service else pipes.run if scenario.pipe else embedded.run


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

    `scenario` is one of `scenarios.SCENARIOS`, or its name. `hardened` starts the child with allocators that overwrite
    what is freed; without it, only containers are fed whose memory can be wiped. `plants` are names of functions,
    ``module:function``, that are called in the child before anything else: leaks that must be found.
    """
    check_system()
    chosen = named(scenario) if isinstance(scenario, str) else scenario
    hardened = chosen.hardened if hardened is None else hardened
    if chosen.adjacent:
        return adjacent.compare(chosen, users, hardened=hardened, plants=plants)
    started = perf_counter()
    piped = bool(chosen.pipe or chosen.service or chosen.broker)
    crowd = Crowd(chosen.kind, users, chosen.container, _SEED, piped=piped)
    recorded, traces = _runner(chosen)(chosen, crowd, users, hardened=hardened, plants=plants)
    assert recorded.last is not None
    Haystack(recorded.last, recorded.before).look_for(traces.all_windows, traces.all_runs)
    return Imaged(
        scenario=chosen.name,
        users=crowd.users,
        came=len(np.unique(np.concatenate([fed.people for fed in recorded.fed]))),
        hardened=hardened,
        bits_seen=recorded.located,
        users_named=traces.users_named(recorded.fed),
        words_found=traces.words_found(),
        ids_found=traces.ids_found(),
        counts_found=traces.counts_found(),
        releases_found=traces.released.found_in(recorded.last, recorded.before),
        keys_found=traces.keys_found(),
        where=traces.where(),
        image_bytes=recorded.last.size,
        seconds=round(perf_counter() - started, 1),
    )
