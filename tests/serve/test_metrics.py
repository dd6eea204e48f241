"""Metrics: for a role that can do nothing else, and none that tells of single events."""

from dataclasses import replace
from pathlib import Path

import pytest
from service_for_tests import FLU, client_of, settings_for
from test_readiness import Quiet

from panprivacy.serve.http.context import Answers
from panprivacy.serve.tokens import new_token, written_hash

JSON = {"content-type": "application/json"}


def test_a_token_for_metrics_reads_them_and_does_nothing_else(tmp_path: Path) -> None:
    token = new_token()
    tables = {"prometheus": {"hash": written_hash(token), "roles": ["metrics"]}}
    bearer = {"authorization": f"Bearer {token}"}
    with client_of(settings_for(tmp_path, {"anonymous": [], "tokens": tables})) as client:
        assert client.get("/metrics", headers=bearer).status_code == 200
        assert "flu" in client.get("/ready", headers=bearer).json()["counters"]
        calls = [("POST", "/counters/flu/releases"), ("POST", "/counters/flu/events"), ("GET", "/counters/flu")]
        calls += [("GET", "/counters"), ("GET", "/stream"), ("GET", "/counters/flu/releases")]
        for method, path in calls:
            assert client.request(method, path, headers=bearer | JSON).status_code == 403
        assert client.get("/metrics").status_code == 401


def test_a_scraper_sees_what_is_ready_what_is_due_and_how_large_the_process_is(tmp_path: Path) -> None:
    source = Quiet()
    weekly = FLU | {"schedule": {"every": "7d"}}
    settings = replace(
        settings_for(tmp_path, {"limits": {"memory": "4 GiB"}}, flu=weekly, cold=FLU), sources={"flu": source}
    )
    with client_of(settings) as client:
        assert 'panprivacy_source_lag_messages{counter="flu"}' not in client.get("/metrics").text
        source.lag = 10_000
        text = client.get("/metrics").text
        assert client.get("/ready").json()["sources"]["flu"]["lag"] == 10_000
        source.trouble = "connection refused"
        later = client.get("/metrics").text
    assert 'panprivacy_counter_ready{counter="flu"} 1.0' in text
    assert 'panprivacy_source_ready{counter="flu"} 1.0' in text
    assert 'panprivacy_source_lag_messages{counter="flu"} 10000.0' in text
    assert 'panprivacy_source_ready{counter="flu"} 0.0' in later
    assert 'panprivacy_next_release_time_seconds{counter="flu"}' in text
    assert 'panprivacy_next_release_time_seconds{counter="cold"}' not in text
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(values["panprivacy_memory_bytes"]) % 2**26 == 0 < float(values["panprivacy_memory_bytes"])
    assert float(values["panprivacy_open_files"]) % 64 == 0 < float(values["panprivacy_open_files"])
    assert float(values["panprivacy_memory_limit_bytes"]) == 2**32


def test_failed_tokens_are_told_by_the_hour_and_in_powers_of_ten() -> None:
    now = [0.0]
    answers = Answers(kept=False, clock=lambda: now[0])
    for _ in range(2345):
        answers.note(401)
    for status in (204, 422, 507):  # which tell of bodies
        for _ in range(1000):
            answers.note(status)
    assert answers.last_hour() == {401: 0, 403: 0, 421: 0}
    assert answers.totals == {}
    now[0] = 3601.0
    answers.note(403)
    assert answers.last_hour() == {401: 1000, 403: 0, 421: 0}
    now[0] = 7201.0
    assert answers.last_hour() == {401: 0, 403: 0, 421: 0}
    answers.note(401)
    now[0] = 14_401.0
    assert answers.last_hour() == {401: 0, 403: 0, 421: 0}


@pytest.mark.parametrize("count_events", [True, False])
def test_statuses_of_bodies_are_told_only_where_events_are_counted(tmp_path: Path, count_events: bool) -> None:
    with client_of(settings_for(tmp_path, {"count_events": count_events})) as client:
        client.post("/counters/flu/events", content="[1, 2]", headers=JSON)
        client.post("/counters/flu/events", content="[", headers=JSON)
        text = client.get("/metrics").text
    assert ('panprivacy_responses_total{status="204"} 1.0' in text) == count_events
    assert ('panprivacy_responses_total{status="422"} 1.0' in text) == count_events
    assert ("panprivacy_responses" in text) == count_events


@pytest.mark.parametrize("count_events", [True, False])
def test_a_body_changes_the_metrics_only_where_events_are_counted(tmp_path: Path, count_events: bool) -> None:
    """With `count_events`, all that was once told is told again: so a test of the default finds it."""
    with client_of(settings_for(tmp_path, {"count_events": count_events})) as client:
        before = set(client.get("/metrics").text.splitlines())
        for body in ("[1, 2]", "[", '["nobody"]', "[7]" * 1000):
            client.post("/counters/flu/events", content=body, headers=JSON)
        client.get("/counters/flu")
        changed = {line.split("{")[0] for line in set(client.get("/metrics").text.splitlines()) - before}
    told = {"rows_total", "batches_total", "duration_seconds", "responses_total"}
    assert {f"panprivacy_{name}" for name in told} <= changed if count_events else changed == set(), changed
