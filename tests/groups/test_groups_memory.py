"""No process remembers in which categories its users appeared; one that does is found."""

import sys

import pytest

from panprivacy import audit

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="images are taken on Linux")]


@pytest.mark.parametrize(
    "name",
    [
        "batches, groups",
        "batches, many categories",
        "batches, DistinctCount, categories",
        "batches, Counts, categories",
        "release, Counts, groups",
        "save and load, Counts, categories",
        "pipe, categories",
    ],
)
def test_groups_and_categories_leave_nothing(name: str) -> None:
    found = audit.image(name, 10_000)

    assert found.bits_seen
    assert (found.users_named, found.words_found, found.ids_found, found.keys_found) == (0, 0, 0, 0), str(found)


def test_categories_that_are_kept_are_found() -> None:
    found = audit.image("batches, many categories", 10_000, plants=["category_leaks:the_categories_of_events"])

    assert found.ids_found > 1000
