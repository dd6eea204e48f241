"""States that were written before bits moved to memory of their own, lists of slots had a fixed length, and a delta."""

from base64 import b64decode
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from panprivacy.paper import FixedLevelPPDS
from panprivacy.testing import table_of

VERSION = 8  # where a state says its version

# All seeded with 1, of key 0..15, with two releases planned and one made. Density(200, 2.0, sample=100) and
# FixedLevelPPDS(200, 2.0, 30) were fed range(0, 200, 3), and DistinctCount(2.0, 16, levels=8) range(50).
FIXED_LEVEL = """
cGFucHJpdgABAAMAlwAAAAYAAAAAAAAAAAAAAAAAAEBi2ovC75levYEAAAACAAAAAAAAAAAAAAABAAAAAAAAAAEAAABmZmZmZmbu
PwAAAAABAAAABgAAAAAAAAAAAMgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEAAQIDBAUG
BwgJCgsMDQ4PAAAAAAAAAAAZAAAAAAAAAAQAAAAAAAAABQAAAAAAAAARAAAAAAAAABMAAAAAAAAAFwAAAAAAAAAYAAAAAAAAADlV
aQnngjfrTlDYA5Ac2UhLZJTo4Hus9ZlhSWzuH05c
"""
DENSITY = """
cGFucHJpdgABAAEAlwAAAAIAAAAAAAAAAAAAAAAAAEB2ZhrLPL+X4WIAAAACAAAAAAAAAAAAAAABAAAAAAAAAAEAAABmZmZmZmbu
PwAAAAABAAAAFwAAAAAAAAAAAMgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEAAQIDBAUG
BwgJCgsMDQ4PAAAAAAAAAABkAAAAAAAAADAADtUgRkWOAK8JYgMAAADNT5Wt5dAa0/cMwsiUREYOXTMj3qcWs+WYFtv/S2sfmw==
"""
DISTINCT = """
cGFucHJpdgABAAIAnAAAAAIAAAAAAAAAAAAAAAAAAECr6d6/ZPUA8YoAAAACAAAAAAAAAAAAAAABAAAAAAAAAAEAAABmZmZmZmbu
PwAAAAAIAAAABwAAAAAAAAAJAAAAAAAAAAkAAAAAAAAABAAAAAAAAAAAAAAAAAAAAAIAAAAAAAAABwAAAAAAAAADAAAAAAAAAAgA
AAAQAAAAAQAAAAEAAAAAAQIDBAUGBwgJCgsMDQ4PegAuOa5MNIIAghAgE6IBCC5hV45/CDoMzCr3yxVxcCrxeqyQRp+jvdXvykpj
b6d6
"""


def assert_goes_on_as_version_3(est: Any, old: bytes) -> None:
    """Assert that an old state loses nothing when it is written anew: it is as it was, with a delta and places."""
    new = est.to_bytes(insecure=True)
    assert (old[VERSION], new[VERSION], len(new) - len(old)) == (1, 3, 10)
    again = pp.load(new)
    assert again.to_bytes(insecure=True) == new
    assert (again.last, again.budget, again.delta) == (est.last, est.budget, 0.0)
    assert np.array_equal(table_of(again).words, table_of(est).words)


def test_an_old_density_is_read_written_and_released() -> None:
    est = pp.load(b64decode(DENSITY))
    assert_goes_on_as_version_3(est, b64decode(DENSITY))
    assert table_of(est).ones() == 34
    assert str(est.last).startswith("density 0.0415 ± 0.0978 (standard error), 95% interval 0.0000 to 0.2517; ")
    est.update_many(range(10))
    assert est.release().number == 2


def test_an_old_distinct_count_is_read_written_and_released() -> None:
    est = pp.load(b64decode(DISTINCT))
    assert_goes_on_as_version_3(est, b64decode(DISTINCT))
    assert table_of(est).ones() == 38
    assert str(est.last).startswith("users 32 ± 23 (standard error), 95% interval 1 to 124; ")
    est.update_many(["ada"])
    assert est.release().number == 2


def test_an_old_list_of_slots_is_read_and_has_room_for_everyone_from_then_on() -> None:
    est = FixedLevelPPDS.from_bytes(b64decode(FIXED_LEVEL))
    assert est.state.places == (4, 5, 17, 19, 23, 24)
    assert str(est.last).startswith("density 0.0000 ± 0.2797 (standard error), 95% interval 0.0000 to 0.6288; ")
    assert est.memory == 8 * 25
    again = FixedLevelPPDS.from_bytes(est.to_bytes(insecure=True))
    assert (again.state, again.memory) == (est.state, est.memory)
    length = len(est.to_bytes(insecure=True))
    est.update_many(range(200))
    assert len(est.to_bytes(insecure=True)) == length
    assert est.release().number == 2


@pytest.mark.parametrize("blob", [DENSITY, DISTINCT])
def test_an_altered_old_state_is_refused(blob: str) -> None:
    altered = bytearray(b64decode(blob))
    altered[-40] ^= 1
    with pytest.raises(pp.CorruptState):
        pp.load(bytes(altered))
