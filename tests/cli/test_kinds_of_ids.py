"""What ids are in the first file that a state is fed, they are in all: nobody counts twice for another spelling."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import panprivacy as pp
from commands import answer, refused, run
from panprivacy import testing

FORMATS = ["csv", "ndjson", "parquet", "arrow"]
USERS = 3000


def written(path: Path, ids: list[Any]) -> Path:
    """A file with one column; what CSV and NDJSON say, they say without types of Polars."""
    if path.suffix == ".ndjson":
        path.write_text("".join(json.dumps({"user": user}) + "\n" for user in ids))
    elif path.suffix == ".csv":
        path.write_text("user\n" + "".join(f"{user}\n" for user in ids))
    elif path.suffix == ".parquet":
        pl.DataFrame({"user": ids}).write_parquet(path)
    else:
        pl.DataFrame({"user": ids}).write_ipc(path)
    return path


def feed(file: Path, *more: Any) -> tuple[Any, ...]:
    return ("distinct", file, "-c", "user", "-e", 20, "-s", file.with_name("d.pp"), "--no-release", *more)


@pytest.mark.slow
@pytest.mark.parametrize("second", FORMATS)
@pytest.mark.parametrize("first", FORMATS)
def test_a_second_file_with_one_text_is_refused_and_counts_nobody_twice(
    first: str, second: str, tmp_path: Path
) -> None:
    """It was read as text from its first row on: 46,718 users for 23,570."""
    assert run(*feed(written(tmp_path / f"a.{first}", list(range(USERS))))).exit_code == 0
    assert pp.load(tmp_path / "d.pp").ids == "integers"
    texts = [str(user) for user in range(USERS)]
    line = refused(*feed(written(tmp_path / f"b.{second}", [*texts[:-1], "NA"])))
    if second in ("csv", "ndjson"):
        row = f"{USERS}: user 'NA'" if second == "csv" else '1: user "0"'
        assert f"b.{second}: row {row} is not a whole number of 64 bits" in line
    else:
        assert "column 'user' holds text, and ids are integers here" in line
    assert answer("release", tmp_path / "d.pp")["count"] == pytest.approx(USERS, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("second", FORMATS)
@pytest.mark.parametrize("first", ["csv", "ndjson"])
def test_whole_numbers_with_a_point_are_the_same_users_in_text(first: str, second: str, tmp_path: Path) -> None:
    assert run(*feed(written(tmp_path / f"a.{first}", [float(user) for user in range(USERS)]))).exit_code == 0
    assert run(*feed(written(tmp_path / f"b.{second}", list(range(USERS))))).exit_code == 0
    assert answer("release", tmp_path / "d.pp")["count"] == pytest.approx(USERS, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("second", FORMATS)
def test_where_ids_are_text_numbers_are_read_as_they_are_written(second: str, tmp_path: Path) -> None:
    assert run(*feed(written(tmp_path / "a.csv", ["NA", *range(USERS)]))).exit_code == 0
    assert pp.load(tmp_path / "d.pp").ids == "text"
    assert run(*feed(written(tmp_path / f"b.{second}", list(range(USERS))))).exit_code == 0
    assert answer("release", tmp_path / "d.pp")["count"] == pytest.approx(USERS, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("ids", ["NA", "7"])
def test_a_csv_file_of_whole_floats_counts_nobody_twice_where_ids_are_text(ids: str, tmp_path: Path) -> None:
    assert run(*feed(written(tmp_path / "a.csv", [ids, *range(USERS)]), "--ids", "text")).exit_code == 0
    assert run(*feed(written(tmp_path / "b.csv", [ids, *map(float, range(USERS))]))).exit_code == 0
    assert answer("release", tmp_path / "d.pp")["count"] == pytest.approx(USERS, rel=0.1)


@pytest.mark.slow
def test_a_declaration_comes_before_the_first_row_and_stays(tmp_path: Path) -> None:
    assert run(*feed(written(tmp_path / "a.csv", [1, 2]), "--ids", "text")).exit_code == 0
    assert pp.load(tmp_path / "d.pp").ids == "text"
    assert "are text, and cannot be declared integers" in refused(*feed(tmp_path / "a.csv", "--ids", "integers"))


def test_a_state_of_an_older_release_learns_what_ids_are(tmp_path: Path) -> None:
    pp.DistinctCount(20.0).save(tmp_path / "d.pp")
    assert run(*feed(written(tmp_path / "a.csv", [1, 2]))).exit_code == 0
    assert pp.load(tmp_path / "d.pp").ids == "integers"


def test_a_file_without_rows_declares_nothing(tmp_path: Path) -> None:
    assert run(*feed(written(tmp_path / "a.csv", []))).exit_code == 0
    assert pp.load(tmp_path / "d.pp").ids is None


def padded(path: Path) -> Path:
    """Integers, as a universe or a state knows them, and then one text with leading zeros: the worst input of all."""
    texts = path.suffix in (".parquet", ".arrow")  # whose columns have one type
    return written(path, [*(map(str, range(10, USERS)) if texts else range(10, USERS)), "007"])


@pytest.mark.parametrize("universe", [("density", "-n", USERS), ("distinct", "--ids", "integers"), ("distinct",)])
@pytest.mark.parametrize("suffix", ["csv", "ndjson"])
def test_where_ids_are_integers_a_leading_zero_is_refused(
    universe: tuple[Any, ...], suffix: str, tmp_path: Path
) -> None:
    command, *known = universe
    line = refused(command, padded(tmp_path / f"a.{suffix}"), "-c", "user", "-e", 1, *known)
    assert f"a.{suffix}: row {USERS - 9}: user" in line
    assert "007" in line
    assert "has leading zeros, and ids are integers here" in line
    assert "--universe-file" in line
    assert "--ids text" in line


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_column_of_text_is_refused_whole_where_ids_are_integers(suffix: str, tmp_path: Path) -> None:
    line = refused("density", padded(tmp_path / f"a.{suffix}"), "-c", "user", "-e", 1, "-n", USERS)
    assert "column 'user' holds text, and ids are integers here; ids that are text need --universe-file FILE" in line


@pytest.mark.slow
@pytest.mark.parametrize("suffix", FORMATS)
def test_a_state_of_integers_refuses_a_leading_zero(suffix: str, tmp_path: Path) -> None:
    assert run(*feed(written(tmp_path / "a.csv", list(range(USERS))))).exit_code == 0
    assert "ids are integers here" in refused(*feed(padded(tmp_path / f"b.{suffix}")))


@pytest.mark.parametrize("given", [["7", "007"], pl.Series(["7", "007"])])
def test_in_python_text_beside_integers_is_refused(given: Any) -> None:
    pandas = pytest.importorskip("pandas")
    for ids in (given, pandas.Series(list(given)), pandas.Series(list(given), dtype="string")):
        with testing.refused("ids-type", "integers"):
            pp.Density(universe=10, epsilon=1.0).update_many(ids)
        with testing.refused("ids-type", "integers"):
            pp.DistinctCount(epsilon=1.0, ids="integers").update_many(ids)


@pytest.mark.slow
@pytest.mark.parametrize("spelled", ["007", '"007"', "-07", "+07", " 07", "007.0", "00"])
@pytest.mark.parametrize("row", ["{}\n", "{},a\n", "a,{}\n"])
def test_leading_zeros_are_seen_however_csv_spells_them(row: str, spelled: str, tmp_path: Path) -> None:
    file, column = tmp_path / "a.csv", 2 if row.startswith("a") else 1
    rows = [*("0", "10", "0.0", "700"), spelled, "5"]
    file.write_text("".join(row.format(user) for user in rows))
    line = refused("density", file, "--no-header", "-c", column, "-e", 1, "-n", 1000)
    assert "row 5" in line
    assert "has leading zeros" in line


def test_zeros_of_other_columns_are_no_ids(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_text("at,user,note\n" + '00:01,7,"x\n007"\n' * 200)
    assert run("density", file, "-c", "user", "-e", 1, "-n", 1000).exit_code == 0


def files(folder: Path) -> tuple[Path, Path]:
    (folder / "users.csv").write_text("id;region\n" + "".join(f"{user:05};north\n" for user in range(USERS)))
    (folder / "visits.csv").write_text("user\n" + "".join(f"{user}\n" for user in range(USERS)))
    return folder / "users.csv", folder / "visits.csv"


@pytest.mark.slow
def test_strangers_whom_the_list_spells_otherwise_are_refused_with_the_option_that_helps(tmp_path: Path) -> None:
    users, visits = files(tmp_path)
    asked = ("density", visits, "-c", "user", "--universe-file", f"{users}:id", "-e", 20)
    assert "row 1: user '0' is outside the listed users, where it is spelled '00000'; --normalize zeros" in refused(
        *asked
    )
    for more in (("--skip-outside",), ("--skip-outside", "--skip-missing")):
        line = refused(*asked, *more)
        assert "rows of a listed user would be left out; --normalize zeros reads both as one" in line
    assert answer(*asked, "--normalize", "zeros")["density"] == pytest.approx(1, abs=0.05)
    assert answer(*asked, "--normalize", "all", "--skip-outside")["density"] == pytest.approx(1, abs=0.05)


@pytest.mark.slow
def test_normalize_is_for_a_list_and_says_what_it_takes(tmp_path: Path) -> None:
    users, visits = files(tmp_path)
    asked = ("density", visits, "-c", "user", "-e", 20)
    assert "--normalize is for listed users" in refused(*asked, "--universe", USERS, "--normalize", "zeros")
    line = refused(*asked, "--universe-file", f"{users}:id", "--normalize", "lower")
    assert "normalize takes strip, nfc, case, zeros, all or none, got 'lower'" in line
