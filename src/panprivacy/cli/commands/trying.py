"""`panprivacy demo`, `compile` and `bench`: simulated events, and the speed of this machine."""

import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from panprivacy.cli.options import option
from panprivacy.errors import InvalidValue

if TYPE_CHECKING:
    from rich.table import Table

    from panprivacy.estimates import Release

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

    from panprivacy.estimators.density import Density

    console = Console()
    if visits < 0:
        raise InvalidValue(f"visits must not be negative, got {visits}", code="visits-range")
    est = Density(universe=_PATIENTS, epsilon=epsilon, memory=memory)
    # The visits are simulated and need no secrecy; the estimator's own coins come from the operating system.
    generator = np.random.default_rng()
    seen = np.zeros(_PATIENTS, dtype=np.bool_)  # the truth, which only a demo may keep
    console.print(f"{_PATIENTS:,} patients could visit; {est.users:,} of them own one bit each.")
    columns = (TextColumn("visits"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("visits", total=visits)
        for start in range(0, visits, _BATCH):
            # A few patients come often and many never: a high power of a uniform number crowds at zero.
            patients = (generator.random(min(_BATCH, visits - start)) ** 6 * _PATIENTS).astype(np.int64)
            est.update_many(patients)
            seen[patients] = True
            progress.advance(task, len(patients))
    release = est.release()
    console.print(_compared(release, int(seen.sum())))
    console.print(
        f"An intruder who reads the {est.memory:,} bytes of state at any one moment, and this release, learns at most "
        f"epsilon = {release.epsilon_spent:.3g} about any one patient."
    )


def _compared(release: "Release", truth: int) -> "Table":
    """The release beside the truth."""
    from rich.table import Table

    share, count = (release.density, release.density_stderr), (release.count, release.count_stderr)
    table = Table("", "share who came", "patients")
    table.add_row(
        "private estimate ± standard error", "{:.4f} ± {:.4f}".format(*share), "{:,.0f} ± {:,.0f}".format(*count)
    )
    table.add_row(
        f"{release.level:.0%} interval",
        "{:.4f} to {:.4f}".format(*release.density_interval),
        "{:,.0f} to {:,.0f}".format(*release.count_interval),
    )
    table.add_row("truth, which only the demo knows", f"{truth / _PATIENTS:.4f}", f"{truth:,}")
    return table


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


class Answer(NamedTuple):
    """How many users a contestant counted, and the bytes of its state, if it shows them."""

    users: float
    state: int | None


class Contestant(NamedTuple):
    """An estimator or a sketch that counts the different users in a file, and whether it is private."""

    name: str
    private: str
    run: Callable[[str], Answer]


class Result(NamedTuple):
    """The best time of a contestant, and its last answer."""

    contestant: Contestant
    seconds: float
    answer: Answer


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
    with tempfile.TemporaryDirectory() as folder:
        if min(events, users, rounds) < 1:
            raise InvalidValue("events, users and rounds are at least 1", code="bench-range")
        file = str(Path(folder) / "events.parquet")
        truth = _write_events(file, events, users)
        results = _race(_contestants(users, epsilon), file, rounds)
        _print(results, events, truth)


def _write_events(file: str, events: int, users: int) -> int:
    """Write a file of events, in which three fifths of the users may appear, and return how many users do."""
    import numpy as np
    import polars as pl

    # Simulated events need no secrecy; the estimators' own coins come from the operating system.
    ids = pl.Series("user", np.random.default_rng().integers(0, max(3 * users // 5, 1), events))
    ids.to_frame().write_parquet(file)
    return ids.n_unique()


def _contestants(users: int, epsilon: float) -> list[Contestant]:
    from panprivacy.estimators.density import Density
    from panprivacy.estimators.distinct import DistinctCount

    def density(file: str) -> Answer:
        return _fed(Density(users, epsilon), file)

    def distinct(file: str) -> Answer:
        return _fed(DistinctCount(epsilon), file)

    promise = f"yes, epsilon {epsilon:g}"
    entered = [
        Contestant("Density", promise, density),
        Contestant("DistinctCount", promise, distinct),
        Contestant("Polars", "no", _polars),
    ]
    if find_spec("duckdb"):
        entered.append(Contestant("DuckDB", "no", _duckdb))
    if find_spec("datasketches"):
        entered.append(Contestant("DataSketches HLL", "no", _datasketches))
    return entered


def _fed(est: Any, file: str) -> Answer:
    from panprivacy.ingest import Columns, Kind, read
    from panprivacy.ingest.feed import BatchFeeder

    columns = Columns(("user",), Kind.integers)
    feed = BatchFeeder(est, columns)
    for batch in read([file], columns):
        feed.take(batch)
    return Answer(est.release().count, len(est.to_bytes()))


def _polars(file: str) -> Answer:
    import polars as pl

    return Answer(pl.scan_parquet(file).select(pl.col("user").approx_n_unique()).collect().item(), None)


def _duckdb(file: str) -> Answer:
    import duckdb
    import polars as pl

    with duckdb.connect(config={"threads": pl.thread_pool_size()}) as database:
        row = database.execute("select approx_count_distinct(user) from read_parquet(?)", [file]).fetchone()
    assert row is not None
    return Answer(row[0], None)


def _datasketches(file: str) -> Answer:
    import polars as pl
    from datasketches import hll_sketch

    sketch = hll_sketch(12)
    for batch in pl.scan_parquet(file).collect_batches():
        for user in batch["user"].to_list():  # its Python interface takes one value at a time
            sketch.update(user)
    return Answer(sketch.get_estimate(), len(sketch.serialize_compact()))


def _race(contestants: list[Contestant], file: str, rounds: int) -> list[Result]:
    """Time everybody; the rounds are interleaved, so that a slow spell of the machine hits all alike."""
    from rich.console import Console
    from rich.progress import track

    for contestant in contestants[:-1]:  # compile and warm up; the last one is slow and compiles nothing
        contestant.run(file)
    best: dict[str, Result] = {}
    turns = [contestant for _ in range(rounds) for contestant in contestants]
    for contestant in track(turns, description="timing", transient=True, console=Console(stderr=True)):
        start = time.perf_counter()
        answer = contestant.run(file)
        seconds = time.perf_counter() - start
        if contestant.name in best:
            seconds = min(seconds, best[contestant.name].seconds)
        best[contestant.name] = Result(contestant, seconds, answer)
    return list(best.values())


def _print(results: list[Result], events: int, truth: int) -> None:
    import polars as pl
    from rich.console import Console
    from rich.table import Table

    from panprivacy.units import counted, format_bytes

    who = f"{counted(events, 'event')} of {counted(truth, 'user')}"
    title = f"{who}, Parquet to answer, {counted(pl.thread_pool_size(), 'thread')}"
    table = Table("", "ns an event", "state", "relative error", "private", title=title)
    for result in results:
        state = format_bytes(result.answer.state) if result.answer.state is not None else "not shown"
        error = abs(result.answer.users - truth) / truth
        nanoseconds = f"{result.seconds / events * 1e9:.1f}"
        table.add_row(result.contestant.name, nanoseconds, state, f"{error:.2%}", result.contestant.private)
    Console().print(table)
