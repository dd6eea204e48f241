"""Folders without chance that engines feed, and who is in them."""

from pathlib import Path
from typing import Any

import numpy as np

import panprivacy as pp
from panprivacy.testing import CertainCoins, folder_table


def made(tmp_path: Path, **options: Any) -> pp.StateFolder:
    """A folder of three shards."""
    plan: dict[str, Any] = {"universe": 1000, "epsilon": 2.0, "shards": 3, "coins": CertainCoins()}
    return pp.StateFolder.create(tmp_path / "folder", **plan | options)


def present(folder: pp.StateFolder) -> list[int]:
    """The users that were counted."""
    table = folder_table(folder)
    return list(np.flatnonzero(table.bits(0, table.size)))
