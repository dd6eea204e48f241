"""`pp.Client`: a program moves from an estimator of its own to a service by one line."""

import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from served import served
from service_for_tests import FLU, settings_for

import panprivacy as pp
from panprivacy.serve.tokens import new_token, written_hash

SURE = FLU | {"epsilon": 40.0, "releases": 4}
"""So large an epsilon that a release is the truth but for its rounding: false alarms below 1e-6."""


@contextmanager
def client_of(folder: Path, table: dict[str, Any] = SURE, service: Any = None, **given: Any) -> Iterator[pp.Client]:
    with (
        served(settings_for(folder, service, flu=table)) as running,
        pp.Client(f"{running.address}counters/flu", **{"patience": 5.0} | given) as client,
    ):
        yield client


def _study(est: Any) -> float:
    est.update_many(range(0, 1000, 2))
    est.update_many(np.array([1, 3]))
    est.update_many(iter([5, 7]))
    est.update(9)
    est.update(11)
    est.remove(11)
    est.remove_many(pl.Series([1]))
    found: float = est.release().density
    return found


@pytest.mark.slow
def test_a_study_is_the_same_with_an_estimator_and_with_a_service(tmp_path: Path) -> None:
    here = _study(pp.Density(1000, epsilon=40.0, releases=4))
    with client_of(tmp_path) as client:
        there = _study(client)
        assert client.last is not None
        assert (client.last.density, client.last.id, client.releases_left) == (there, 1, 3)
        assert client.budget.epsilon == 40.0
        assert len(client.last.density_interval) == 2
        assert client.last.to_dict()["density"] == there
    assert abs(here - 0.504) < 0.002
    assert abs(there - 0.504) < 0.002


@pytest.mark.slow
def test_gathered_users_are_sent_when_there_are_enough_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[Any] = []

    class Kept(array):  # type: ignore[type-arg]
        def __init__(self, *_given: Any) -> None:
            kept.append(self)

    monkeypatch.setattr("panprivacy.client.array", Kept)
    seen = _losing(monkeypatch, 0)
    with client_of(tmp_path, batch=3) as client:
        for user in range(1, 5):
            client.update(user)
        assert seen == [200, 204]
    assert seen == [200, 204, 204]
    assert not any(any(each) for each in kept), "what was gathered is overwritten"


@pytest.mark.slow
def test_text_pairs_and_categories_reach_their_columns(tmp_path: Path) -> None:
    people = {"kind": "distinct", "ids": "text", "epsilon": 40.0, "column": "user"}
    with client_of(tmp_path / "text", people) as client:
        client.update_many([f"person {number}" for number in range(500)])
        client.update("another")
        assert 300 < client.release().count < 800
    graph = {"kind": "density", "nodes": 20, "edges": ["from", "to"], "epsilon": 40.0}
    with client_of(tmp_path / "pairs", graph) as client:
        client.update_many([(0, 1), (2, 3)])
        client.update_many(([4, 6], [5, 7]))
        assert round(client.release().count) == 4
    visits = SURE | {"categories": ["north", "south"], "by": "clinic"}
    with client_of(tmp_path / "categories", visits) as client:
        client.update_many(range(1000), ["north"] * 1000)
        client.update(1, "south")
        north, south = client.release().groups
        assert (north.group, south.group) == ("north", "south")
        assert north.density > 0.9
        assert south.density < 0.1


@pytest.mark.slow
def test_errors_are_those_of_an_estimator(tmp_path: Path) -> None:
    with client_of(tmp_path, SURE | {"releases": 1}) as client:
        with pytest.raises(pp.OutsideUniverse) as outside:
            client.update_many([1, 1000])
        assert "1000" not in str(outside.value)
        with pytest.raises(pp.InvalidValue):
            client.update_many([1], ["north"])
        client.release()
        with pytest.raises(pp.BudgetExhausted):
            client.release()


@pytest.mark.slow
def test_a_feeder_needs_no_right_to_read(tmp_path: Path) -> None:
    token = new_token()
    service = {"anonymous": [], "tokens": {"clinic": {"hash": written_hash(token), "roles": ["feed"]}}}
    with client_of(tmp_path, service=service, token=token) as client:
        client.update_many([1, 2])
        assert "last" not in client.status
        with pytest.raises(pp.PanPrivacyError) as refused:
            client.release()
        assert refused.value.code == "role"
    with client_of(tmp_path / "other", service=service) as client, pytest.raises(pp.PanPrivacyError) as refused:
        client.update_many([1])
    assert refused.value.code == "no-token"


def _losing(monkeypatch: pytest.MonkeyPatch, answers: int) -> list[int]:
    """Have some answers of a service lost after it has done what was asked; returns what it has answered."""
    heard, seen = HTTPConnection.getresponse, list[int]()

    def lossy(connection: HTTPConnection) -> Any:
        answer = heard(connection)
        seen.append(answer.status)
        if len(seen) <= answers:
            raise ConnectionResetError
        return answer

    monkeypatch.setattr(HTTPConnection, "getresponse", lossy)
    return seen


@pytest.mark.slow
def test_a_release_whose_answer_is_lost_is_spent_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with client_of(tmp_path) as client:
        seen = _losing(monkeypatch, 2)
        assert client.release().id == 1
        assert seen == [201, 201, 201]
        assert client.releases_left == 3


@pytest.mark.slow
def test_a_body_whose_answer_is_lost_is_sent_again_where_that_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client_of(tmp_path / "bits") as client:
        assert client.status
        client.update_many([1])
        seen = _losing(monkeypatch, 1)
        client.update_many([2])
        assert seen == [204, 204]
    counts = {"kind": "counts", "universe": 1000, "up_to": 4, "epsilon": 1.0, "column": "user"}
    with client_of(tmp_path / "counts", counts) as client:
        client.update_many([1])
        seen = _losing(monkeypatch, 1)
        with pytest.raises(pp.ServiceUnavailable) as lost:
            client.update_many([2])
        assert (lost.value.code, seen) == ("unacknowledged", [204])


@pytest.mark.slow
def test_a_busy_service_is_asked_again_when_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    clock = SimpleNamespace(sleep=waits.append, monotonic=time.monotonic)  # threads of the service sleep, too
    monkeypatch.setattr("panprivacy.client.time", clock)
    heard, answers = HTTPConnection.getresponse, [(503, "2"), (429, ""), (0, "")]

    def busy(connection: HTTPConnection) -> Any:
        status, wait = answers.pop(0) if answers else (None, "")
        if status is None:
            return heard(connection)
        connection.close()
        if not status:
            raise ConnectionResetError
        return SimpleNamespace(status=status, headers={"retry-after": wait}, read=lambda: b"")

    with client_of(tmp_path) as client:
        assert client.releases_left == 4
        monkeypatch.setattr(HTTPConnection, "getresponse", busy)
        client.update_many([1])
        assert waits[0] == 2.0
        assert len(waits) == 3
        assert all(0.1 < each < 1.0 for each in waits[1:])
        answers.append((507, "9"))
        with pytest.raises(pp.ServiceUnavailable):  # that is longer than its patience
            client.update_many([1])


@pytest.mark.slow
def test_a_batch_that_is_too_long_for_one_body_is_cut(tmp_path: Path) -> None:
    with client_of(tmp_path, service={"limits": {"body": 2000}}) as client:
        client.update_many(range(1000))
        assert client.release().density > 0.99


@pytest.mark.parametrize("address", ["http://counts.example.org/counters/flu", "ftp://x/counters/flu", "http://[::1]/"])
def test_ids_do_not_travel_in_the_clear(address: str) -> None:
    with pytest.raises(pp.InvalidValue) as refused:
        pp.Client(address)
    assert refused.value.code == "client-address"
