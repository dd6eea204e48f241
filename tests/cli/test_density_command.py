"""`panprivacy density`: files in, a private answer out."""

import json
import os
import resource
import stat
from pathlib import Path

import polars as pl
import pytest
from shown import words

import panprivacy as pp
from commands import answer, refused, run

EXACT = 20  # an epsilon at which 1,000 users are answered to within 20, but for one run in more than 10^9


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """Half of 1,000 users, in 2,000 events."""
    pl.DataFrame({"user": [i % 500 for i in range(2000)]}).write_parquet(tmp_path / "visits.parquet")
    return tmp_path / "visits.parquet"


def test_files_in_an_answer_out(visits: Path) -> None:
    found = answer("density", visits, "--column", "user", "--universe", 1000, "--epsilon", EXACT)
    assert found["density"] == pytest.approx(0.5, abs=0.02)
    assert found["secure"] is True
    assert found["epsilon_spent"] <= EXACT
    assert set(found) == {
        *("density", "density_stderr", "density_interval", "raw_density", "level", "universe", "number"),
        *("epsilon_spent", "epsilon_remaining", "delta_spent", "noise_stderr", "secure"),
        *("count", "count_stderr", "count_interval", "raw_count"),
    }, "nothing but the release: no number of events, of rows, of missing ids"


def test_without_json_the_answer_is_one_line(visits: Path) -> None:
    result = run("density", visits, "-c", "user", "-n", 1000, "-e", 9, "--level", 0.9)
    assert result.stderr == ""
    assert result.stdout.startswith("density 0.")
    assert "90% interval" in result.stdout
    assert len(result.stdout.splitlines()) == 1


@pytest.mark.slow
def test_releases_that_nothing_keeps_the_state_for_are_mentioned(visits: Path, tmp_path: Path) -> None:
    command = ("density", visits, "-c", "user", "-n", 1000, "-e", 9, "--releases", 3)
    assert "2 more planned releases, and no --state FILE" in run(*command).stderr
    assert run(*command, "--state", tmp_path / "s.pp", "--release").stderr == ""


def test_an_answer_that_is_mostly_noise_says_so(visits: Path) -> None:
    result = run("density", visits, "-c", "user", "-n", 1000, "-e", 0.001)
    before, after = result.stderr.splitlines()
    assert "releases will be mostly noise: each has a standard error of about " in before
    assert "what helps: more --epsilon; panprivacy plan compares them" in before
    assert "this answer is mostly noise" in after


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "times"), [(11, "59,874"), (100, "e^100")])
def test_an_epsilon_that_hardly_protects_is_put_in_words(visits: Path, epsilon: float, times: str) -> None:
    command = ("density", visits, "-c", "user", "-n", 1000, "-e")
    (line,) = run(*command, epsilon).stderr.splitlines()
    assert f"epsilon {epsilon} protects hardly anybody" in line
    assert f"appeared by {times};" in line
    assert run(*command, 10).stderr == ""
    assert run(*command, epsilon, "--quiet").stderr == ""


@pytest.mark.slow
def test_an_epsilon_that_is_too_small_is_the_one_that_was_given(visits: Path) -> None:
    for command in (("density", visits, "-n", 1000), ("distinct", visits)):
        message = refused(*command, "-c", "user", "-e", 1e-9)
        assert message == "panprivacy: epsilon = 1e-09 is too small for 1 release and 0 intrusions"


@pytest.mark.slow
def test_feeding_a_state_whose_releases_are_made_says_that_nobody_will_see_it(visits: Path, tmp_path: Path) -> None:
    command = ("density", visits, "-c", "user", "-n", 1000, "-e", 9, "--state", tmp_path / "s.pp")
    assert "never" not in run(*command).stderr
    assert "never" not in run(*command, "--release").stderr
    note = "the only planned release is made: events that are counted from now on will never be released"
    assert run(*command).stderr.splitlines()[0] == f"panprivacy: {note}"


def test_several_files_and_globs_are_counted_together(tmp_path: Path) -> None:
    for i, suffix in enumerate(["a.csv", "b.csv"]):
        pl.DataFrame({"user": range(250 * i, 250 * i + 250)}).write_csv(tmp_path / suffix)
    pl.DataFrame({"user": range(500, 750)}).write_ndjson(tmp_path / "c.ndjson")
    found = answer("density", tmp_path / "*.csv", tmp_path / "c.ndjson", "-c", "user", "-n", 1000, "-e", EXACT)
    assert found["density"] == pytest.approx(0.75, abs=0.02)


@pytest.mark.slow
def test_users_may_be_listed_in_a_file(tmp_path: Path) -> None:
    pl.DataFrame({"tail": [f"N{i}" for i in range(400)], "year": [2000] * 400}).write_csv(tmp_path / "planes.csv")
    pl.DataFrame({"tail": [f"N{i % 100}" for i in range(300)]}).write_parquet(tmp_path / "flights.parquet")
    command = ("density", tmp_path / "flights.parquet", "-c", "tail", "-e", EXACT, "--universe-file")
    assert answer(*command, f"{tmp_path}/planes.csv:tail")["density"] == pytest.approx(0.25, abs=0.03)
    assert "which column holds the ids?" in refused(*command, tmp_path / "planes.csv")
    assert "there is no such file" in refused(*command, tmp_path / "nope.csv")


@pytest.mark.slow
def test_edges_of_a_graph_are_counted_once(tmp_path: Path) -> None:
    edges = [(u, v) for u in range(30) for v in range(30) if u != v and (u + v) % 2]
    pl.DataFrame(edges, schema=["src", "dst"], orient="row").write_csv(tmp_path / "g.csv")
    command = ("density", tmp_path / "g.csv", "--edges", "src,dst", "--nodes", 30, "-e", EXACT)
    assert answer(*command)["count"] == pytest.approx(225, abs=8)
    assert answer(*command, "--directed")["count"] == pytest.approx(450, abs=15)


@pytest.mark.slow
def test_deletions_and_samples(tmp_path: Path) -> None:
    users = list(range(1000))
    frame = pl.DataFrame({"user": users * 2, "do": ["insert"] * 1000 + ["insert", "delete"] * 500})
    frame.write_parquet(tmp_path / "f.parquet")
    command = ("density", tmp_path / "f.parquet", "-c", "user", "-n", 1000, "-e", EXACT, "--action", "do")
    assert answer(*command)["density"] == pytest.approx(0.5, abs=0.02)
    assert answer(*command, "--sample", 500)["density"] == pytest.approx(0.5, abs=0.2)
    assert answer(*command, "--memory", "64 B")["density_stderr"] > 0.01


@pytest.mark.slow
def test_missing_ids_are_skipped_without_a_word(tmp_path: Path) -> None:
    pl.DataFrame({"user": [*range(500), None, None, None], "x": 1}).write_csv(tmp_path / "f.csv")
    command = ("density", tmp_path / "f.csv", "-c", "user", "-n", 1000, "-e", EXACT)
    assert "f.csv: row 501: the id is missing" in refused(*command)
    result = run(*command[:-1], 9, "--skip-missing")
    assert result.stderr == ""
    pl.DataFrame({"user": range(500), "x": 1}).write_csv(tmp_path / "f.csv")
    whole = run(*command[:-1], 9)
    assert words(result.stdout) == words(whole.stdout), "the number of rows that were left out is not told"


# --- state ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_state_goes_on_where_the_last_run_ended(tmp_path: Path) -> None:
    state = tmp_path / "flu.pp"
    for i in range(3):
        pl.DataFrame({"user": range(200 * i, 200 * i + 200)}).write_csv(tmp_path / "day.csv")
        result = run("density", tmp_path / "day.csv", "-c", "user", "-n", 1000, "-e", EXACT, "--state", state)
        assert (result.exit_code, result.stdout) == (0, "")
        assert "saved; 1 of 1 releases left" in result.stderr
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert answer("release", state)["density"] == pytest.approx(0.6, abs=0.02)
    assert pp.load(state.read_bytes()).budget.releases_made == 1
    again = json.loads(run("show", state, "--json").stdout)
    assert again["last"]["density"] == pytest.approx(0.6, abs=0.02)
    assert "the only planned release is made; panprivacy show" in refused("release", state)


@pytest.mark.slow
def test_the_same_command_every_day_and_a_release_when_asked(visits: Path, tmp_path: Path) -> None:
    command = ("density", visits, "-c", "user", "-n", 1000, "-e", EXACT, "--releases", 2, "--state", tmp_path / "s.pp")
    assert run(*command).stdout == ""
    assert answer(*command, "--release")["number"] == 1
    assert answer(*command, "--release")["number"] == 2
    before = (tmp_path / "s.pp").read_bytes()
    assert "all 2 planned releases are made" in refused(*command, "--release")
    assert (tmp_path / "s.pp").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (("-n", 1000, "-e", 2), "epsilon 1.0 in the state, and 2.0 was asked for"),
        (("-n", 2000), "the estimator was built for 1,000 users, not for 2,000 users"),
        (("--releases", 5), "releases 1 in the state, and 5 was asked for"),
        (("--sample", 10), "a table of 10 bits from 0 on was asked for"),
        (("--shard", "1/2"), "a table of 500 bits from 500 on was asked for"),
    ],
)
def test_a_state_that_was_made_for_something_else_is_refused(
    options: tuple[str | int, ...], cause: str, visits: Path, tmp_path: Path
) -> None:
    state = tmp_path / "s.pp"
    run("density", visits, "-c", "user", "-n", 1000, "-e", 1, "-s", state)
    before = state.read_bytes()
    assert cause in refused("density", visits, "-c", "user", "-s", state, *options)
    assert state.read_bytes() == before


@pytest.mark.slow
def test_listed_users_must_be_listed_again(tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text("ada\ngrace\nmary\n")
    (tmp_path / "f.csv").write_text("user\nada\n")
    command = ("density", tmp_path / "f.csv", "-c", "user", "-s", tmp_path / "s.pp")
    assert run(*command, "-e", 1, "--universe-file", tmp_path / "users.txt").exit_code == 0
    assert "give the same --universe-file again" in refused(*command)
    (tmp_path / "users.txt").write_text("ada\ngrace\n")
    assert "the estimator was built with another list of users" in refused(
        *command, "--universe-file", tmp_path / "users.txt"
    )


@pytest.mark.slow
def test_a_bad_row_in_the_first_batch_changes_nothing(tmp_path: Path) -> None:
    state, good, bad = tmp_path / "s.pp", tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("user\n1\n2\n")
    bad.write_text("user\n3\nx\n")
    command = ("-c", "user", "-n", 10, "-e", 1, "-s", state)
    assert f"{bad}: row 2: user 'x'" in refused("density", bad, *command)
    assert not state.exists()
    run("density", good, *command)
    before = state.read_bytes()
    assert "user 'x' is not a whole number of 64 bits; ids that are text need --universe-file" in refused(
        "density", bad, *command
    )
    assert state.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "good.csv", "s.pp"]


@pytest.mark.slow
def test_a_bad_row_later_on_leaves_the_batches_before_it_counted_and_saved(tmp_path: Path) -> None:
    state, good, bad = tmp_path / "s.pp", tmp_path / "good.csv", tmp_path / "bad.csv"
    good.write_text("user\n" + "".join(f"{user}\n" for user in range(600)))
    bad.write_text("user\n700\nx\n")
    line = refused("density", good, bad, "-c", "user", "-n", 1000, "-e", EXACT, "-s", state, "--release")
    assert f"{bad}: row 2: user 'x' is not a whole number of 64 bits" in line
    assert "; the batches before it are counted" in line
    assert f"saved in {state}: mend the row and feed it all again, counting a row twice does no harm" in line
    assert pp.load(state).budget.releases_made == 0
    bad.write_text("user\n700\n")
    found = answer("density", good, bad, "-c", "user", "-s", state, "--release")
    assert found["density"] == pytest.approx(0.601, abs=0.02)
    line = refused("density", good, tmp_path / "b*d.csv", "-c", "usr", "-n", 1000, "-e", 1)
    assert "counted" not in line, "without a state, nothing is kept"


@pytest.mark.slow
def test_a_batch_with_a_bad_row_is_not_counted_in_part(tmp_path: Path) -> None:
    state, file = tmp_path / "s.pp", tmp_path / "f.csv"
    (tmp_path / "a.csv").write_text("user,do\n1,insert\n")
    file.write_text("user,do\n1,delete\n2,insert\n1000,insert\n")
    command = ("-c", "user", "-n", 1000, "-e", EXACT, "--action", "do", "-s", state)
    run("density", tmp_path / "a.csv", *command)
    before = state.read_bytes()
    assert "row 3: user 1000 is outside" in refused("density", file, *command)
    assert state.read_bytes() == before


def test_a_damaged_state_is_named_and_kept(visits: Path, tmp_path: Path) -> None:
    state = tmp_path / "s.pp"
    state.write_bytes(b"panpriv\0 and nothing else")
    assert "s.pp: 25 bytes are too short for a state" in refused("density", visits, "-c", "user", "-s", state)
    assert "s.pp: " in refused("show", state)
    assert state.read_bytes() == b"panpriv\0 and nothing else"


def test_a_full_disk_shows_no_release_and_spends_none(visits: Path, tmp_path: Path) -> None:
    state = tmp_path / "s.pp"
    run("density", visits, "-c", "user", "-n", 100_000, "-e", 1, "-s", state)
    before = state.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        line = refused("release", state)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "s.pp: cannot be written, and is as it was: file too large" in line
    assert state.read_bytes() == before
    assert answer("release", state)["number"] == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_what_may_not_be_read_or_written_is_named(visits: Path, tmp_path: Path) -> None:
    visits.chmod(0)
    assert "visits.parquet: permission denied" in refused("density", visits, "-c", "user", "-n", 1000, "-e", 1)
    visits.chmod(0o600)
    (tmp_path / "closed").mkdir(mode=0o500)
    command = ("density", visits, "-c", "user", "-n", 1000, "-e", 1, "-s", tmp_path / "closed" / "s.pp")
    assert "s.pp: cannot be locked: permission denied" in refused(*command)


def test_a_file_that_may_not_be_read_is_named(visits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_path = Path.open

    def forbidden(path: Path, *arguments: object, **options: object) -> object:
        if path == visits:
            raise PermissionError(13, "Permission denied", str(path))
        return open_path(path, *arguments, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", forbidden)
    assert f"{visits}: permission denied" in refused("density", visits, "-c", "user", "-n", 1000, "-e", 1)


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (("-n", 10, "-e", 1), "which column holds the ids? Say --column NAME"),
        (("-c", "user", "-e", 1), "who could appear? Say --universe N"),
        (("-c", "user", "-n", 10), "how much privacy? Say --epsilon E"),
        (("-c", "user", "-n", 10, "--nodes", 3, "-e", 1), "--universe and --nodes: only one of them"),
        (("--edges", "user", "--nodes", 3, "-e", 1), "a graph needs --edges SRC,DST"),
        (("-c", "user", "--edges", "a,b", "-n", 10, "-e", 1), "--edges is for a graph of --nodes N"),
        (("-c", "user", "-n", 10, "-e", -1), "epsilon must be positive and at most"),
        (("-c", "user", "-n", 0, "-e", 1), "a universe has 1 to 2**44 users"),
        (("-c", "user", "-n", 10, "-e", 1, "--level", 2), "level must be between 0 and 1"),
        (("-c", "user", "-n", 10, "-e", 1, "--memory", "much"), "memory 'much' is not understood"),
        (("-c", "user", "-n", 10, "-e", 1, "--shard", "1"), "shard '1' is not understood"),
        (("-c", "user", "-n", 10, "-e", 1, "--separator", "::"), "a separator is one plain character"),
        (
            ("-c", "user", "-n", 10, "-e", 1, "--release-every", "60s"),
            "--release-every goes by the clock of standard input (-), or by --time COLUMN",
        ),
        (("-c", "user", "-n", 10, "-e", 1), "visits.parquet: row 11: user 10 is outside the universe 0..9"),
        (("-c", "usr", "-n", 10, "-e", 1), "visits.parquet: no column 'usr'; it has 'user'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(options: tuple[str | float, ...], cause: str, visits: Path) -> None:
    assert cause in refused("density", visits, *options)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_nodes_of_a_graph_may_be_listed_in_a_file(suffix: str, tmp_path: Path) -> None:
    nodes, flights, state = tmp_path / "airports.csv", tmp_path / f"f.{suffix}", tmp_path / "f.pp"
    names = [f"airport {i}" for i in range(60)]
    nodes.write_text("iata,city\n" + "".join(f"{name},x\n" for name in names))
    frame = pl.DataFrame({"from": names[:-1], "to": names[1:], "do": ["insert"] * 59})
    (frame.write_csv if suffix == "csv" else frame.write_parquet)(flights)
    graph = ("--edges", "from,to", "--nodes", f"{nodes}:iata", "--action", "do")
    assert run("density", flights, *graph, "-e", 10, "--releases", 2, "-s", state, "--no-release").exit_code == 0
    assert answer("release", state)["density"] == pytest.approx(59 / 1770, abs=0.02)
    assert "give the same --nodes FILE again" in refused("density", flights, "--edges", "from,to", "-s", state)
    pl.DataFrame({"from": ["airport 1"], "to": ["Oz"], "do": ["delete"]}).write_csv(tmp_path / "g.csv")
    assert "edge ('airport 1', 'Oz') joins no two different nodes of the 60 listed" in refused(
        "density", tmp_path / "g.csv", *graph, "-s", state
    )


@pytest.mark.parametrize(
    ("text", "more", "told"),
    [
        ("patient,at\n1,2\n", (), "it has 'patient', 'at'"),
        ("1234,2\n1,2\n", (), "its first row, of 2 fields, is not shown"),
        ("1234,2\n1,2\n", ("--no-header",), "its columns are called 1 to 2"),
        ('{"patient": {"id": 3}, "at": 2}\n', ("--format", "ndjson"), "it has 'patient.id', 'at'"),
    ],
)
def test_who_says_no_column_is_told_which_there_are(
    text: str, more: tuple[str, ...], told: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(text)
    for command in (("density", "-n", 10), ("distinct",)):
        line = refused(*command, "-e", 1, *more, file)
        assert f"which column holds the ids? Say --column NAME; {file}: {told}" in line
        assert "1234" not in line


def test_missing_may_be_given_again(tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    file.write_text("user\n1\nNA\n-\n")
    asked = ("density", file, "-c", "user", "-n", 1000, "-e", 1, "--skip-missing")
    assert "row 3: user '-' is not a whole number" in refused(*asked, "--missing", "NA")
    assert run(*asked, "--missing", "NA", "--missing", "-").exit_code == 0


def test_a_header_in_the_middle_of_a_series_is_called_that(tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    file.write_text("user,when\na,2026-01-05\nuser,when\n")
    series = ("--releases", 2, "--release-every", "7d", "--time", "when")
    assert "row 2: this row repeats the header" in refused("distinct", file, "-c", "user", "-e", 1, *series)


@pytest.mark.parametrize("written", ["100k", "100,000", "1e5"])
@pytest.mark.parametrize("command", [("density", "f.csv", "-c", "user"), ("plan",)], ids=["density", "plan"])
def test_a_number_written_in_another_way_hints_at_how_to_write_it(command: tuple[str, ...], written: str) -> None:
    result = run(*command, "-n", written, "-e", 1)
    assert result.exit_code == 2
    assert "write 100000" in " ".join(result.stderr.replace("│", " ").split())
