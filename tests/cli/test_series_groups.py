"""A series by group or category prints and draws each of them; a series of noise says that it is one."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from weekly import BUDGET, FROM, USERS, WEEKLY, WEEKS, visits

import panprivacy as pp
from altered import altered
from commands import run
from panprivacy.cli import published
from panprivacy.cli.output import Output
from panprivacy.cli.published import draw_rows
from panprivacy.periods import DAY

SERIES = (*WEEKLY, "--releases", WEEKS, *FROM)
BY = ("--by", "clinic", "--categories", "north,south")
ENDED = "until the events end, in the period to 2026-02-02"


@pytest.fixture
def clinics(tmp_path: Path) -> Path:
    """Even users come to the north, odd ones to the south."""
    path = tmp_path / "visits.csv"
    visits().with_columns(
        clinic=pl.when(pl.col("user") % 2 == 0).then(pl.lit("north")).otherwise(pl.lit("south"))
    ).write_csv(path)
    listed = pl.DataFrame({"id": range(USERS), "region": [["coast", "hills"][user % 2] for user in range(USERS)]})
    listed.write_csv(tmp_path / "patients.csv")
    return path


def grouped(clinics: Path) -> tuple[Any, ...]:
    listed = f"{clinics.with_name('patients.csv')}:id"
    return ("density", clinics, "-c", "user", "--universe-file", listed, "--group", "region", "-e", 12, *SERIES)


@pytest.mark.slow
def test_every_category_is_printed_in_every_period(clinics: Path) -> None:
    lines = run("density", clinics, *BUDGET, *BY, *SERIES).stdout.splitlines()
    heads = [line.split(": ")[:2] for line in lines[: 3 * WEEKS]]
    assert [head[0] for head in heads[:3]] == ["until 2026-01-12"] * 3
    assert [head[1] for head in heads[1:3]] == ["north", "south"]
    assert [head[0] for head in heads[-3:]] == [ENDED] * 3
    assert "density 0.5" in lines[3 * WEEKS - 1], "half of the users have been to the south"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["group", "category"])
def test_every_group_has_a_curve(clinics: Path, kind: str) -> None:
    command = grouped(clinics) if kind == "group" else ("density", clinics, *BUDGET, *BY, *SERIES)
    curves = [line for line in map(json.loads, run(*command, "--json").stdout.splitlines()) if "monotone" in line]
    names = ["coast", "hills", None] if kind == "group" else ["north", "south"]
    assert [curve.get("group") for curve in curves] == names
    assert [len(curve["monotone"]) for curve in curves] == [WEEKS] * len(names)
    lines = run(*command).stdout
    assert f"{names[0]}: monotone curve through {WEEKS} releases" in lines


@pytest.mark.slow
def test_curves_of_groups_never_fall_though_releases_do(capsys: pytest.CaptureFixture[str]) -> None:
    est = pp.Density(USERS, 1.0, releases=30, categories=["north", "south"])
    rows = [published.Dated(published.UNTIL, day * DAY, est.release()) for day in range(1, 31)]
    published.Published(Output(as_json=True, quiet=False), rows=rows).close(est)
    for line in capsys.readouterr().out.splitlines():
        points = json.loads(line)["monotone"]
        released, fitted = ([point[name] for point in points] for name in ("density", "monotone_density"))
        assert released != sorted(released), "with 30 releases of noise that is as good as certain"
        assert fitted == sorted(fitted)


@pytest.mark.slow
def test_a_group_may_be_called_anything(clinics: Path) -> None:
    listed = clinics.with_name("patients.csv")
    listed.write_text(listed.read_text().replace("coast", "all"))
    curves = [
        line for line in map(json.loads, run(*grouped(clinics), "--json").stdout.splitlines()) if "monotone" in line
    ]
    most = [max(point["count"] for point in curve["monotone"]) for curve in curves]
    assert [curve.get("group") for curve in curves] == ["all", "hills", None]
    assert most[2] > 1.5 * most[0]


def test_people_see_the_curves_of_some_of_many_groups(capsys: pytest.CaptureFixture[str]) -> None:
    est = pp.Density(USERS, 20.0, releases=2, categories=[f"c{number}" for number in range(25)])
    rows = [published.Dated(published.UNTIL, day * DAY, est.release()) for day in (1, 2)]
    published.Published(Output(as_json=False, quiet=False), rows=rows).close(est)
    said = capsys.readouterr()
    assert said.out.count("monotone curve") == 20
    assert "5 more groups, whose curves --json prints" in said.err


@pytest.mark.slow
def test_every_group_is_printed_beside_the_total(clinics: Path) -> None:
    lines = run(*grouped(clinics)).stdout.splitlines()
    assert lines[0].startswith("until 2026-01-12: density 0.")
    assert [line.split(": ")[1] for line in lines[1:3]] == ["coast", "hills"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["group", "category"])
def test_every_group_has_a_panel(clinics: Path, kind: str) -> None:
    picture = clinics.with_suffix(".svg")
    command = grouped(clinics) if kind == "group" else ("density", clinics, *BUDGET, *BY, *SERIES)
    result = run(*command, "--plot", picture)
    assert result.exit_code == 0, result.output
    drawn = picture.read_text()
    names = ["all users", "coast", "hills"] if kind == "group" else ["north", "south"]
    assert all(f"<!-- {name} -->" in drawn for name in names)
    assert ("% of a group" in drawn) == (kind == "group")


@pytest.mark.slow
def test_of_more_groups_than_panels_the_first_are_drawn_and_the_others_are_counted(clinics: Path) -> None:
    many = ("--by", "clinic", "--categories", "north,south,a,b,c,d,e,f,g")
    assert run("density", clinics, *BUDGET, *many, *SERIES, "--plot", clinics.with_suffix(".svg")).exit_code == 0
    assert "1 group not shown here" in clinics.with_suffix(".svg").read_text(encoding="utf-8")


def test_a_terminal_shows_the_first_groups_and_how_many_more_there_are() -> None:
    est = pp.Density(USERS, 2.0, groups=[f"[red]{user % 25}" for user in range(USERS)])
    rows = published.Dated(published.UNTIL, DAY, est.release()).cells()
    assert [row["group"] for row in rows[-2:]] == ["... and 5 more", "all users"]
    assert rows[0]["group"] == "[red]0"
    assert len({tuple(row) for row in rows}) == 1, "rows of one table have the same columns"


def test_a_release_by_category_names_some_of_them_in_its_line() -> None:
    est = pp.Density(USERS, 2.0, categories=[f"c{number}" for number in range(20)])
    line = str(est.release())
    assert "categories 20, standard errors" in line
    assert ": c0 0." in line
    assert line.endswith("and 12 more")


@pytest.mark.slow
def test_noise_is_announced_before_it_is_spent_and_pointed_out_after(clinics: Path) -> None:
    asked = ("distinct", clinics, "-c", "user", "-e", 0.1, "--buckets", 256, *SERIES)
    before, after, *_ = run(*asked).stderr.splitlines()
    assert before.startswith("panprivacy: releases will be mostly noise: each has a standard error of about ")
    assert "what helps: more --epsilon, fewer --releases, more than 256 --buckets" in before
    many = run(*asked, "--releases", 40).stderr
    assert "what helps: more --epsilon, fewer --releases, " in many
    assert after.endswith("of 4 releases are mostly noise; panprivacy plan finds an epsilon and a size that do better")
    assert run(*asked, "--quiet").stderr == ""


@pytest.mark.slow
def test_a_series_that_is_not_noise_is_not_called_so(clinics: Path) -> None:
    assert "mostly noise" not in run("density", clinics, *BUDGET, *SERIES).stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("counts", "-n", USERS, "--up-to", 8),
        ("counts", "-n", USERS, "--only", "mean"),
        ("actives", "-n", USERS, "--time", "when", "--start", "2026-01-05", "--span", "7d"),
        ("distinct", "--buckets", 64),
    ],
)
def test_noise_of_every_kind_of_release_is_announced_and_pointed_out(clinics: Path, command: tuple[Any, ...]) -> None:
    name, *options = command
    told = run(name, clinics, "-c", "user", "-e", 0.001, *options).stderr
    assert "releases will be mostly noise" in told
    assert "mostly noise; panprivacy plan finds" in told


@pytest.mark.slow
def test_wild_counts_do_not_rule_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.axes import Axes

    tops: list[float] = []
    limit: Any = Axes.set_ylim

    def noted(panel: Any, *ends: Any, **named: Any) -> Any:
        if len(ends) == 2:
            tops.append(ends[1])
        return limit(panel, *ends, **named)

    monkeypatch.setattr(Axes, "set_ylim", noted)
    est = pp.DistinctCount(1.0, releases=40)
    one = est.release()
    counts = [1000.0 + 10 * place for place in range(40)]
    counts[20] = 3e13
    made = [
        altered(one, count={"value": each, "raw": each, "interval": (0.9 * each, 1.1 * each)}, number=number)
        for number, each in enumerate(counts, 1)
    ]
    rows = [published.Dated(published.UNTIL, number * DAY, each, over=True) for number, each in enumerate(made, 1)]
    draw_rows(rows, {None: pp.monotone(made)}, str(tmp_path / "a.svg"), est)
    assert tops[-1] < 10_000
    assert "above the picture: 1 release, and the ends of 1 interval" in (tmp_path / "a.svg").read_text()


@pytest.mark.slow
def test_the_picture_names_the_delta(clinics: Path) -> None:
    picture = clinics.with_suffix(".svg")
    run("density", clinics, *BUDGET, "--delta", 1e-9, *SERIES, "--releases", 40, "--plot", picture)
    assert "4 releases, epsilon 12, delta 1e-09 in all" in picture.read_text()


@pytest.mark.slow
def test_bars_are_called_by_their_column(clinics: Path) -> None:
    picture = clinics.with_suffix(".svg")
    assert run("density", clinics, *BUDGET, *BY, "--plot", picture).exit_code == 0
    assert "Who has appeared, by clinic" in picture.read_text()


@pytest.mark.slow
def test_json_says_whether_a_period_is_over(clinics: Path) -> None:
    lines = run("density", clinics, *BUDGET, *BY, *SERIES, "--json").stdout.splitlines()
    periods = [line for line in map(json.loads, lines) if "monotone" not in line]
    assert [period["period_over"] for period in periods] == [True, True, True, False]
