"""The memory auditor: runs the shipping code in a process of its own, and searches an image of its memory and files.

In reading order: `scenarios` is a table, and `runs` runs a row of it. A process under audit is a program, whose code is
in `imaged_process`, `estimators` and `batches`, a command (both in `processes`), or a service (`services`, with
`refusals` and `brokers`). `images` copies its memory; `traces` knows the secrets that must not be there, `patterns` how
they would look, `search` finds them with `kernels`.
"""

from collections.abc import Sequence
from dataclasses import replace

from panprivacy.audit.memory.images import CannotImage, Imaged, check_system
from panprivacy.audit.memory.scenarios import SCENARIOS, Scenario, named, scenarios

__all__ = ["SCENARIOS", "CannotImage", "Imaged", "Scenario", "image", "scenarios"]


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
    releases before noise, and the noise. A program is a fork of a process that has loaded the library and met no event;
    pages that are still as in that process are left out.

    Parameters
    ----------
    scenario
        One of `SCENARIOS`, or its name.
    users
        Users of the universe.
    hardened
        Start the child with allocators that overwrite freed memory. Without it, nothing can be promised about ids that
        are Python objects. By default the scenario decides.
    plants
        Names of functions, ``module:function``, that the child calls before anything else: leaks that must be found.
    """
    check_system()
    from panprivacy.audit.memory import runs  # now: the search compiles loops, which few programs need

    chosen = named(scenario) if isinstance(scenario, str) else scenario
    chosen = replace(
        chosen, hardened=chosen.hardened if hardened is None else hardened, plants=(*chosen.plants, *plants)
    )
    return runs.compare_files(chosen, users) if chosen.adjacent else runs.search_image(chosen, users)
