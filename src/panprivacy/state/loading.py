"""Saved estimators back to life."""

from pathlib import Path
from typing import Any

from panprivacy.state.file import StateFile
from panprivacy.state.kinds import loaded
from panprivacy.state.sealed import unseal


def load(source: bytes | str | Path, universe: Any = None) -> Any:
    """Read what `save` or `to_bytes` wrote, whichever estimator it was: from a file, or from bytes.

    From a file, the bits are read straight into the estimator's table. What it was loaded from stays where it is: as
    soon as the estimator is fed, an older version of the same state. So save a loaded estimator soon, or hold its file
    and save after every batch (`pp.StateFile`). Load a state once: each further estimator is one more reading.

    A list of users is not part of a state: give the same `pp.Users` again to feed more events. Without it the
    estimator can still release.

    >>> import panprivacy as pp
    >>> est = pp.Density(universe=1000, epsilon=1.0)
    >>> pp.load(est.to_bytes()).to_bytes() == est.to_bytes()
    True
    """
    if isinstance(source, str | Path):
        return StateFile(source).load(universe)
    return loaded(unseal(source), universe)
