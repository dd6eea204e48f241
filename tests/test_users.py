"""The universe that is a list."""

import gzip
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import panprivacy as pp
from feeding import touched
from panprivacy.cli.counting import UniverseOptions
from panprivacy.memory.scratch import Scratch
from panprivacy.testing import refused
from panprivacy.universe import users as users_module
from panprivacy.universe.integers import NOT_THERE, HashIndex
from panprivacy.universe.open import OpenUniverse

BIG = 2**62


NAMES = ["ada", "grace", "mary", "rosalind", "émilie", ""]
LISTS: dict[str, list[Any]] = {
    "strings": NAMES,
    "integers": [7, -3, 2**40, 0],
    "integers up to 64 bits": [2**64 - 1, 2**63, 5],
    "integers beyond 64 bits": [UUID(int=2**100 + 7).int, 2**64, -1, 5],
    "bytes": [b"a", b"\x00\xff", b""],
    "tuples": [("ward", 1), ("ward", 2)],
    "dates": [date(2024, 1, 1), date(2025, 1, 1)],
    "uuids": [UUID(int=1), UUID(int=2)],
    "a mixture": ["a", 1, b"c", (2, 3)],
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_anything_hashable_is_a_universe(name: str) -> None:
    ids = LISTS[name]
    users = pp.Users([*ids, *ids])
    assert users.size == len(ids)
    alone = [users.index(user) for user in ids]
    assert sorted(alone) == list(range(len(ids)))
    assert users.indices(ids, Scratch()).tolist() == alone
    assert touched(users, lambda est: est.update_many(iter(ids))) == list(range(len(ids)))


@pytest.mark.parametrize("name", LISTS)
def test_the_same_set_of_ids_is_the_same_universe(name: str) -> None:
    ids = LISTS[name]
    users, others = pp.Users(ids), pp.Users(reversed([*ids, ids[0]]))
    assert users.fingerprint == others.fingerprint
    assert len(users.fingerprint) == 32
    assert [users.index(user) for user in ids] == [others.index(user) for user in ids]
    assert users.fingerprint != pp.Users(ids[1:]).fingerprint


def test_different_lists_have_different_fingerprints() -> None:
    lists = [
        ["a", "b"],
        ["ab"],
        ["a", "b", ""],
        [b"a", b"b"],
        [1, 2],
        ["1", "2"],
        [12],
        [1, "2"],
        [2, 1, 0],
    ]
    assert len({pp.Users(ids).fingerprint for ids in lists}) == len(lists)


COLUMN_KINDS = {
    "numpy": np.array,
    "numpy scalars": lambda ids: list(np.array(ids)),
    "objects": lambda ids: np.array(ids, dtype=object),
    "polars": pl.Series,
    "arrow": pa.array,
    "chunked": lambda ids: pa.chunked_array([ids[:1], ids[1:]]),
    "generator": iter,
    "set": set,
    "keys": lambda ids: dict.fromkeys(ids).keys(),
}


@pytest.mark.parametrize("kind", COLUMN_KINDS)
@pytest.mark.parametrize("ids", [["b", "a", "c"], [3, 1, 2]], ids=["strings", "integers"])
def test_a_list_may_come_as_any_column_and_be_fed_from_any_column(ids: list[object], kind: str) -> None:
    users = pp.Users(COLUMN_KINDS[kind](ids))
    assert users.fingerprint == pp.Users(ids).fingerprint
    assert touched(users, lambda est: est.update_many(COLUMN_KINDS[kind](ids[:2]))) == sorted(map(users.index, ids[:2]))


@pytest.mark.parametrize("dtype", [pl.Categorical, pl.Enum(NAMES), pl.String])
def test_strings_may_be_encoded_as_categories(dtype: pl.DataType) -> None:
    users = pp.Users(NAMES)
    column = pl.Series(["mary", "ada"], dtype=dtype)
    assert users.indices(column, Scratch()).tolist() == [users.index("mary"), users.index("ada")]
    assert pp.Users(pl.Series(NAMES, dtype=dtype)).fingerprint == users.fingerprint


class Ward(str, Enum):  # noqa: UP042 - of a StrEnum, `str` is the text
    """Texts that `str` turns into something else."""

    NORTH = "north"
    SOUTH = "south"


@pytest.mark.parametrize("kind", [np.str_, Ward], ids=["numpy", "enum"])
def test_a_text_is_the_same_user_whatever_subclass_holds_it(kind: type[str]) -> None:
    users = pp.Users(["north", "south", "west"])
    assert users.index(kind("south")) == users.index("south")
    assert users.indices([kind("south"), "west"], Scratch()).tolist() == [users.index("south"), users.index("west")]


@pytest.mark.parametrize("listed", [np.int64, np.uint64])
@pytest.mark.parametrize("asked", [np.int64, np.uint64])
def test_large_neighbouring_ids_are_told_apart_whatever_their_sign(
    listed: type[np.integer], asked: type[np.integer]
) -> None:
    """Signed beside unsigned, NumPy compares rounded floats, to which these ids are all one."""
    ids = [BIG + i for i in range(100)]
    users = pp.Users(np.array(ids, dtype=listed))
    assert users.indices(np.array(ids, dtype=asked), Scratch()).tolist() == list(range(100))
    assert users.index(BIG + 57) == 57
    with pytest.raises(pp.OutsideUniverse):
        users.indices(np.array([BIG + 100], dtype=asked), Scratch())
    with pytest.raises(pp.OutsideUniverse):
        users.indices(np.array([-1]), Scratch())


@pytest.mark.parametrize(
    ("listed", "bad"),
    [
        (NAMES, ["ada", "ida", "eve"]),
        (NAMES, pl.Series(["ada", "ida", "eve"])),
        (NAMES, np.array(["ada", "ida", "eve"])),
        (NAMES, ["ada", 3, ["x"]]),
        (["1", "1.5", "true"], pl.Series([1])),
        (["1", "1.5", "true"], pl.Series([True])),
        ([1, 2, 300], [1, 3]),
        ([1, 2, 300], np.array([44], dtype=np.uint8)),
        (np.array([1, 2, 100, 3, 4], dtype=np.int8), np.array([257])),
        ([1, 2, 300], [2**70]),
        ([("a", 1), 2], [("a", 1), ("a", 2)]),
        ([("a", 1), 2], [object()]),
        (NAMES, ["ada", "half \ud800"]),
    ],
)
def test_someone_who_is_not_listed_is_refused_and_nothing_changes(listed: object, bad: pp.Ids) -> None:
    est = pp.Density(pp.Users(listed), 1.0)
    before = est.to_bytes()
    with refused("outside-universe"):
        est.update_many(bad)
    assert est.to_bytes() == before


@pytest.mark.parametrize("separator", [";", "\t", "|", ","])
def test_a_list_in_a_csv_file_may_have_other_separators(separator: str, tmp_path: Path) -> None:
    file = tmp_path / "users.csv"
    file.write_text("\n".join(separator.join(row) for row in (("id", "region"), ("ada", "north"), ("mary", "south"))))
    assert list(pp.Users(file, "id", groups="region")) == ["ada", "mary"]


def test_a_list_may_be_read_from_a_file(tmp_path: Path) -> None:
    frame = pl.DataFrame({"name": NAMES[:4], "age": [36, 85, 47, 37]})
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_csv(tmp_path / "a.csv")
    frame.write_ndjson(tmp_path / "a.ndjson")
    frame.write_ipc(tmp_path / "a.arrow")
    (tmp_path / "a.txt").write_text("\n".join(NAMES[:4]) + "\n", encoding="utf-8")
    expected = pp.Users(NAMES[:4]).fingerprint
    for suffix in ("parquet", "csv", "ndjson", "arrow"):
        path = tmp_path / f"a.{suffix}"
        assert pp.Users(path, column="name").fingerprint == expected
        assert pp.Users(str(path), column="age").size == 4
        with refused("which-column"):
            pp.Users(path)
        with refused("no-column", "'who'"):
            pp.Users(path, column="who")
    assert pp.Users(tmp_path / "a.txt").fingerprint == expected
    with refused("no-columns", "'name'"):
        pp.Users(tmp_path / "a.txt", column="name")
    with refused("cannot-be-opened", "a.xlsx"):
        pp.Users(tmp_path / "a.xlsx")
    with refused("column-of-a-file"):
        pp.Users(NAMES, column="name")


@pytest.mark.parametrize("suffix", ["txt", "csv", "tsv", "ndjson", "csv.gz"])
@pytest.mark.parametrize(("spelled", "users"), [("007 07 7 12", 4), ("7 7 12", 2), ("7 NA", 2)])
def test_a_list_in_a_file_is_the_same_universe_in_python_and_in_the_shell(
    tmp_path: Path, suffix: str, spelled: str, users: int
) -> None:
    """Ids 007, 07, 7 and 12 were two users here and four there, and neither could load the other's state."""
    path, ids = tmp_path / f"ids.{suffix}", spelled.split()
    text = "".join(f'{{"id": "{each}"}}\n' for each in ids) if suffix == "ndjson" else "\n".join(["id", *ids])
    text = "\n".join(ids) if suffix == "txt" else text
    path.write_bytes(gzip.compress(text.encode()) if suffix.endswith("gz") else text.encode())
    column = None if suffix == "txt" else "id"
    asked = UniverseOptions(universe_file=f"{path}:id" if column else str(path))
    there, here = asked.read()[0], pp.Users(path, column)
    assert isinstance(there, pp.Users)
    assert here.size == there.size == users
    assert here.fingerprint == there.fingerprint
    assert pp.load(pp.Density(there, 1.0).to_bytes(), here).users == users


@pytest.mark.parametrize("ids", [[], np.array([]), pl.Series([]), set()])
def test_an_empty_list_is_no_universe(ids: object) -> None:
    with refused("no-users"):
        pp.Users(ids)


@pytest.mark.parametrize("ids", [5, None, 2.5])
def test_what_is_no_list_is_no_universe(ids: object) -> None:
    with refused("users-type"):
        pp.Users(ids)


def test_missing_ids_are_no_users() -> None:
    with refused("missing-ids", "1"):
        pp.Users(pl.Series(["a", None]))
    with refused("missing-ids", "2"):
        pp.Users(["a", None, 3, None])


# --- looking ids up by their hashes ---------------------------------------------------------------------------------

words = st.integers(0, 2**64 - 1)


def assert_found(answer: tuple[NDArray[np.uint64], int], expected: list[int]) -> None:
    """Assert what a directory found, -1 being what is not there."""
    places, missing = answer
    assert places.tolist() == [NOT_THERE if place < 0 else place for place in expected]
    assert missing == expected.count(-1)


@pytest.mark.slow
@given(st.lists(words, min_size=1, max_size=50, unique=True), st.lists(words, max_size=50))
def test_a_directory_finds_every_hash_at_its_position_and_no_other(listed: list[int], others: list[int]) -> None:
    directory = HashIndex(np.array(listed, dtype=np.uint64))
    wanted = [*listed, *others]
    expected = [listed.index(each) if each in listed else -1 for each in wanted]
    assert_found(directory.find(np.array(wanted, dtype=np.uint64), None, Scratch()), expected)
    assert [directory.find_one(each) for each in wanted] == expected


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, unique=True))
def test_where_hashes_coincide_the_checks_decide(listed: list[tuple[int, int]]) -> None:
    def columns(pairs: list[tuple[int, int]]) -> list[NDArray[np.uint64]]:
        return [np.array([pair[i] for pair in pairs], dtype=np.uint64) << np.uint64(62) for i in (0, 1)]

    directory = HashIndex(*columns(listed))
    wanted = [(i, j) for i in range(4) for j in range(4)]
    expected = [listed.index(pair) if pair in listed else -1 for pair in wanted]
    hashes, checks = columns(wanted)
    assert_found(directory.find(hashes, checks, Scratch()), expected)
    assert [directory.find_one(i << 62, j << 62) for i, j in wanted] == expected


class Coarse(OpenUniverse):
    """A hash that tells texts apart by one letter: the first or the last, as the key says."""

    def index(self, user: Any) -> int:
        return ord(user[0 if self.key == b"first" else -1])

    def hash_texts(self, texts: Any, scratch: Scratch) -> NDArray[np.uint64]:  # noqa: ARG002
        return np.array([self.index(user) for user in texts], dtype=np.uint64)


def test_both_hashes_must_be_those_of_the_same_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users_module, "_HASH", Coarse(b"first"))
    monkeypatch.setattr(users_module, "_CHECK", Coarse(b"last"))
    users = pp.Users(["ada", "anne", "grace"])
    assert users.indices(pl.Series(["grace", "ada", "anne"]), Scratch()).tolist() == [2, 0, 1]
    for stranger in ("greta", "mary", "avax"):
        for ask in (lambda user: users.indices(pl.Series(["ada", user]), Scratch()), users.index):
            with refused("outside-universe", stranger):
                ask(stranger)
