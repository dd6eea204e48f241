"""`panprivacy demo`, `reproduce`, `bench` and `compile`: simulated events, the figures of the paper, and speed."""

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import Annotated, Any

from cyclopts import validators

from panprivacy.cli.options import OTHERS, option, option_group
from panprivacy.errors import InvalidValue

_PATIENTS = 1_000_000
_BATCH = 100_000


def demo(
    *,
    epsilon: Annotated[float, option("Total privacy budget; 1 is usual, less is safer.")] = 1.0,
    visits: Annotated[int, option("Number of visits to simulate.")] = 5_000_000,
    memory: Annotated[str, option("Most memory for the state.")] = "64 KiB",
) -> None:
    """Count simulated clinic visits, and compare the answer with the truth.

    Example: [bold]panprivacy demo --epsilon 0.5 --memory "16 KiB"[/bold]
    """
    import numpy as np
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Table

    from panprivacy.estimators.density import Density

    console = Console()
    if visits < 0:
        raise InvalidValue(f"visits must not be negative, got {visits}", code="visits-range")
    est = Density(universe=_PATIENTS, epsilon=epsilon, memory=memory)
    # The visits are simulated and need no secrecy; the estimator's own coins come from the operating system.
    generator = np.random.default_rng()
    seen = np.zeros(_PATIENTS, dtype=np.bool_)  # the truth, which only a demo may keep
    console.print(f"{_PATIENTS:,} patients could visit; {est.users:,} of them own one bit each.")
    bar = (TextColumn("visits"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*bar, console=console) as progress:
        task = progress.add_task("visits", total=visits)
        for start in range(0, visits, _BATCH):
            # A few patients come often and many never: a high power of a uniform number crowds at zero.
            patients = (generator.random(min(_BATCH, visits - start)) ** 6 * _PATIENTS).astype(np.int64)
            est.update_many(patients)
            seen[patients] = True
            progress.advance(task, len(patients))
    release, truth = est.release(), int(seen.sum())
    table = Table("", "share who came", "patients")
    table.add_row(
        "private estimate ± standard error",
        f"{release.density:.4f} ± {release.density_stderr:.4f}",
        f"{release.count:,.0f} ± {release.count_stderr:,.0f}",
    )
    shares, counts = "{:.4f} to {:.4f}", "{:,.0f} to {:,.0f}".format(*release.count_interval)
    table.add_row(f"{release.level:.0%} interval", shares.format(*release.density_interval), counts)
    table.add_row("truth, which only the demo knows", f"{truth / _PATIENTS:.4f}", f"{truth:,}")
    console.print(table)
    console.print(
        f"An intruder who reads the {est.memory:,} bytes of state at any one moment, and this release, learns at most "
        f"epsilon = {release.epsilon_spent:.3g} about any one patient."
    )


def compile() -> None:
    """Compile the kernels in advance, so that the first run need not.

    Example: [bold]panprivacy compile[/bold]

    Run it after the installation, or while an image is built. Numba keeps what it compiles beside the package, or in
    the folder that NUMBA_CACHE_DIR names, for this processor.
    """
    from panprivacy.kernels import ALWAYS, READERS, SOME, load_kernels
    from panprivacy.privacy.kernels import load_gaussian

    began = time.perf_counter()
    load_kernels((*ALWAYS, *SOME, *READERS))
    load_gaussian()
    print(f"compiled, or found compiled, in {time.perf_counter() - began:.1f} s")


@dataclass
class Contestant:
    """An estimator or a sketch that counts the different users in a file: its best time, and its last answer."""

    name: str
    private: str
    run: Callable[[str], tuple[float, int | None]]
    """How many users there are in a file, and the bytes of its state, if it shows them."""
    seconds: float = inf
    users: float = 0.0
    state: int | None = None


def bench(
    *,
    events: Annotated[int, option("Number of events in the file.")] = 10_000_000,
    users: Annotated[int, option("Number of possible users.")] = 1_000_000,
    epsilon: Annotated[float, option("Privacy budget of the private estimators.")] = 1.0,
    rounds: Annotated[int, option("Number of timed runs of each contestant; the best counts.")] = 3,
) -> None:
    """Time panprivacy beside sketches that are not private, on a Parquet file that it makes.

    Example: [bold]panprivacy bench --events 50000000[/bold]

    DuckDB and DataSketches take part where they are installed: pip install '.\\[bench]'
    """
    import numpy as np
    import polars as pl
    from rich.console import Console
    from rich.progress import track

    if min(events, users, rounds) < 1:
        raise InvalidValue("events, users and rounds are at least 1", code="bench-range")
    # Simulated events need no secrecy; the estimators' own coins come from the operating system.
    ids = pl.Series("user", np.random.default_rng().integers(0, max(3 * users // 5, 1), events))
    contestants = _contestants(users, epsilon)
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "events.parquet")
        ids.to_frame().write_parquet(file)
        for contestant in contestants[:-1]:  # compile and warm up; the last one is slow and compiles nothing
            contestant.run(file)
        # The rounds are interleaved, so that a slow spell of the machine hits all alike.
        turns = [contestant for _ in range(rounds) for contestant in contestants]
        for contestant in track(turns, description="timing", transient=True, console=Console(stderr=True)):
            start = time.perf_counter()
            contestant.users, contestant.state = contestant.run(file)
            contestant.seconds = min(contestant.seconds, time.perf_counter() - start)
    _print(contestants, events, ids.n_unique())


def _contestants(users: int, epsilon: float) -> list[Contestant]:
    from panprivacy.estimators.density import Density
    from panprivacy.estimators.distinct import DistinctCount

    promise = f"yes, epsilon {epsilon:g}"
    entered = [
        Contestant("Density", promise, lambda file: _fed(Density(users, epsilon), file)),
        Contestant("DistinctCount", promise, lambda file: _fed(DistinctCount(epsilon), file)),
        Contestant("Polars", "no", _polars),
    ]
    if find_spec("duckdb"):
        entered.append(Contestant("DuckDB", "no", _duckdb))
    if find_spec("datasketches"):
        entered.append(Contestant("DataSketches HLL", "no", _datasketches))
    return entered


def _fed(est: Any, file: str) -> tuple[float, int | None]:
    from panprivacy.ingest import Columns, Kind, read
    from panprivacy.ingest.feed import BatchFeeder

    columns = Columns(("user",), Kind.integers)
    feed = BatchFeeder(est, columns)
    for batch in read([file], columns):
        feed.take(batch)
    return est.release().count, len(est.to_bytes())


def _polars(file: str) -> tuple[float, int | None]:
    import polars as pl

    return pl.scan_parquet(file).select(pl.col("user").approx_n_unique()).collect().item(), None


def _duckdb(file: str) -> tuple[float, int | None]:
    import duckdb
    import polars as pl

    with duckdb.connect(config={"threads": pl.thread_pool_size()}) as database:
        row = database.execute("select approx_count_distinct(user) from read_parquet(?)", [file]).fetchone()
    assert row is not None
    return row[0], None


def _datasketches(file: str) -> tuple[float, int | None]:
    import polars as pl
    from datasketches import hll_sketch

    sketch = hll_sketch(12)
    for batch in pl.scan_parquet(file).collect_batches():
        for user in batch["user"].to_list():  # its Python interface takes one value at a time
            sketch.update(user)
    return sketch.get_estimate(), len(sketch.serialize_compact())


def _print(contestants: list[Contestant], events: int, truth: int) -> None:
    import polars as pl
    from rich.console import Console
    from rich.table import Table

    from panprivacy.display import counted, format_bytes

    who = f"{counted(events, 'event')} of {counted(truth, 'user')}"
    title = f"{who}, Parquet to answer, {counted(pl.thread_pool_size(), 'thread')}"
    table = Table("", "ns an event", "state", "relative error", "private", title=title)
    for each in contestants:
        state = format_bytes(each.state) if each.state is not None else "not shown"
        error = abs(each.users - truth) / truth
        table.add_row(each.name, f"{each.seconds / events * 1e9:.1f}", state, f"{error:.2%}", each.private)
    Console().print(table)


@option_group
class ReproduceOptions:
    """Which figures are drawn, how thoroughly, and where."""

    figure: Annotated[
        list[int] | None,
        option(
            "Draw only this figure, 1 to 10; repeatable.", "N", alias="-f", validator=validators.Number(gte=1, lte=10)
        ),
    ] = None
    quick: Annotated[bool, option("Few repetitions of each experiment: takes less than a minute.")] = False
    out: Annotated[Path, option("Folder for the report, the figures and their data.", "DIR", alias="-o")] = Path(
        "reproduction"
    )
    jobs: Annotated[
        int | None,
        option("Number of processes. Default: one for each core.", alias="-j", validator=validators.Number(gte=1)),
    ] = None
    seed: Annotated[
        int,
        option(
            "Seed of the experiments; the same seed gives the same numbers for any --jobs.",
            validator=validators.Number(gte=0),
        ),
    ] = 1


def reproduce(*, asked: Annotated[ReproduceOptions, OTHERS] = ReproduceOptions()) -> None:
    """Run the experiments of the paper again, and draw its figures; check what its section 6 claims.

    Example: [bold]panprivacy reproduce --quick --figure 6 --figure 8[/bold]

    Writes pictures (PNG, SVG), their data (Parquet, CSV) and report.html.
    Takes less than ten minutes on two cores. After an interruption, the same command continues.
    The exit status is 1 if a claim of the paper about its own experiments does not hold.
    """
    from rich import progress as bars
    from rich.console import Console
    from rich.table import Table

    from panprivacy.estimates.plots import check_installed
    from panprivacy.experiments.cells import FULL, QUICK
    from panprivacy.experiments.claims import Verdict
    from panprivacy.experiments.reproduce import Reproduction, failed

    console = Console()
    numbers = tuple(sorted(set(asked.figure or range(1, 11))))
    task = Reproduction(asked.out, QUICK if asked.quick else FULL, asked.seed, numbers)
    check_installed()
    done = (bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn())
    times = (bars.TimeElapsedColumn(), bars.TextColumn("left"), bars.TimeRemainingColumn())
    try:
        with bars.Progress(*done, *times, console=console) as progress:
            runs = progress.add_task("runs", total=sum(cell.runs for cell in task.cells))
            task.compute(asked.jobs or os.cpu_count() or 1, lambda cell: progress.advance(runs, cell.runs))
            pictures = progress.add_task("figures", total=len(task.studies))
            claims = task.write(lambda _: progress.advance(pictures))
    except KeyboardInterrupt:
        console.print("Interrupted. Finished runs are kept: the same command continues.")
        raise
    colours = {Verdict.HOLDS: "green", Verdict.FAILS: "red", Verdict.OPEN: "yellow"}
    for of, count in Counter(claim.of for claim in claims).items():
        table = Table("claim", "measured", "verdict", title=of, title_justify="left", show_lines=count > 1)
        for claim in claims:
            if claim.of is of:
                table.add_row(claim.said, claim.measured, f"[{colours[claim.verdict]}]{claim.verdict}")
        console.print(table)
    console.print(f"Everything is in [bold]{asked.out / 'report.html'}[/bold].", soft_wrap=True)
    if failed(claims):
        raise SystemExit(1)
