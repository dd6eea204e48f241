"""One image, one state: the shipping code in a child process, imaged and attacked as an intruder would.

`processes` and `images` copy memory and files; `child` is the process that is imaged, `stage` and `pipes` lead it;
`crowd` knows who came, `truth` what must therefore not be there, `needles` how it would look, `searching` finds it.
`adjacent` compares names, lengths and times of files in two runs that differ in one user's rows; `calls` notes them.
"""

from typing import Any

from panprivacy.audit.imaging.processes import CannotImage
from panprivacy.audit.imaging.result import Imaged
from panprivacy.audit.imaging.scenarios import SCENARIOS, Scenario

__all__ = ["SCENARIOS", "CannotImage", "Imaged", "Scenario", "image"]


def image(scenario: str | Scenario, users: int = 100_000, **more: Any) -> Imaged:
    """Run a scenario with the shipping code in a child process, image it, and look for what must not be there.

    See `panprivacy.audit.imaging.imaging.image`, which is loaded now: it compiles loops, and few programs need it.
    """
    from panprivacy.audit.imaging.imaging import image as run

    return run(scenario, users, **more)
