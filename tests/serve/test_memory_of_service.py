"""What is in the memory of a running service and in its folder: one version of the bits, no id of earlier bodies."""

import os
import sys

import pytest

from panprivacy.audit.imaging.imaging import image

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0, reason="the memory of a hardened process is read by root only"
    ),
]


@pytest.mark.parametrize("scenario", ["service, NDJSON", "service, DistinctCount, TLS"])
def test_a_service_keeps_nothing_of_earlier_bodies(scenario: str) -> None:
    found = image(scenario, 10_000)
    assert found.clean, str(found)


def test_a_service_that_is_not_hardened_keeps_ids() -> None:
    """So the test above would find them."""
    found = image("service, DistinctCount, JSON", 10_000, plants=["unhardened:keep_as_it_is"])
    assert found.ids_found > 0, str(found)
