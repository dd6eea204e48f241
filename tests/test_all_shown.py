"""Every release, series, curve, window, plan and group of every estimator has frames, plain data and a picture.

Estimators come from the registry: a new one is walked by being there.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import panprivacy as pp
from panprivacy import registry
from panprivacy.client import ServedRelease
from panprivacy.display import Tabular
from panprivacy.errors import PanPrivacyError
from panprivacy.estimates.release import AnyRelease
from panprivacy.registry import example, options_of
from panprivacy.serve.records import record_of
from panprivacy.testing import SeededCoins, refused

USERS, RELEASES = 2_000, 3
GROUPS = ["north" if i % 2 else "south" for i in range(USERS)]
DIVIDED: dict[str, dict[str, Any]] = {
    "all": {},
    "groups": {"groups": GROUPS},
    "numbered groups": {"groups": [1 + i % 2 for i in range(USERS)]},
    "categories": {"categories": ["flu", "cold"]},
}
WALKS = [
    pytest.param(kind, divided, id=f"{kind.__name__}-{name}")
    for kind in registry.estimators()
    for name, divided in DIVIDED.items()
    if set(divided) <= options_of(kind)
]


def feed(est: Any, users: int, divided: dict[str, Any], **when: Any) -> None:
    ids = np.arange(users)
    est.update_many(ids, *([["flu"] * users] if "categories" in divided else []), **when)


def released(est: Any, divided: dict[str, Any]) -> list[Any]:
    found = []
    for step in range(1, RELEASES + 1):
        feed(est, 200 * step, divided)
        found.append(est.next_release())
    return found


def windows(kind: Any, divided: dict[str, Any]) -> Any:
    weeks = pp.Windows(
        lambda: example(kind, USERS, 8.0, coins=SeededCoins(1), **divided), every="7d", start="2026-01-05"
    )
    feed(weeks, 100, divided, time="2026-01-06")
    weeks.advance("2026-01-20")
    return weeks


def of_folder(kind: Any, divided: dict[str, Any], path: Path) -> Any:
    made = pp.StateFolder.holding(example(kind, USERS, 8.0, coins=SeededCoins(1), **divided), path, shards=2)
    feed(made, 100, divided)
    return made.release()


def shown_by(kind: Any, divided: dict[str, Any], path: Path) -> Iterator[tuple[str, Any]]:
    """Everything of an estimator that people look at."""
    est = example(kind, USERS, 8.0, coins=SeededCoins(1), releases=RELEASES, **divided)
    releases = released(est, divided)
    yield from ((f"release {i}", each) for i, each in enumerate(releases))
    yield from ((f"group {row.group}", row) for row in releases[-1].groups)
    if isinstance(est, Tabular):
        yield "series", est
    if hasattr(est, "smoothed"):
        yield "smoothed", est.smoothed()
    if isinstance(releases[0], pp.Release | pp.CountRelease) and not isinstance(est, pp.Retention):
        yield "curve", pp.monotone(releases)
    if not kind.TRAITS.own_periods and hasattr(est, "release"):
        weeks = windows(kind, divided)
        yield "windows", weeks
        yield "window", weeks.closed[0]
    if kind.TRAITS.in_folder and not divided:
        yield "of a folder", of_folder(kind, divided, path / "folder")
    if kind.TRAITS.word is not None:
        yield from (
            (f"served {i}", ServedRelease(record_of(i, each, "2026-01-05T00:00:00+00:00", None)))
            for i, each in enumerate(releases)
        )


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "divided"), WALKS)
def test_everything_that_is_shown_has_frames_plain_data_and_a_picture(
    kind: Any, divided: dict[str, Any], tmp_path: Path
) -> None:
    walked = 0
    for what, shown in shown_by(kind, divided, tmp_path):
        walked += 1
        json.dumps(shown.to_dict(), allow_nan=False)
        frame = shown.to_polars()
        assert frame.height > 0, what
        assert frame.columns == shown.to_pandas().columns.to_list(), what
        assert len(shown.to_pandas()) == frame.height, what
        if "groups" in divided and not what.startswith("group"):
            assert frame["group"].null_count() > 0, what  # the total is a row
        picture = tmp_path / "picture.svg"
        picture.unlink(missing_ok=True)
        panel = shown.plot(picture)
        assert panel.get_title(loc="left") or panel.figure.get_suptitle() or panel.figure.legends, what
        assert picture.stat().st_size > 0, what
    assert walked >= RELEASES


@pytest.mark.parametrize(("kind", "divided"), WALKS)
def test_a_release_comes_back_from_its_plain_data(kind: Any, divided: dict[str, Any]) -> None:
    """As a client of the service does it: the frame of what came as JSON is the frame of the release."""
    est = example(kind, USERS, 8.0, coins=SeededCoins(1), releases=RELEASES, **divided)
    for each in released(est, divided):
        assert isinstance(each, AnyRelease)
        plain = json.loads(json.dumps(each.to_dict()))
        again = type(each).from_dict(plain)
        assert json.loads(json.dumps(again.to_dict())) == plain
        told, frame = again.to_polars(), each.to_polars()
        assert told.columns == frame.columns
        times = [
            name for name in frame.columns if frame[name].dtype == pl.Datetime
        ]  # their zones have lost their names
        assert told.drop(times).equals(frame.drop(times))
        if kind.TRAITS.word is not None:
            served = ServedRelease(record_of(1, each, "2026-01-05T00:00:00+00:00", None))
            assert served.to_polars().columns == frame.columns


PLANS: dict[str, Callable[[], Any]] = {
    "density": lambda: pp.plan(universe=1000, epsilon=1.0),
    "distinct": lambda: pp.plan(epsilon=1.0, count=10_000),
    "counts": lambda: pp.plan(universe=1000, epsilon=1.0, up_to=3),
    "groups": lambda: pp.plan(epsilon=1.0, groups={"north": 4000, "south": 2000}),
    "mixed groups": lambda: pp.plan(epsilon=1.0, groups={1: 4000, "south": 2000}),
    "categories": lambda: pp.plan(universe=10_000, epsilon=1.0, categories=["flu", "cold"]),
    "actives": lambda: pp.plan_periods("ActiveUsers", universe=10_000, epsilon=1.0, span="7d"),
    "retention": lambda: pp.plan_periods("Retention", universe=10_000, epsilon=1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANS)
def test_a_plan_has_frames_plain_data_and_a_picture(name: str, tmp_path: Path) -> None:
    plan = PLANS[name]()
    json.dumps(plan.to_dict(), allow_nan=False)
    assert plan.to_polars().height == max(len(plan.groups), 1)
    assert plan.to_pandas().columns.to_list() == plan.to_polars().columns
    plan.plot(tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").stat().st_size > 0


def test_before_anything_is_released_a_sentence_says_so() -> None:
    actives = pp.ActiveUsers(700, 4.0, span="7d", start="2026-01-05", coins=SeededCoins(1))
    weeks = pp.Windows(lambda: pp.Density(500, 1.0, coins=SeededCoins(1)), every="7d", start="2026-01-05")
    for nothing in (actives, actives.smoothed(), pp.Retention(500, 1.0, coins=SeededCoins(1)), weeks):
        for verb in ("to_polars", "to_pandas", "plot"):
            with pytest.raises(PanPrivacyError):
                getattr(nothing, verb)()


@pytest.mark.parametrize("kind", [kind for kind in registry.estimators() if kind.TRAITS.own_periods])
def test_an_estimator_with_periods_of_its_own_is_not_put_into_windows(kind: Any) -> None:
    """It was refused only when a window ended, after its events had been counted."""
    with refused("not-for-windows"):
        pp.Windows(lambda: example(kind, USERS, 8.0, coins=SeededCoins(1)), every="7d", start="2026-01-05")
