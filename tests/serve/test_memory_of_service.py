"""What is in the memory of a running service and in its folder: one version of the bits, no id of earlier bodies."""

import os
import sys
from dataclasses import replace

import pytest

from panprivacy.audit.memory import image
from panprivacy.audit.memory.scenarios import named
from panprivacy.memory.hardening import STARTED

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="the memory of a hardened process is read by root only"
    ),
]


@pytest.mark.parametrize(
    "scenario",
    [
        "service, NDJSON",
        "service, DistinctCount, TLS",
        "service, refused",
        "service, refused, TLS",
    ],
)
def test_a_service_keeps_nothing_of_earlier_bodies(scenario: str) -> None:
    found = image(scenario, 10_000)
    assert found.clean, str(found)


def test_a_service_that_is_not_hardened_keeps_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above would find them: it believes that it was started hardened."""
    monkeypatch.setenv(STARTED, "1")
    found = image("service, DistinctCount, JSON", 10_000)
    assert found.ids_found > 0, str(found)


@pytest.mark.parametrize(
    "leak",
    [
        "frames_of_refusals",
        "requests",
        "ids_in_addresses",
        "addresses_of_transports",
        "addresses_of_senders",
        "names_of_hosts",
    ],
)
def test_what_the_service_kept_of_refused_requests_is_found(leak: str) -> None:
    """Without the requests that take time, which such leaks do not need."""
    scenario = replace(named("service, refused"), steps=("short", "refused quickly", "short"))
    found = image(scenario, 10_000, plants=[f"refusal_leaks:{leak}"])
    assert found.ids_found > 0, str(found)


@pytest.mark.parametrize("broker", ["Kafka", "NATS", "Redis"])
def test_bad_messages_leave_nothing_of_themselves_and_of_the_good_ones(broker: str) -> None:
    scenario = named(f"bad messages, {broker}")
    if scenario.missing is not None:
        pytest.skip(scenario.missing)
    found = image(scenario, 10_000)
    assert found.clean, str(found)


@pytest.mark.parametrize("broker", ["NATS", "Redis"])
def test_what_refused_batches_kept_of_good_messages_is_found(broker: str) -> None:
    scenario = named(f"bad messages, {broker}")
    if scenario.missing is not None:
        pytest.skip(scenario.missing)
    found = image(scenario, 10_000, plants=["refusal_leaks:frames_of_refusals"])
    assert found.ids_found > 100, str(found)
