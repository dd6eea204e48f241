"""`--by`, `--categories`, `--group` and `--plot` of `density` and `distinct`."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import panprivacy as pp
from commands import answer, refused, run
from panprivacy import testing

USERS = 6000
CLINICS = ["north", "south", "west"]


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """Half of the users at the north clinic, a third of them at the south one too, nobody in the west."""
    north, south = np.arange(0, USERS, 2), np.arange(0, USERS, 3)
    clinics = ["north"] * len(north) + ["south"] * len(south)
    frame = pl.DataFrame({"user": np.concatenate([north, south]), "clinic": clinics})
    frame.write_csv(tmp_path / "visits.csv")
    return tmp_path / "visits.csv"


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    region = np.where(np.arange(USERS) % 2 == 0, "coast", "hills")
    pl.DataFrame({"id": np.arange(USERS), "region": region}).write_csv(tmp_path / "patients.csv")
    return tmp_path / "patients.csv"


BY = ("--by", "clinic", "--categories", "north,south,west")


def test_density_answers_for_each_category(visits: Path) -> None:
    rows = answer("density", visits, "-c", "user", "-n", USERS, "-e", 12, *BY, "--level", "0.999999999")["groups"]

    assert [row["group"] for row in rows] == CLINICS
    for row, truth in zip(rows, (1 / 2, 1 / 3, 0), strict=True):
        assert row["density_interval"][0] <= truth <= row["density_interval"][1]


def test_distinct_answers_for_each_category(visits: Path) -> None:
    rows = answer("distinct", visits, "-c", "user", "-e", 12, *BY, "--level", "0.999999999")["groups"]

    assert [row["group"] for row in rows] == CLINICS
    for row, truth in zip(rows, (3000, 2000, 0), strict=True):
        assert row["count_interval"][0] <= truth <= row["count_interval"][1]


def test_density_answers_for_each_group_and_for_all(visits: Path, patients: Path) -> None:
    listed = ("--universe-file", f"{patients}:id", "--group", "region")
    found = answer("density", visits, "-c", "user", *listed, "-e", 12, "--level", "0.999999999")

    assert [row["group"] for row in found["groups"]] == ["coast", "hills"]
    for row, truth in zip([*found["groups"], found], (1.0, 1 / 3, 2 / 3), strict=True):
        assert row["density_interval"][0] <= truth <= row["density_interval"][1]


def test_each_row_is_a_line_where_nobody_is_looking(visits: Path) -> None:
    lines = run("density", visits, "-c", "user", "-n", USERS, "-e", 1, *BY).stdout.splitlines()

    assert lines[0].startswith("epsilon 1 spent, 0 left; categories 3")
    assert [line.partition(":")[0] for line in lines[1:]] == CLINICS


@pytest.mark.parametrize("command", ["density", "distinct", "counts"])
def test_the_line_of_a_row_names_the_level_of_its_interval(visits: Path, command: str) -> None:
    universe = () if command == "distinct" else ("-n", USERS)
    lines = run(command, visits, "-c", "user", *universe, "-e", 1, *BY, "--level", "0.9").stdout.splitlines()

    assert all(" (standard error), 90% interval " in line for line in lines[1:])


@pytest.mark.slow
@pytest.mark.parametrize("command", ["density", "distinct"])
@pytest.mark.parametrize("ending", ["parquet", "ndjson", "arrow"])
def test_categories_are_read_from_every_format(visits: Path, command: str, ending: str) -> None:
    frame = pl.read_csv(visits).with_columns(pl.col("clinic").cast(pl.Categorical))
    file = visits.with_suffix(f".{ending}")
    if ending == "parquet":
        frame.write_parquet(file)
    elif ending == "ndjson":
        frame.write_ndjson(file)
    else:
        frame.write_ipc(file)
    universe = ("-n", USERS) if command == "density" else ()

    rows = answer(command, file, "-c", "user", *universe, "-e", 12, *BY)["groups"]
    assert rows[0]["count"] > rows[1]["count"] > rows[2]["count"] + 500


@pytest.mark.slow
@pytest.mark.parametrize("command", ["density", "distinct"])
def test_a_state_knows_its_categories(visits: Path, command: str) -> None:
    state = visits.with_suffix(".pp")
    universe = ("-n", USERS) if command == "density" else ()
    assert run(command, visits, "-c", "user", *universe, "-e", 2, *BY, "--state", state).exit_code == 0
    assert run(command, visits, "-c", "user", *universe, "--by", "clinic", "--state", state).exit_code == 0

    again = (command, visits, "-c", "user", *universe, "--state", state)
    assert "say --by NAME" in refused(*again)
    assert "this state has categories north, south, west" in refused(*again, "--by", "clinic", "--categories", "a,b")
    assert "leave --other out" in refused(*again, "--by", "clinic", "--other")
    assert [row["group"] for row in answer("release", state)["groups"]] == CLINICS
    assert [row["group"] for row in json.loads(run("show", state, "--json").stdout)["last"]["groups"]] == CLINICS


@pytest.mark.slow
def test_a_state_with_groups_is_fed_with_the_same_list(visits: Path, patients: Path) -> None:
    state, listed = visits.with_suffix(".pp"), ("--universe-file", f"{patients}:id")
    feed = ("density", visits, "-c", "user", *listed)
    assert run(*feed, "--group", "region", "-e", 2, "--state", state).exit_code == 0
    assert run(*feed, "--group", "region", "--state", state).exit_code == 0

    assert "the estimator was built with another list of users" in refused(*feed, "--state", state)
    assert [row["group"] for row in answer("release", state)["groups"]] == ["coast", "hills"]


def test_categories_are_listed_in_a_file(visits: Path) -> None:
    listed = visits.with_name("clinics.csv")
    pl.DataFrame({"clinic": ["west", "north", "west", "south"], "beds": [1, 2, 1, 4]}).write_csv(listed)

    by = ("--by", "clinic", "--categories", f"{listed}:clinic")
    rows = answer("density", visits, "-c", "user", "-n", USERS, "-e", 2, *by)["groups"]
    assert [row["group"] for row in rows] == ["west", "north", "south"]


@pytest.mark.slow
def test_a_category_that_is_not_listed_names_its_row_or_is_gathered(visits: Path) -> None:
    feed = ("density", visits, "-c", "user", "-n", USERS, "-e", 12, "--by", "clinic", "--categories", "north,west")
    line = refused(*feed)
    assert "visits.csv: row 3001: category 'south' is none of 'north', 'west'; --other gathers such rows" in line

    rows = answer(*feed, "--other")["groups"]
    assert [row["group"] for row in rows] == ["north", "west", "other"]
    assert rows[2]["count"] > 1000


@pytest.mark.slow
def test_a_missing_category_names_its_row_or_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("user,clinic\n1,north\n2,\n")
    feed = ("distinct", tmp_path / "visits.csv", "-c", "user", "-e", 1, *BY)

    assert "row 2: the category is missing; --skip-missing leaves such rows out" in refused(*feed)
    assert run(*feed, "--skip-missing").exit_code == 0


def test_deletions_are_of_one_category(tmp_path: Path) -> None:
    rows = [f"{user},{act},{clinic}" for user in range(900) for act, clinic in (("+", "north"), ("+", "south"))]
    rows += [f"{user},-,south" for user in range(900)]
    (tmp_path / "visits.csv").write_text("\n".join(["user,what,clinic", *rows]))

    options = ("-c", "user", "-n", 900, "-e", 20, "--action", "what")
    found = answer("density", tmp_path / "visits.csv", *options, *BY)["groups"]
    assert found[0]["density"] > 0.8
    assert found[1]["density"] < 0.2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--categories", "a,b"), "Say --by NAME"),
        (("--other",), "Say --by NAME"),
        (("--by", "clinic"), "which categories are there? Say --categories"),
        (("--by", "clinic", "--categories", "a,a"), "category 'a' is listed twice"),
        (("--by", "clinic", "--categories", "a,,b"), "--categories a,,b: one of the names is empty"),
        (("--by", "clinic", "--categories", "a,b,"), "one of the names is empty"),
        (("--by", "nothing", "--categories", "a,b"), "no column 'nothing'"),
        (("--by", "user", "--categories", "a,b"), "one role only"),
        (("--group", "region"), "say --universe-file FILE:COLUMN"),
        ((*BY, "--plot", "groups.doc"), "ends in .png"),
        ((*BY, "--shard", "0/2"), "leave shard out"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(visits: Path, options: tuple[str, ...], words: str) -> None:
    assert words in refused("density", visits, "-c", "user", "-n", USERS, "-e", 1, *options)


def test_a_missing_group_is_called_a_group(visits: Path, patients: Path) -> None:
    patients.write_text("id,region\n0,coast\n1,\n2,hills\n")
    options = ("-c", "user", "--universe-file", f"{patients}:id", "--group", "region", "-e", 1)
    assert "patients.csv: row 2: the group is missing" in refused("density", visits, *options)
    with testing.refused("missing-id", "row 2"):
        pp.Users(patients, "id", groups="region")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["density", "distinct"])
def test_groups_are_drawn(visits: Path, command: str) -> None:
    picture = visits.with_suffix(".png")
    universe = ("-n", USERS) if command == "density" else ()
    assert run(command, visits, "-c", "user", *universe, "-e", 1, *BY, "--plot", picture).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_release_without_groups_is_one_bar(tmp_path: Path) -> None:
    pp.Density(10, 1.0).release().plot(tmp_path / "bar.png")
    assert (tmp_path / "bar.png").read_bytes().startswith(b"\x89PNG")
