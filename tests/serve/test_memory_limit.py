"""`limits.memory`: hostile clients of all kinds at once, and the process stays below it and serves the others."""

import sys
import threading
import time
from concurrent.futures import Future
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from panprivacy.ingest.batch import Refused
from panprivacy.serve.http.bodies import BodyQuota
from panprivacy.serve.memory import MemoryLimit, ReadingShare, resident
from panprivacy.serve.worker import FairQueue, Job, KeptEstimator, Worker


def test_without_a_limit_nothing_is_refused_and_with_one_that_is_passed_all_is() -> None:
    assert not MemoryLimit(None).is_full
    assert MemoryLimit(resident() // 4).is_full
    assert not MemoryLimit(4 * resident()).is_full


def test_bodies_are_read_at_once_while_they_are_short() -> None:
    share, order = ReadingShare(10), []

    def read(size: int) -> None:
        with share.reading(size):
            order.append(size)

    with share.reading(4):
        read(6)
        waiting = threading.Thread(target=read, args=(100,))
        waiting.start()
        waiting.join(0.1)
        assert order == [6]
    waiting.join(10)
    assert order == [6, 100]


def test_a_short_body_waits_for_no_other_to_be_read() -> None:
    share = ReadingShare(1000)
    with share.reading(1000), share.reading(10):
        pass


def _jobs(number: int) -> list[Job]:
    return [Job(lambda: None, Future()) for _ in range(number)]


def test_a_sender_waits_for_one_job_of_another_that_has_many() -> None:
    queue, many, (one,) = FairQueue(), _jobs(20), _jobs(1)
    for job in many:
        queue.push(job, b"careless", 10**6)
    assert queue.pop() == (many[0], b"careless")
    queue.push(one, b"honest", 10**6)
    queue.charge(b"careless", 0.3)
    assert queue.pop() == (one, b"honest")
    queue.charge(b"honest", 0.001)
    assert queue.pop() == (many[1], b"careless")


def test_a_short_job_overtakes_long_ones_of_its_sender_and_not_for_ever() -> None:
    queue, (first, second, short), more = FairQueue(), _jobs(3), _jobs(30)
    for job, size in ((first, 1000), (second, 1000), (short, 100)):
        queue.push(job, b"clinic", size)
    assert queue.pop() == (short, b"clinic")
    served = []
    for job in more:
        queue.push(job, b"clinic", 100)
        served.append(queue.pop())
    assert served.index((first, b"clinic")) < served.index((second, b"clinic")) < 15


def test_jobs_without_a_size_stay_in_order_and_idle_senders_are_forgotten() -> None:
    queue, jobs = FairQueue(), _jobs(5)
    for job in jobs:
        queue.push(job, b"", 0)
    for job in jobs:
        assert queue.pop() == (job, b"")
        queue.charge(b"", 0.1)
    assert (len(queue), queue._lines) == (0, {})


class NothingToWrite(KeptEstimator):
    """Has no file."""

    def __init__(self) -> None:
        self.changed, self.waiting = False, []


def test_a_job_that_comes_while_another_is_done_does_not_delay_its_acknowledgement() -> None:
    worker = Worker("one", NothingToWrite(), lambda: None, lambda: None)
    seen: list[bool] = []

    def first() -> None:
        worker.submit(lambda: seen.append(done.done()))  # of a sender that sends while this job is under way
        time.sleep(0.05)  # longer than a write, which takes no time here

    done = worker.submit(first)
    worker.start()
    worker.close()
    assert seen == [True]


def test_a_sender_is_not_kept_waiting_by_the_jobs_of_another_that_wait_behind_its_own() -> None:
    worker = Worker("one", NothingToWrite(), lambda: None, lambda: None)
    seen: list[bool] = []
    done = worker.submit(lambda: time.sleep(0.001), b"honest")
    for _ in range(3):
        worker.submit(lambda: seen.append(done.done()), b"careless")
    worker.start()
    worker.close()
    assert seen == [True] * 3


def test_a_sender_leaves_others_as_much_room_as_it_has() -> None:
    quota = BodyQuota(1000, longest=100)
    with quota.reserve(b"careless") as one, quota.reserve(b"honest") as other:
        one(500)
        with pytest.raises(Refused):
            one(501)
        other(250)
        with pytest.raises(Refused):
            other(251)
    with quota.reserve(b"careless") as again:
        again(500)
    assert quota.taken == 0


@pytest.mark.slow
def test_hostile_clients_of_all_kinds_keep_the_process_below_its_limit_and_others_out_of_nothing() -> None:
    spec = spec_from_file_location("serve_hostile", Path(__file__).parents[2] / "benchmarks" / "serve_hostile.py")
    assert spec is not None
    assert spec.loader is not None
    hostile = sys.modules["serve_hostile"] = module_from_spec(spec)
    spec.loader.exec_module(hostile)
    tally = hostile.run(clients=48, seconds=3, bodies=20)
    assert tally.peak < tally.limit
    assert tally.lost == 0
