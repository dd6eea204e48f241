"""Between a broker and a counter: nothing is acknowledged before it is on disk, and what is refused is told apart."""

import time
from concurrent.futures import Future
from functools import partial

import pytest
from fakes import USERS, FakeBroker, FakeCounter, pumped, wait_until

from panprivacy.brokers import Block
from panprivacy.brokers.consumer import BrokerConsumer
from panprivacy.ingest.batch import ProblemType, Refused
from panprivacy.ingest.bodies import Body

ROWS = [b'{"user": %d}' % user for user in range(95)]
EVERYBODY = dict.fromkeys(range(95), "insert")


def test_all_messages_are_counted_and_acknowledged() -> None:
    broker, counter = FakeBroker(ROWS), FakeCounter()
    assert pumped(broker, counter) == []
    assert counter.on_disk == EVERYBODY
    assert broker.acknowledged == 95


def test_what_the_disk_does_not_take_is_handed_over_again() -> None:
    broker, counter = FakeBroker(ROWS), FakeCounter(full_disks=7)
    assert pumped(broker, counter) == []
    assert counter.on_disk == EVERYBODY


def test_nothing_is_acknowledged_that_is_not_on_disk() -> None:
    broker, counter = FakeBroker(ROWS), FakeCounter(full_disks=10**9)
    pump = BrokerConsumer(broker, USERS, batch=10)
    pump.start(counter.take)
    wait_until(lambda: counter.bodies >= 20)
    pump.close()  # in the middle of it, and at once
    assert broker.acknowledged == len(counter.on_disk) == 10
    pumped(broker.again(), after := FakeCounter())
    assert counter.on_disk | after.on_disk == EVERYBODY


def test_a_pump_that_acknowledged_too_early_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: a batch is acknowledged when it is handed over."""
    monkeypatch.setattr(BrokerConsumer, "_read", _reading_eagerly)
    monkeypatch.setattr(BrokerConsumer, "_acknowledge", lambda _pump, _messages: None)
    with pytest.raises(AssertionError):
        test_nothing_is_acknowledged_that_is_not_on_disk()


_READ = BrokerConsumer._read


def _reading_eagerly(pump: BrokerConsumer) -> None:
    _READ(pump)
    if pump._in_flight and pump._in_flight[-1][0].receipt > pump._broker.acknowledged:  # type: ignore[attr-defined]
        pump._broker.acknowledge(pump._in_flight[-1][0])


def test_a_broker_that_does_not_answer_is_asked_again_and_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panprivacy.brokers.consumer._PAUSE", 0.001)
    broker, counter = FakeBroker(ROWS), FakeCounter()
    broker.unreachable = 5
    assert pumped(broker, counter) == ["unreachable: nobody answers", "reached: it answers again"]
    assert counter.on_disk == EVERYBODY


def test_a_bad_message_stops_the_pump_and_is_named_by_its_place_alone() -> None:
    broker, counter = FakeBroker([*ROWS[:42], b'{"user": "secret"', *ROWS[42:]]), FakeCounter()
    (payload_kind,) = pumped(broker, counter)
    assert payload_kind.startswith("stopped: message 42: ")
    assert "secret" not in payload_kind
    assert broker.acknowledged == 40
    assert set(range(42)) <= set(counter.on_disk)


def test_bad_messages_are_passed_over_if_that_is_wanted() -> None:
    bad = [b"{", b'{"user": 1000}', b'{"user": "x"}']
    broker = FakeBroker([*ROWS[:42], *bad[:2], *ROWS[42:], b"nonsense"])
    counter = FakeCounter(outside=1000)
    payload_kind = pumped(broker, counter, skip_bad=True)
    assert counter.on_disk == EVERYBODY
    assert [each.partition(" The")[0] for each in payload_kind] == ["skipped: message 42:", "skipped: message 97:"]
    assert payload_kind[0].endswith(", and 1 more")


def test_messages_of_which_none_can_be_counted_stop_the_pump_even_so() -> None:
    broker, counter = FakeBroker([b"{}" for _ in range(500)]), FakeCounter(outside=0)
    counter._counted = _refuse  # type: ignore[method-assign, assignment]
    (payload_kind,) = pumped(broker, counter, batch=200, skip_bad=True)
    assert payload_kind.startswith("stopped: none of the first 100 messages can be counted; the first is message 0: ")
    assert broker.acknowledged == 0


def _refuse(_lines: list[bytes]) -> int:
    raise Refused(ProblemType.missing)


ACTIONS = [b'{"user": %d, "action": "%s"}' % (user, action) for action in (b"insert", b"delete") for user in range(30)]


def test_a_deletion_stays_after_its_insertion_when_batches_are_counted_again() -> None:
    """The batches of insertions are refused at first, when those of deletions are counted already."""
    broker, counter = FakeBroker([b'{"user": 99}', *ACTIONS]), FakeCounter(full_disks=1, lag=0.03)
    pumped(broker, counter, batch=21)
    assert counter.on_disk == {99: "insert"} | dict.fromkeys(range(30), "delete")


def test_counting_again_only_what_was_refused_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: what was handed over later is not counted again, and the insertions come last."""
    count_again = BrokerConsumer._count_again

    def hasty(pump: BrokerConsumer) -> None:
        rest = [pump._in_flight.pop() for _ in range(len(pump._in_flight) - 1)]
        count_again(pump)
        pump._in_flight.extend(reversed(rest))

    monkeypatch.setattr(BrokerConsumer, "_count_again", hasty)
    with pytest.raises(AssertionError):
        test_a_deletion_stays_after_its_insertion_when_batches_are_counted_again()


def test_finding_a_bad_message_takes_few_bodies() -> None:
    broker, counter = FakeBroker([*ROWS * 10, b"{", *ROWS * 10]), FakeCounter()
    pumped(broker, counter, batch=2000, skip_bad=True)
    assert broker.acknowledged == 1901
    assert counter.bodies <= 2 * 12 + 2


@pytest.mark.parametrize("full_disks", [0, 7])
def test_what_is_acknowledged_is_wiped(full_disks: int) -> None:
    broker = FakeBroker(ROWS)
    pumped(broker, FakeCounter(full_disks=full_disks))
    assert broker.given_out
    assert not any(block.octets.any() or block.starts.any() for block in broker.given_out)


def test_what_is_left_when_the_pump_stops_is_wiped() -> None:
    broker = FakeBroker([*ROWS[:42], b'{"user": "secret"', *ROWS[42:]])
    pumped(broker, FakeCounter(lag=0.01))
    assert not any(block.octets.any() or block.starts.any() for block in broker.given_out)


def test_a_pump_that_wipes_nothing_would_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug."""
    monkeypatch.setattr(Block, "wipe", lambda _block: None)
    with pytest.raises(AssertionError):
        test_what_is_acknowledged_is_wiped(0)
    with pytest.raises(AssertionError):
        test_what_is_left_when_the_pump_stops_is_wiped()


@pytest.mark.slow
def test_a_slow_counter_is_handed_many_small_batches_and_few_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _most_at_once(6) >= 6
    monkeypatch.setattr("panprivacy.brokers.consumer._MOST", 250)  # bytes, of two batches
    assert _most_at_once(2) == 2


def _most_at_once(awaited: int) -> int:
    """How many batches of 10 rows, some 130 bytes, are with a counter that answers a while after so many have come."""
    counter, waiting, most = FakeCounter(), list[tuple[Future[int], int]](), 0

    def take(body: Body) -> "Future[int]":
        nonlocal most
        waiting.append((Future(), counter.take(body).result()))
        most = max(most, len(waiting))
        return waiting[-1][0]

    def has_come(many: int) -> bool:
        return len(waiting) >= many

    broker = FakeBroker(ROWS)
    pump = BrokerConsumer(broker, USERS, batch=10)
    pump.start(take)
    for left in range(-(-len(ROWS) // 10), 0, -1):
        wait_until(partial(has_come, min(awaited, left)))
        time.sleep(0.02)
        answered, rows = waiting.pop(0)
        answered.set_result(rows)
    wait_until(lambda: broker.acknowledged == len(ROWS))
    pump.close()
    return most


@pytest.mark.slow
def test_a_broker_that_answers_again_is_told_even_if_it_has_no_messages() -> None:
    broker, counter = FakeBroker([]), FakeCounter()
    said: list[str] = []
    consumer = BrokerConsumer(broker, USERS, batch=10, tell=lambda word, _cause: said.append(word))
    broker.unreachable = 1
    consumer.start(counter.take)
    wait_until(lambda: said == ["unreachable", "reached"])
    consumer.close()
    assert said == ["unreachable", "reached"]
    assert consumer.trouble is None


def test_how_many_messages_wait_is_told_in_powers_of_ten_and_not_while_nobody_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("panprivacy.brokers.consumer._LOOK", 0.0)
    broker = FakeBroker(ROWS)
    pump = BrokerConsumer(broker, USERS, batch=10)
    pump.trouble = None
    told: list[int | None] = []
    for waiting in (0, 999, 1000, 54_321, None):
        monkeypatch.setattr(broker, "waiting", lambda waiting=waiting: waiting)
        pump._look()
        told.append(pump.lag)
    assert told == [0, 0, 1000, 10_000, None]
    pump.lag = 1000
    pump._note_trouble("nobody answers")
    pump._look()
    assert pump.lag is None
