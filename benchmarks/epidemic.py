"""A year of an epidemic, watched privately: the numbers and the figure of docs/explanation/continual.md.

    python benchmarks/epidemic.py                                  # the numbers
    python benchmarks/epidemic.py --figure docs/img/epidemic.png   # and the figure
    python benchmarks/epidemic.py --events visits.parquet          # only the visits, as a file

A million people, of whom some fall ill, see a clinic up to four times, recover, and become susceptible again. Every
visit is an event. The epidemic and the coins are seeded, so that each run prints the same.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import cos, exp, log, pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import panprivacy as pp
from panprivacy.estimates import Release
from panprivacy.estimates.plots import BLUE, COLOURS, GREEN, GREY, look, save
from panprivacy.estimators.continual import Continual, Observation
from panprivacy.estimators.windows import Windows
from panprivacy.privacy.noise import Gaussian
from panprivacy.testing import SeededCoins

PEOPLE, WEEKS, HOURS = 1_000_000, 52, 24
DAYS = 7 * WEEKS
EPSILON, DELTA, MEMORY, STEP = 1.0, 1e-9, "16 KiB", 0.05
START = "2026-01-05"
_TRAVEL = 5e-5  # chance to bring it home from elsewhere, each day

_CLOSER = (24, 28)  # the weeks that are drawn once more
_DRAWN = 6  # of the hourly releases every sixth is drawn: all of them would be a cloud


@dataclass(frozen=True)
class Hour:
    """The visits of one hour, and what only a simulation may know after it."""

    number: int
    visitors: NDArray[np.int64]
    ever: float
    """Share of people who have been to a clinic so far."""
    this_week: float
    """Share of people who have been to one since the week began."""


def epidemic(seed: int = 2026) -> Iterator[Hour]:
    """Simulate the year: infections spread by the day, visits fall into hours."""
    generator = np.random.default_rng(seed)
    susceptible = np.ones(PEOPLE, dtype=np.bool_)
    ill = np.zeros(PEOPLE, dtype=np.bool_)
    ill[generator.choice(PEOPLE, 3000, replace=False)] = True
    ever, week = np.zeros(PEOPLE, dtype=np.bool_), np.zeros(PEOPLE, dtype=np.bool_)
    for day in range(DAYS):
        if day % 7 == 0:
            week[:] = False
        spread = 0.2 + 0.07 * cos(2 * pi * (day + 30) / 365)  # more in winter
        catch = 1 - exp(-spread * ill.sum() / PEOPLE)
        fresh = np.flatnonzero(susceptible)
        fresh = fresh[generator.random(len(fresh)) < catch + _TRAVEL]
        susceptible[fresh] = False
        ill[fresh] = True
        patients = np.flatnonzero(ill)
        visits = generator.permutation(np.concatenate([fresh, patients[generator.random(len(patients)) < 0.3]]))
        for hour, visitors in enumerate(np.array_split(visits, HOURS)):
            ever[visitors] = week[visitors] = True
            yield Hour(day * HOURS + hour, visitors, float(ever.mean()), float(week.mean()))
        recovered = patients[generator.random(len(patients)) < 1 / 7]
        ill[recovered] = False
        immune = np.flatnonzero(~susceptible & ~ill)
        susceptible[immune[generator.random(len(immune)) < 1 / 100]] = True


@dataclass
class Year:
    """Everything that was released, beside the truth."""

    ever: list[float]
    this_week: list[float]
    weekly: list[Release]
    hourly: list[Release]
    gaussian: list[Release]
    watched: list[Observation]
    windows: Windows[Release]
    watch: Continual


def watch_the_year() -> Year:
    """Feed all estimators the same visits."""
    coins = SeededCoins(7)
    weekly = pp.Density(PEOPLE, EPSILON, memory=MEMORY, releases=WEEKS, coins=coins)
    hourly = pp.Density(PEOPLE, EPSILON, releases=DAYS * HOURS, coins=coins)
    gaussian = pp.Density(PEOPLE, EPSILON, releases=DAYS * HOURS, delta=DELTA, coins=coins)
    watch = Continual(PEOPLE, EPSILON, step=STEP, observations=DAYS * HOURS, coins=coins)
    windows = Windows(lambda: pp.Density(PEOPLE, EPSILON, memory=MEMORY, coins=coins), every="7d", start=START)
    year = Year([], [], [], [], [], [], windows, watch)
    for hour in epidemic():
        for est in (weekly, hourly, gaussian, watch):
            est.update_many(hour.visitors)
        windows.update_many(hour.visitors, time=time_of(hour.number))
        year.ever.append(hour.ever)
        year.watched.append(watch.observe())
        year.hourly.append(hourly.release())
        year.gaussian.append(gaussian.release())
        if (hour.number + 1) % (7 * HOURS) == 0:
            year.weekly.append(weekly.release())
            year.this_week.append(hour.this_week)
    windows.advance(time_of(DAYS * HOURS))
    return year


def time_of(hour: int) -> str:
    """The moment after so many hours."""
    return (datetime.fromisoformat(START) + timedelta(hours=hour)).isoformat()


def show(year: Year, console: Console) -> None:
    """Print what the documentation says."""
    at_weeks = year.ever[7 * HOURS - 1 :: 7 * HOURS]
    windows = [window.release for window in year.windows.closed]
    table = Table("what", "releases", "95 % intervals that hold the truth", "largest error", "stated")
    for name, releases, truth in (
        ("ever ill, every week", year.weekly, at_weeks),
        ("ever ill, every hour, Laplace", year.hourly, year.ever),
        (f"ever ill, every hour, delta {DELTA:g}", year.gaussian, year.ever),
        ("ill this week, windows", windows, year.this_week),
    ):
        held = np.mean(
            [r.density_interval[0] <= d <= r.density_interval[1] for r, d in zip(releases, truth, strict=True)]
        )
        error = np.max([abs(r.density - d) for r, d in zip(releases, truth, strict=True)])
        stated = f"± {np.mean([r.density_stderr for r in releases]):.4f} standard error"
        table.add_row(name, f"{len(releases):,}", f"{held:.1%}", f"{error:.4f}", stated)
    errors = [abs(seen.density - d) for seen, d in zip(year.watched, year.ever, strict=True)]
    moves = sum(seen.moved for seen in year.watched)
    inside = np.mean(
        [s.density_band[0] <= d <= s.density_band[1] for s, d in zip(year.watched, year.ever, strict=True)]
    )
    alpha = f"at most {year.watch.accuracy().alpha:.4f}"
    table.add_row("ever ill, every hour, Continual", f"{moves} moves", f"{inside:.1%}", f"{max(errors):.4f}", alpha)
    console.print(table)
    console.print(f"Continual: {year.watch.accuracy()}", highlight=False)
    console.print(
        f"Windows: a patient seen in one week loses {year.windows.loss():.3f}, in four {year.windows.loss(4):.3f}; "
        f"if the state is read once in the year, {year.windows.loss(4, readings=1):.3f}",
        highlight=False,
    )


def compare(console: Console) -> None:
    """Which is better for how many looks: planned releases or an observer? Bounds that hold for all looks at once."""
    planned = "planned releases", f"planned, delta {DELTA:g}"
    table = Table("looks", *planned, *(f"Continual, step {step}" for step in (0.1, 0.05, 0.02)))
    for looks in (52, 365, 1000, 3000, 8736, 50_000):
        cells = [f"{planned_alpha(looks, delta):.3f}" for delta in (None, DELTA)]
        for step in (0.1, 0.05, 0.02):
            alpha = Continual(PEOPLE, EPSILON, step=step, observations=looks, coins=SeededCoins(1)).accuracy().alpha
            cells.append(f"{alpha:.3f}")
        table.add_row(f"{looks:,}", *cells)
    console.print(f"Error that no look exceeds, with probability 0.95 ({PEOPLE:,} users, epsilon {EPSILON:g}):")
    console.print(table)


def compare_moves(console: Console) -> None:
    """What a delta brings to an observer of a stream with deletions, by the number of moves it plans for."""
    table = Table("moves", "alpha without a delta", f"with delta {DELTA:g}", "used")
    for moves in (20, 50, 100, 365, 1000):
        plan: Any = {"step": 0.02, "moves": moves, "observations": DAYS * HOURS, "coins": SeededCoins(1)}
        pure, with_delta = (Continual(10 * PEOPLE, EPSILON, delta=delta, **plan) for delta in (None, DELTA))
        alphas = (f"{each.accuracy().alpha:.4f}" for each in (pure, with_delta))
        table.add_row(f"{moves:,}", *alphas, "yes" if with_delta.delta else "no")
    console.print(f"Continual with deletions, {10 * PEOPLE:,} users, {DAYS * HOURS:,} looks, step 0.02:")
    console.print(table)


def planned_alpha(looks: int, delta: float | None, beta: float = 0.05) -> float:
    """What no planned release errs by, but for a probability of beta: the noise, and the coins of the bits."""
    split = pp.Density(PEOPLE, EPSILON, releases=looks, delta=delta, coins=SeededCoins(1))._ledger.split
    pair, tail = split.pair, log(4 * looks / beta)
    if isinstance(split.noise, Gaussian):
        noise = sqrt(2 * split.noise.variance * tail)
    else:
        each = float(split.noise.epsilon)
        noise = (tail - log(1 + exp(-each))) / each
    bits = sqrt(PEOPLE * pair.gap / pair.loss * tail)
    return min((noise + bits) / (PEOPLE * pair.gap), 1.0)


# --- the figure -----------------------------------------------------------------------------------------------------


def draw(year: Year, path: Path) -> None:
    """Three panels: weekly releases, hourly observations, weekly windows."""
    figure = Figure(figsize=(8, 9.5), layout="constrained")
    panels = figure.subplots(3, 1, sharex=True)
    weeks = np.arange(1, WEEKS + 1)
    hours = np.arange(1, DAYS * HOURS + 1) / (7 * HOURS)
    _truth(panels[0], hours, year.ever)
    _released(panels[0], weeks, year.weekly)
    panels[0].set_title(f"Ever been to a clinic: 52 planned releases, {MEMORY} of state, epsilon {EPSILON:g} in all")
    _hourly(panels[1], hours, year)
    panels[1].set_title(
        f"Ever been to a clinic: looked at every hour, {DAYS * HOURS:,} times, epsilon {EPSILON:g} in all"
    )
    _truth(panels[2], weeks, year.this_week)
    _released(panels[2], weeks, [window.release for window in year.windows.closed])
    panels[2].set_title(f"Been to a clinic this week: a new {MEMORY} window each week, epsilon {EPSILON:g} a window")
    panels[2].set_xlabel("week of the year")
    for panel in panels:
        panel.set_ylabel("share of a million people")
        panel.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
        panel.set_xlim(0, WEEKS + 0.5)
        panel.set_ylim(bottom=0)
    panels[0].legend(loc="lower right")
    # Dots are too small for a legend, and some lie behind it.
    panels[1].legend(loc="upper left", markerscale=5, frameon=True, framealpha=0.85, edgecolor="none")
    panels[2].legend(loc="upper center")
    save(figure, path)


def _truth(panel: Axes, at: NDArray[Any], truth: list[float], *, on_top: bool = False) -> None:
    order = 3 if on_top else 1
    panel.plot(at, truth, color=GREEN, linewidth=1.2, label="truth, which only a simulation knows", zorder=order)


def _released(panel: Axes, at: NDArray[Any], releases: list[Release]) -> None:
    middle = np.array([r.density for r in releases])
    ends = np.array([r.density_interval for r in releases]).T
    panel.errorbar(
        at,
        middle,
        yerr=np.abs(ends - middle),
        fmt="o",
        color=COLOURS["Density"],
        markersize=3,
        elinewidth=1,
        capsize=2,
        label="released, with 95 % interval",
        zorder=2,
    )


def _hourly(panel: Axes, hours: NDArray[np.float64], year: Year) -> None:
    _truth(panel, hours, year.ever, on_top=True)
    _dots(panel, hours, year.gaussian, BLUE, f"planned, Gaussian noise, delta {DELTA:g} (every {_DRAWN}th drawn)")
    published = [seen.density for seen in year.watched]
    panel.step(hours, published, color=COLOURS["Continual"], where="post", linewidth=1.2, label="Continual, published")
    low, high = np.array([seen.density_band for seen in year.watched]).T
    band: Any = {"color": COLOURS["Continual"], "alpha": 0.15, "linewidth": 0, "zorder": 1}
    panel.fill_between(hours, low, high, label="Continual: 95 % band for all hours", **band)
    _dots(panel, hours, year.hourly, GREY, f"planned, Laplace noise (every {_DRAWN}th drawn)", zorder=1)
    panel.set_ylim(0, 1)
    _closer(panel, hours, year)


def _closer(panel: Axes, hours: NDArray[np.float64], year: Year) -> None:
    """Some weeks of the hourly panel with all Gaussian releases, which lie too close to the truth to be told apart."""
    inset = panel.inset_axes((0.55, 0.08, 0.43, 0.2))
    weeks = slice(7 * HOURS * _CLOSER[0], 7 * HOURS * _CLOSER[1])
    shown = [release.density for release in year.gaussian[weeks]]
    inset.plot(hours[weeks], shown, ".", color=BLUE, markersize=2, alpha=0.6)
    inset.plot(hours[weeks], year.ever[weeks], color=GREEN, linewidth=1.2)
    inset.set_title(
        f"closer: every Gaussian release of weeks {_CLOSER[0]} to {_CLOSER[1]}",
        fontsize=8,
        backgroundcolor="#ffffffd0",
        pad=3,
    )
    inset.set_xticks(range(_CLOSER[0], _CLOSER[1] + 1))
    inset.tick_params(labelsize=7)
    inset.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")


def _dots(
    panel: Axes, hours: NDArray[np.float64], releases: list[Release], colour: str, label: str, *, zorder: float = 2
) -> None:
    drawn = [release.density for release in releases[::_DRAWN]]
    style: Any = {"color": colour, "markersize": 2, "alpha": 0.6, "zorder": zorder}
    panel.plot(hours[::_DRAWN], drawn, ".", label=label, **style)


def write_events(path: Path) -> None:
    """Write all visits as a file of patients and times."""
    hours = [
        pl.DataFrame({"patient": hour.visitors}).with_columns(visited=datetime.fromisoformat(time_of(hour.number)))
        for hour in epidemic()
    ]
    pl.concat(hours).write_parquet(path)


def main() -> None:
    """Print the numbers, and draw the figure if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", type=Path, help="draw the figure into this file")
    parser.add_argument("--events", type=Path, help="only write the visits into this Parquet file")
    asked = parser.parse_args()
    if asked.events:
        write_events(asked.events)
        return
    console = Console(width=140)
    with console.status("a year passes"):
        year = watch_the_year()
    show(year, console)
    compare(console)
    compare_moves(console)
    if asked.figure:
        with look():
            draw(year, asked.figure)


if __name__ == "__main__":
    main()
