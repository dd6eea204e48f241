"""Settings shared by all tests: the same examples in every run."""

import gc
import os
import random
import secrets
import signal
import subprocess
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from panprivacy.privacy import coins
from panprivacy.testing import SeededCoins

# Random examples would make a run's outcome depend on luck; a deadline, or a check for slow examples, on the machine.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")

# Where one of these is set, pytest compares whatever an assertion finds unequal to the last byte: half an hour for a
# saved state, in tests that plant a bug and expect the assertion to fail.
for name in ("CI", "BUILD_NUMBER"):
    os.environ.pop(name, None)

# A shell that starts the tests in the background lets them ignore Ctrl-C, and all that they start. Tests send it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

BEFORE = pytest.StashKey[set[bytes]]()
"""Files that were there before the tests."""

FILL_FROM_SYSTEM, URANDOM = coins.fill_from_system, os.urandom


@pytest.fixture
def seeded() -> SeededCoins:
    """Coins that are the same in every run."""
    return SeededCoins(20_260_101)


@pytest.fixture(autouse=True)
def repeatable_system(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The system's coins, fed from a seed of each test's own, so that no test fails by chance.

    Only the bytes are replaced: keystream, comparison and noise are the shipping code. What a test starts as
    another process has the operating system's own.
    """
    generator = np.random.default_rng(crc32(request.node.nodeid.encode()))
    chooser = random.Random(request.node.nodeid)

    def fill(buffer: bytearray) -> None:
        buffer[:] = generator.bytes(len(buffer))

    monkeypatch.setattr(coins, "fill_from_system", fill)
    monkeypatch.setattr(os, "urandom", generator.bytes)
    monkeypatch.setattr(secrets, "randbelow", chooser.randrange)


@pytest.fixture
def operating_system(repeatable_system: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - comes first
    """The operating system's own bytes after all, for tests of what reads them."""
    monkeypatch.setattr(coins, "fill_from_system", FILL_FROM_SYSTEM)
    monkeypatch.setattr(os, "urandom", URANDOM)


LONG = (
    "tests/serve/test_memory_of_service.py",
    "tests/test_site.py",
    "tests/brokers/test_real_brokers.py",
    "tests/audit/test_imaging.py",
    "tests/spark/test_spark_cluster.py",
    "tests/serve/test_page_for_all.py",
    "tests/audit/",
    "tests/test_pages.py",
    "tests/groups/test_groups_memory.py",
    "tests/planning/",
    "tests/statistics/",
)
"""What takes minutes comes first, so that no worker is left alone with it in the end: a file is one worker's."""


def _place(item: pytest.Item) -> int:
    return next((place for place, long in enumerate(LONG) if item.nodeid.startswith(long)), len(LONG))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Examples of the printed algorithms do not show how to silence the warning that each of them gives."""
    items.sort(key=_place)
    for item in items:
        if isinstance(item, pytest.DoctestItem):
            item.add_marker(pytest.mark.filterwarnings("ignore::panprivacy.paper.NotPrivateAsPrinted"))


def pytest_collection_finish() -> None:
    """What was collected stays: no garbage collection looks at thousands of tests again, some 5 % of the time."""
    gc.collect()
    gc.freeze()


def _untracked() -> set[bytes]:
    """Files of the checkout that git neither tracks nor ignores; none where there is no checkout."""
    listing = ["git", "ls-files", "--others", "--exclude-standard"]
    try:
        return set(subprocess.run(listing, cwd=Path(__file__).parent, capture_output=True, check=True).stdout.split())
    except (OSError, subprocess.CalledProcessError):
        return set()


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[BEFORE] = _untracked()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A test or an example that leaves a file in the checkout fails the run."""
    before = session.config.stash[BEFORE]
    left = _untracked() - before
    if left and not hasattr(session.config, "workerinput"):
        print(f"\nleft in the checkout by tests: {sorted(map(os.fsdecode, left))}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
