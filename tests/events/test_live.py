"""Standard input: whatever has arrived is counted; bells ring between batches."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import ClassVar
from weakref import ref

import polars as pl
import pytest
from event_files import arrow_stream

from panprivacy.ingest import Columns, Format, Kind, Layout, Live, SignalTimer
from panprivacy.ingest.text import Text
from panprivacy.testing import refused

USER = Columns(("user",), Kind.integers)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Two ends of a pipe; the one to write is closed by the test."""
    read, write = os.pipe()
    yield read, write
    os.close(read)


def _ids(live: Live) -> list[list[int]]:
    return [batch.rows["user"].to_list() for batch in live.batches() if batch is not None]


def _live(handle: int, bell: SignalTimer, kind: Format | None = None, layout: Layout | None = None) -> Live:
    return Live(handle, USER, kind, layout, bell)


def test_lines_are_counted_as_they_arrive_and_halves_when_they_are_whole(pipe: tuple[int, int]) -> None:
    read, write = pipe
    with SignalTimer() as bell:
        batches = (batch for batch in _live(read, bell).batches() if batch is not None)
        for data, expected in ((b"user\n1\n2\n3", [1, 2]), (b"4\n", [34]), (b"5\n6", [5])):
            os.write(write, data)
            assert next(batches).rows["user"].to_list() == expected
        os.close(write)
        last = next(batches)
        assert (last.rows["user"].to_list(), last.before) == ([6], 4)
        assert next(batches, None) is None


@pytest.mark.parametrize(
    ("data", "kind", "layout"),
    [
        (b'{"user": 1}\n{"user": 2}\n', None, None),
        (b"user\tx\n1\ta\n2\tb\n", Format.tsv, None),
        (b"1\n2\n", None, Layout(header=False)),
    ],
)
def test_formats_are_guessed_or_told(
    data: bytes, kind: Format | None, layout: Layout | None, pipe: tuple[int, int]
) -> None:
    read, write = pipe
    os.write(write, data)
    os.close(write)
    columns = Columns(("1",), Kind.integers) if layout else USER
    with SignalTimer() as bell:
        batches = [batch for batch in Live(read, columns, kind, layout, bell).batches() if batch is not None]
    assert [batch.rows.to_series().to_list() for batch in batches] == [[1, 2]]


@pytest.mark.parametrize(
    ("data", "named"),
    [
        (b"", ("empty-file",)),
        (b"user\n1\nx\n", ("unreadable", "row 2", "'x'")),
        (b'user,x\n1,"a\n', ("endless-row", "row 1")),
        (b"\x1f\x8b\x08\x00", ("compressed-pipe",)),
    ],
)
def test_what_cannot_be_counted_is_named(data: bytes, named: tuple[str, ...], pipe: tuple[int, int]) -> None:
    read, write = pipe
    os.write(write, data)
    os.close(write)
    with SignalTimer() as bell, refused(*named):
        _ids(_live(read, bell))


def test_parquet_is_refused_before_anybody_waits_for_it(pipe: tuple[int, int]) -> None:
    with SignalTimer() as bell, refused("cannot-be-piped"):
        _live(pipe[0], bell, Format.parquet)
    os.close(pipe[1])


@pytest.mark.parametrize("kind", [None, Format.arrow])
def test_record_batches_of_an_arrow_stream_are_counted_as_they_arrive(
    pipe: tuple[int, int], kind: Format | None
) -> None:
    read, write = pipe
    stream = arrow_stream(pl.DataFrame({"user": [1, 2]}), pl.DataFrame({"user": [3]}))
    with SignalTimer() as bell:
        batches = (batch for batch in _live(read, bell, kind).batches() if batch is not None)
        os.write(write, stream[:-100])  # which is inside the second record batch
        assert next(batches).rows["user"].to_list() == [1, 2]
        os.write(write, stream[-100:])
        os.close(write)
        assert [batch.rows["user"].to_list() for batch in batches] == [[3]]


def test_a_signal_wakes_the_wait_and_rings_once(pipe: tuple[int, int]) -> None:
    read, write = pipe
    with SignalTimer() as bell:
        for _ in range(2):
            timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
            timer.start()
            assert not bell.wait(read)
            timer.join()
        assert [bell.rings() for _ in range(3)] == [True, True, False]
    os.close(write)


def test_what_was_in_the_pipe_before_the_signal_is_counted_before_it_ends(pipe: tuple[int, int]) -> None:
    read, write = pipe
    with SignalTimer() as bell:
        os.write(write, b"user\n1\n2\n")
        os.kill(os.getpid(), signal.SIGTERM)
        assert _ids(_live(read, bell)) == [[1, 2]]
        assert bell.over
    os.close(write)


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGTERM)]
    with SignalTimer():
        assert signal.getsignal(signal.SIGUSR1) != before[0]
    assert [signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGINT, signal.SIGTERM)] == before


def test_periods_that_were_missed_are_not_made_up_for(pipe: tuple[int, int]) -> None:
    read, write = pipe
    with SignalTimer(1000.0) as bell:
        assert not bell.rings()
        bell._next = time.monotonic() - 2500.0
        assert not bell.wait(read)
        assert [bell.rings(), bell.rings()] == [True, False]
        assert 0 < bell._next - time.monotonic() <= 500.0
    os.close(write)


def test_what_ctrl_c_breaks_off_is_done_again_and_ends_the_input() -> None:
    calls = iter([True, False])

    def work() -> str:
        if next(calls):
            raise KeyboardInterrupt
        return "done"

    with SignalTimer() as bell:
        assert bell.undisturbed(lambda: "at once") == "at once"
        assert not bell.over
        assert bell.undisturbed(work) == "done"
        assert bell.over


class _Traced(bytes):
    """Bytes that tell when nobody has them any more."""

    gone: ClassVar[list[int]] = []

    def __del__(self) -> None:
        self.gone.append(len(self))


def test_nothing_is_left_of_what_was_counted_while_more_is_waited_for(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = pipe
    block = Text.block
    monkeypatch.setattr(Text, "block", lambda *arguments, **options: _Traced(block(*arguments, **options)))
    read_bytes = os.read
    monkeypatch.setattr(Live, "_arrived", lambda *_, **__: (False, _Traced(read_bytes(read, 2**16))))
    _Traced.gone.clear()
    with SignalTimer() as bell:
        batches = _live(read, bell).batches()
        os.write(write, b"user\n1\n2\n")
        batch = next(batches)
        assert batch is not None
        counted = ref(batch)
        assert next(batches) is None  # and now it would wait
        del batch
        assert counted() is None
        assert sorted(_Traced.gone) == [4, 9]  # the rows, and the piece with the header that they came in
    os.close(write)


def test_a_wait_ends_when_there_is_something_else_to_do(pipe: tuple[int, int]) -> None:
    read, write = pipe
    with SignalTimer() as bell:
        bell.wake_at = time.monotonic() + 0.05
        assert not bell.wait(read)
        assert time.monotonic() >= bell.wake_at
        assert not bell.rings()
    os.close(write)
