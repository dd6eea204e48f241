"""`panprivacy bench`: this machine's own numbers, from a file to an answer."""

import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from cyclopts import Parameter

from panprivacy.errors import InvalidValue


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
    events: Annotated[int, Parameter(help="How many events the file has.")] = 10_000_000,
    users: Annotated[int, Parameter(help="How many users there could be.")] = 1_000_000,
    epsilon: Annotated[float, Parameter(help="Privacy budget of the estimators that are private.")] = 1.0,
    rounds: Annotated[int, Parameter(help="How often each contestant is timed; its best time counts.")] = 3,
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
