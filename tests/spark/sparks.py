"""What tests of Spark need: a session, folders whose bits are a plain list of who came, and who is in them."""

import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from panprivacy.spark import NEEDED
from panprivacy.testing import CertainCoins, folder_table

UNIVERSE = 4000
HERE = Path(__file__).parent

# PySpark warns of the version of pandas, which it loads and we do not use.
needs_spark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def start(master: str, local: Path, **more: Any) -> Any:
    """A session with encrypted shuffle files, or a skipped test where there is no Spark or no Java."""
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'panprivacy[spark]'")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, and there is none")
    return built(master, local, **more)


def built(master: str, local: Path, **more: Any) -> Any:
    """The session itself."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # read when the session is built
    settings: dict[str, Any] = dict.fromkeys(NEEDED, "true") | {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.local.dir": str(local),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": f"{HERE.parents[1] / 'src'}:{HERE}",
        # These processes live for seconds: what is compiled well is compiled too late.
        "spark.driver.extraJavaOptions": QUICK_JAVA,
        "spark.executor.extraJavaOptions": QUICK_JAVA,
    }
    builder = SparkSession.builder.master(master).appName("panprivacy")
    for name, value in (settings | {name.replace("_", "."): value for name, value in more.items()}).items():
        builder = builder.config(name, str(value))
    return builder.getOrCreate()


QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def density(place: Path, *, shards: int = 3, universe: Any = UNIVERSE, **options: Any) -> pp.StateFolder:
    """A folder whose bits are a plain list of who came."""
    return pp.StateFolder.create(place, universe=universe, epsilon=2.0, shards=shards, coins=CertainCoins(), **options)


def present(folder: pp.StateFolder) -> set[int]:
    """The slots that are touched."""
    table = folder_table(folder)
    return set(np.flatnonzero(table.bits(0, table.size)).tolist())


def counted(folder: pp.StateFolder) -> dict[int, int]:
    """How many counters stand where, of those that have moved; none may have wrapped."""
    fields = folder_table(folder).fields()
    assert not any(bit for _, bit in fields)
    return dict(Counter(place for place, _ in fields if place))
