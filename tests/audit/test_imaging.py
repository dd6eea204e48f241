"""The memory auditor finds every planted leak, and nothing in the code that ships."""

import errno
import json
import mmap
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from command_line import invoke
from panprivacy.audit import memory
from panprivacy.audit.memory import Imaged, Scenario, image, images
from panprivacy.audit.memory.scenarios import SCENARIOS
from panprivacy.testing import refused

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/pagemap").exists(), reason="needs Linux's /proc"),
]

USERS = 10_000
FED = Scenario("fed", steps=("medium", "short"), hardened=True)
OPEN = replace(FED, kind="DistinctCount")
THREADED = replace(FED, steps=("huge", "medium", "short"))
TEXTS = replace(FED, kind="DistinctCount, text", container="list of text")
KEPT = [  # leaks of different kinds at once, since each start of a process takes seconds
    (FED, {"a_copy_of_the_table": "users_named", "counts_of_ones": "counts_found", "a_cache_of_ids": "ids_found"}),
    (FED, {"a_copy_of_the_table_shifted": "users_named", "keystreams": "keys_found", "a_list_of_ids": "ids_found"}),
    (FED, {"the_table_a_byte_a_bit": "users_named", "keys": "keys_found", "a_sorted_cache_of_ids": "ids_found"}),
    (FED, {"flips": "users_named", "wide_counts_of_ones": "counts_found"}),
    (
        replace(FED, kind="Counts"),
        {"a_copy_of_the_table": "users_named", "a_list_of_ids": "ids_found", "counters_a_byte_each": "counts_found"},
    ),
    (replace(FED, kind="folder, Density"), {"a_copy_of_each_shard": "users_named", "a_cache_of_ids": "ids_found"}),
    (TEXTS, {"a_cache_of_texts": "ids_found"}),
    (OPEN, {"a_cache_of_hashes": "ids_found"}),
]


@pytest.mark.parametrize(("scenario", "leaks"), KEPT, ids=[" and ".join(leaks) for _, leaks in KEPT])
def test_what_is_kept_is_found(scenario: Scenario, leaks: dict[str, str]) -> None:
    result = image(scenario, USERS, plants=[f"leaks:{leak}" for leak in leaks])
    found = {name for name in ("users_named", "counts_found", "ids_found", "keys_found") if getattr(result, name)}

    assert found == set(leaks.values()), result


@pytest.mark.parametrize(
    ("leak", "scenario", "found"),
    [
        ("flips_not_wiped", FED, "users_named"),
        ("slots_not_wiped", replace(FED, kind="sampled"), "ids_found"),
        ("slots_not_wiped", replace(FED, kind="shard"), "ids_found"),
        ("words_not_wiped", replace(FED, container="NumPy big-endian"), "ids_found"),
        ("hashes_not_wiped", OPEN, "ids_found"),
        ("cells_not_wiped", OPEN, "ids_found"),
        ("found_not_wiped", replace(FED, kind="Users"), "ids_found"),
        ("indices_not_wiped", replace(FED, kind="Edges", container="NumPy pairs"), "ids_found"),
        ("owned_not_wiped", FED, "users_named"),
        ("marks_not_wiped", replace(FED, kind="folder, Density"), "users_named"),
        ("marks_not_wiped", replace(FED, kind="folder, taken, Counts"), "users_named"),
        ("marks", THREADED, "users_named"),
    ],
    ids=str,
)
def test_a_skipped_wipe_is_found(leak: str, scenario: Scenario, found: str) -> None:
    result = image(replace(scenario, hardened=False), USERS, plants=[f"leaks:{leak}"])

    assert getattr(result, found), result


@pytest.mark.parametrize(
    "name",
    [
        "constructor",
        "batches",
        "batches, DistinctCount",
        "batches by threads",
        "batches by threads, Counts",
        "release",
        "merge",
        "save",
        "move",
        "bound to a file",
        "save and load",
        "folder, taken, Counts",
        "pipe with state",
        "pipe with folder",
        "pipe with times",
        "pipe with strangers",
        "pipe, DistinctCount, Arrow",
        "files behind URLs, DistinctCount, Arrow",
        "files in a store, DistinctCount, Parquet",
        "batches with strangers",
        "folder, lost shard",
        "counts of releases, Density",
        "counts of releases, folder, Density",
        "batches, pandas categorical",
        "batches with times, Windows",
        "batches with times, ActiveUsers",
    ],
)
def test_the_code_that_ships_leaves_nothing(name: str) -> None:
    result = image(name, USERS)

    assert result.clean, result


@pytest.mark.parametrize("leak", ["a_cache_of_times", "texts_of_times"])
def test_times_that_a_pipe_keeps_are_found(leak: str) -> None:
    result = image("pipe with times", USERS, plants=[f"leaks:{leak}"])

    assert result.ids_found, result
    assert not result.users_named, result


LARGE = [
    ("Density", "counts_that_were_integers"),
    ("Density", "counts_that_were_floats"),
    ("Density", "noise_that_is_kept"),
    ("DistinctCount", "counts_that_were_integers"),
    ("Counts", "counts_that_are_kept"),
    ("Retention", "counts_that_are_kept"),
    ("ActiveUsers", "counts_that_are_kept"),
    ("Windows", "counts_that_are_kept"),
    ("Continual", "noise_that_is_kept"),
    ("folder, Density", "counts_that_were_integers"),
]


@pytest.mark.parametrize(("kind", "leak"), LARGE, ids=[f"{leak} by {kind}" for kind, leak in LARGE])
def test_exact_counts_of_releases_are_found_and_so_is_their_noise(kind: str, leak: str) -> None:
    result = image(f"counts of releases, {kind}", USERS, plants=[f"leaks:{leak}"])

    assert result.releases_found >= 4, result
    assert not result.users_named, result


@pytest.mark.parametrize(
    ("name", "leak", "found"),
    [
        ("pipe with strangers", "masks_of_numpy", "users_named"),
        ("batches with strangers", "owned_not_wiped", "users_named"),
        ("batches, pandas categorical", "categoricals_of_numpy", "ids_found"),
        ("batches with times, Windows", "times_of_numpy", "ids_found"),
        ("batches with times, Windows", "times_that_are_kept", "ids_found"),
        ("batches with times, ActiveUsers", "times_that_are_kept", "ids_found"),
    ],
)
def test_what_numpy_would_keep_is_found(name: str, leak: str, found: str) -> None:
    result = image(name, USERS, plants=[f"leaks:{leak}"])

    assert getattr(result, found), result


@pytest.mark.parametrize("name", ["pipe, DistinctCount, Arrow", "files in a store, DistinctCount, Parquet"])
def test_what_decoders_of_polars_would_keep_is_found(name: str) -> None:
    result = image(name, USERS, plants=["leaks:decoders_not_overwritten"])

    assert result.ids_found, result


def test_a_hardened_process_leaves_nothing_of_python_objects() -> None:
    result = image("batches, list", USERS)

    assert result.clean, result


@pytest.mark.parametrize(
    ("leak", "name", "file"),
    [
        ("a_journal_of_changed_blocks", "files, Counts", ".state.pp.journal"),
        ("a_journal_of_changed_blocks", "files, service", ".audited.pp.journal"),
        ("no_write_without_a_change", "files, Counts", "state.pp"),
        ("only_shards_that_are_touched", "files, folder, Density", "shards/shard-00000.pp"),
    ],
)
def test_files_that_tell_of_one_user_are_found(leak: str, name: str, file: str) -> None:
    result = image(name, USERS, plants=[f"leaks:{leak}"])

    assert result.users_named == 1, result
    assert result.differences, result
    assert file in result.where, result


@pytest.mark.parametrize("name", ["files, Counts", "files, pipe with folder", "files, service"])
def test_files_do_not_tell_of_one_user(name: str) -> None:
    result = image(name, USERS)

    assert result.clean, result


def test_a_loaded_copy_that_is_fed_is_a_second_version() -> None:
    result = image("bound to a file", USERS, plants=["leaks:states_that_are_loaded_as_copies"])

    assert result.users_named
    assert "state.pp" in result.where


def test_a_file_that_is_left_is_named() -> None:
    result = image(FED, USERS, plants=["leaks:the_table_in_a_file"])

    assert result.users_named
    assert ".state.pp.old" in result.where


def test_a_page_that_is_given_back_meanwhile_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    with mmap.mmap(-1, 3 * mmap.PAGESIZE) as mapped:
        mapped[:] = b"x" * len(mapped)
        start = np.frombuffer(mapped, dtype=np.uint8).ctypes.data
        preadv = os.preadv

        def only_beside_it(memory: int, buffers: list[memoryview], address: int) -> int:
            if address == start + mmap.PAGESIZE:
                raise OSError(errno.EIO, "it is not there")
            return preadv(memory, [buffers[0][: mmap.PAGESIZE]], address)

        monkeypatch.setattr(os, "preadv", only_beside_it)
        monkeypatch.setattr(images, "writable", lambda _: [(start, start + len(mapped), "mapped")])
        (segment,) = images.memory_of(os.getpid())

    assert bytes(segment.octets[:: mmap.PAGESIZE]) == b"x\0x"


def test_a_program_that_ends_early_says_why() -> None:
    with refused("cannot-image", "'sing'"):
        image(replace(FED, steps=("short", "sing")), USERS)


def test_other_systems_are_told_that_they_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")

    with refused("cannot-image", "darwin"):
        image(FED, USERS)


# --- the command ------------------------------------------------------------------------------------------------

ENVIRONMENT = {"COLUMNS": "150", "NO_COLOR": "1", "TERM": "dumb"}
CLEAN = Imaged("pipe", 10_000, 4_500, False, True, 0, (), 80_000_000, 3.0)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Imaged]:
    """What the command finds, one scenario after the other, over and over."""
    results = [CLEAN]
    monkeypatch.setattr(memory, "image", lambda _, users: replace(results[0], users=users))
    return results


def test_the_command_prints_a_row_for_each_scenario_and_size(found: list[Imaged]) -> None:
    assert found
    result = invoke(["audit", "--memory", "--full", "merge", "--json"], ENVIRONMENT)
    rows = json.loads(result.stdout)
    merging = [scenario for scenario in SCENARIOS if scenario.name.startswith("merge")]

    assert len(merging) >= 2
    assert result.exit_code == 0
    assert [row["users"] for row in rows] == [size for size in (10**4, 10**5, 10**6, 10**7) for _ in merging]


def test_the_exit_status_tells_of_a_find(found: list[Imaged]) -> None:
    found[0] = replace(CLEAN, users_named=7, words_found=2)
    result = invoke(["audit", "--memory", "pipe", "--markdown"], ENVIRONMENT)

    assert result.exit_code == 1
    assert "| pipe | 10,000 | plain | 76.3 MiB | 7 of 4,500 | 0 | LEAKS, 2 words |" in result.stdout


def test_bits_that_were_not_seen_are_not_called_clean(found: list[Imaged]) -> None:
    found[0] = replace(CLEAN, bits_seen=False)
    result = invoke(["audit", "--memory", "pipe"], ENVIRONMENT)

    assert result.exit_code == 1
    assert "bits not located" in result.stdout


@pytest.mark.parametrize(("arguments", "message"), [(["nobody"], "no scenario 'nobody'"), (["--users", "9"], "10,000")])
def test_what_cannot_be_imaged_is_an_error_in_one_line(arguments: list[str], message: str) -> None:
    result = invoke(["audit", "--memory", *arguments], ENVIRONMENT)

    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
