"""The errors of `Retention` and `ActiveUsers` against their own formulas, and the pictures of their pages.

python benchmarks/answers_periods.py                                       # the table
python benchmarks/answers_periods.py --retention docs/img/retention.png    # a curve of who came back
python benchmarks/answers_periods.py --actives docs/img/actives.png        # a quarter of daily, weekly, monthly
"""

import argparse
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import panprivacy as pp
from panprivacy.estimates.plots import BLACK, BLUE, GREEN, GREY, ORANGE, look, save
from panprivacy.testing import SeededCoins

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


class Row(NamedTuple):
    """One answer: what its formula says, what many runs gave, and how many 95 % intervals held the truth."""

    what: str
    designed: float
    measured: float
    coverage: float


def rows() -> Iterator[Row]:
    """All answers about periods."""
    yield from retention_rows(users=200_000, runs=1000)
    yield actives_row(users=1_000_000, days=7, runs=150)
    yield actives_row(users=1_000_000, days=28, runs=40)


def retention_rows(users: int, runs: int) -> Iterator[Row]:
    """A cohort of 0.3, of whom half come back, and as many new ones."""
    truth = {"cohort": 0.3, "returned": 0.15, "rate": 0.5}
    first, second = np.arange(round(0.3 * users)), np.arange(round(0.15 * users), round(0.45 * users))
    said = []
    for seed in range(runs):
        est = pp.Retention(users, 1.0, coins=SeededCoins(10_000 + seed))
        est.update_many(first)
        est.close()
        est.update_many(second)
        said.append(est.release())
    designed = {
        "cohort": float(np.mean([r.cohort_stderr for r in said])),
        "returned": est.stderr_at(0.15, touched=0.45 - 0.15),
        "rate": float(np.mean([r.rate_stderr for r in said])),
    }
    for name, true in truth.items():
        errors = np.array([getattr(r, name) - true for r in said])
        bounds = [getattr(r, f"{name}_interval") for r in said]
        held = float(np.mean([low <= true <= high for low, high in bounds]))
        yield Row(f"Retention, {users:,} users: {name} {true}", designed[name], _root_mean_square(errors), held)


def actives_row(users: int, days: int, runs: int) -> Row:
    """The last 1 to L days, at the end of the first day of the second cycle; a tenth of the users comes every day."""
    random = np.random.default_rng(days)
    came = [np.flatnonzero(random.random(users) < 0.1) for _ in range(days + 1)]
    truth = _active_in_the_last(came, users, days)
    errors, held, stderrs = [], [], []
    for seed in range(runs):
        est = pp.ActiveUsers(users, 1.0, span=f"{days}d", start=MONDAY, coins=SeededCoins(seed))
        for ids in came:
            est.update_many(ids)
            released = est.release()
        errors.append(np.array(released.raw_active) - truth)
        stderrs.append(released.active_stderr)
        held += [low <= true <= high for true, (low, high) in zip(truth, released.active_interval, strict=True)]
    designed = _root_mean_square(np.array(stderrs))
    what = f"ActiveUsers, {users:,} users: the last 1 to {days} days"
    return Row(what, designed, _root_mean_square(np.array(errors)), float(np.mean(held)))


def _active_in_the_last(came: list[NDArray[np.int64]], users: int, days: int) -> NDArray[np.float64]:
    """The true shares that were active in the last 1, 2, ... days."""
    seen = np.zeros(users, dtype=np.bool_)
    shares = []
    for ids in came[: -days - 1 : -1]:
        seen[ids] = True
        shares.append(seen.mean())
    return np.array(shares)


def _root_mean_square(errors: NDArray[np.float64]) -> float:
    return float(np.sqrt(np.mean(errors**2)))


# --- pictures -------------------------------------------------------------------------------------------------------


def draw_retention(path: str) -> None:
    """Four weeks, after a week in which 60,000 of 200,000 users came: who of them was there again by each day."""
    users, days = 200_000, 28
    random = np.random.default_rng(5)
    habit = random.gamma(0.5, 0.12, users)  # appearances a day
    cohort = np.flatnonzero(random.random(users) < 1 - np.exp(-7 * habit))
    back = np.zeros(users, dtype=np.bool_)
    truth = []
    est = pp.Retention(users, 1.0, releases=days, coins=SeededCoins(5))
    est.update_many(cohort)
    est.close()
    for _ in range(days):
        today = np.flatnonzero(random.random(users) < 1 - np.exp(-habit))
        back[np.intersect1d(today, cohort)] = True
        truth.append(back.mean())
        est.update_many(today)
        released = est.release()
    with look():
        figure = Figure(figsize=(8, 4.4), layout="constrained")
        panel = figure.subplots()
        day = np.arange(1, days + 1)
        bars = 2 * np.array(released.curve_stderr)
        low, high = released.cohort_interval
        panel.axhspan(low, high, color=GREY, alpha=0.3, linewidth=0, label="cohort of the first week, 95 % interval")
        panel.errorbar(
            day, released.raw_curve, bars, fmt="o", color=BLUE, capsize=2, label="released ± 2 standard errors"
        )
        panel.plot(day, released.smoothed_curve, color=BLUE, label="smoothed: never falls")
        panel.plot(day, truth, color=BLACK, linestyle=":", label="truth")
        panel.set_title(f"Who came back by day k: {users:,} users, epsilon 1 for all {days} releases")
        panel.set_xlabel("day of the second period")
        panel.set_ylabel("share of all users")
        panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        panel.set_ylim(bottom=0)
        panel.legend(loc="lower right")
        save(figure, path)


def draw_actives(path: str) -> None:
    """A quarter of a year of a million users who have habits, and fewer of them at weekends."""
    users, days = 1_000_000, 90
    random = np.random.default_rng(6)
    habit = random.gamma(0.4, 0.35, users)
    came: list[NDArray[np.int64]] = []
    est = pp.ActiveUsers(users, 1.0, start=MONDAY, coins=SeededCoins(6))
    truth: dict[int, list[float]] = {1: [], 7: [], 28: []}
    for day in range(days):
        rate = habit * (0.55 if day % 7 > 4 else 1.0) * (1 + day / 120)
        came.append(np.flatnonzero(random.random(users) < 1 - np.exp(-rate)))
        est.update_many(came[-1])
        est.release()
        shares = _active_in_the_last(came, users, 28)
        for k, series in truth.items():
            series.append(shares[k - 1] if len(shares) >= k else np.nan)
    with look():
        figure = Figure(figsize=(8, 4.8), layout="constrained")
        panel = figure.subplots()
        until = [MONDAY + timedelta(days=day + 1) for day in range(days)]
        smoothed = est.smoothed().releases
        for k, colour, name in ((28, BLUE, "monthly (28 days)"), (7, ORANGE, "weekly"), (1, GREEN, "daily")):
            known = [(end, r) for end, r in zip(until, smoothed, strict=True) if len(r.active) >= k]
            ends = [end for end, _ in known]
            low, high = zip(*(r.smoothed_interval[k - 1] for _, r in known), strict=True)
            panel.fill_between(ends, low, high, color=colour, alpha=0.2, linewidth=0)  # type: ignore[arg-type]
            released = [r.active[k - 1] for _, r in known]
            panel.plot(ends, released, ".", color=colour, markersize=3, alpha=0.6)  # type: ignore[arg-type]
            panel.plot(ends, [r.smoothed[k - 1] for _, r in known], color=colour, label=name)  # type: ignore[arg-type]
            panel.plot(until, truth[k], color=BLACK, linestyle=":", linewidth=1)  # type: ignore[arg-type]
        panel.plot([], [], color=BLACK, linestyle=":", linewidth=1, label="truth")
        panel.set_title(f"Active users of {users:,}: released (dots) and smoothed, epsilon 1 in a cycle of 28 days")
        panel.set_xlabel("until (UTC)")
        panel.set_ylabel("share of all users")
        panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        panel.set_ylim(bottom=0)
        panel.legend(loc="upper left", ncols=2)
        figure.autofmt_xdate(rotation=30, ha="right")
        save(figure, path)


def main() -> None:
    """Print the table, or draw a picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--retention", metavar="FILE", help="draw a curve of who came back")
    parser.add_argument("--actives", metavar="FILE", help="draw daily, weekly and monthly actives")
    asked = parser.parse_args()
    if asked.retention:
        draw_retention(asked.retention)
    if asked.actives:
        draw_actives(asked.actives)
    if asked.retention or asked.actives:
        return
    table = Table("answer", "standard error by its formula", "measured", "95 % intervals that held the truth")
    for row in rows():
        table.add_row(row.what, f"{row.designed:.5f}", f"{row.measured:.5f}", f"{100 * row.coverage:.1f} %")
    Console().print(table)


if __name__ == "__main__":
    main()
