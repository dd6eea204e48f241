"""Estimators as bytes."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import panprivacy as pp
from panprivacy.state import seal, unseal
from panprivacy.testing import SeededCoins, refused, table_of


def some() -> list[pp.Density]:
    """One of each kind, in different stages of life."""
    plain = pp.Density(100, 1.0, releases=3)
    plain.update_many(range(50))
    plain.release(level=0.8)
    sampled = pp.Density(1000, 1.0, sample=77, intrusions=2)
    sampled.rerandomize()
    sampled.release()
    sampled.rerandomize()
    shard = pp.Density(1000, 1.0, shard=(1, 3))
    graph = pp.Density(pp.Edges(30, directed=True), 2.0)
    graph.update((1, 2))
    return [plain, sampled, shard, graph, pp.Density(pp.Users(["a", "b", "c"]), 2.0)]


def loaded(blob: bytes, universe: object = None) -> pp.Density:
    """What `pp.load` makes of the bytes of a `Density`."""
    est = pp.load(blob, universe)
    assert isinstance(est, pp.Density)
    return est


@pytest.mark.parametrize("which", range(5))
def test_a_round_trip_changes_nothing(which: int) -> None:
    est = some()[which]
    again = loaded(est.to_bytes(), est.universe if which == 4 else None)
    assert again.to_bytes() == est.to_bytes()
    assert again.budget == est.budget
    assert again.last == est.last
    assert again.users == est.users
    assert repr(again) == repr(est)


def test_pickles_and_copies_go_through_the_bytes() -> None:
    est = some()[1]
    assert pickle.loads(pickle.dumps(est)).to_bytes() == est.to_bytes()


def test_the_length_depends_on_the_parameters_alone() -> None:
    lengths = set()
    for events in (0, 1, 1000):
        est = pp.Density(1000, 1.0, releases=2)
        est.update_many(np.zeros(events, dtype=int))
        lengths.add(len(est.to_bytes()))
        est.release()
        lengths.add(len(est.to_bytes()))
    assert len(lengths) == 1


def test_truncated_bytes_are_corrupt_at_every_length() -> None:
    blob = some()[0].to_bytes()
    for length in range(len(blob)):
        with pytest.raises(pp.CorruptState):
            pp.load(blob[:length])
    with pytest.raises(pp.CorruptState):
        pp.load(blob + b"\0")


@pytest.mark.parametrize("kind", [pp.Density, pp.Counts, pp.Retention])
def test_missing_parameters_are_corrupt_whatever_the_checksum(kind: Any) -> None:
    blob = kind(100, 1.0).to_bytes()
    whole = bytes(unseal(blob).parameters)
    for length in range(len(whole)):
        with pytest.raises(pp.CorruptState):
            pp.load(seal(unseal(blob)._replace(parameters=whole[:length])))


@pytest.mark.slow
def test_every_single_altered_bit_is_noticed() -> None:
    blob = some()[0].to_bytes()
    for position in range(8 * len(blob)):
        altered = bytearray(blob)
        altered[position // 8] ^= 1 << position % 8
        with pytest.raises(pp.CorruptState):
            pp.load(bytes(altered))


@given(st.binary(max_size=400))
def test_foreign_bytes_are_corrupt(blob: bytes) -> None:
    with pytest.raises(pp.CorruptState):
        pp.load(blob)


@pytest.mark.slow
@given(st.integers(0, 140), st.integers(0, 255))
def test_a_forged_checksum_does_not_help(position: int, value: int) -> None:
    """Bytes that were altered and sealed again are either refused or a state that keeps its own promise."""
    from hashlib import sha256

    body = bytearray(some()[0].to_bytes()[:-32])
    body[position % len(body)] = value
    try:
        est = pp.load(bytes(body) + sha256(body).digest())
    except pp.CorruptState:
        return
    assert est.budget.total <= est.epsilon
    assert table_of(est).ones() <= table_of(est).size


def test_seeded_states_are_saved_only_by_name() -> None:
    est = pp.Density(100, 1.0, coins=SeededCoins(1))
    with refused("seeded-coins", "insecure=True"):
        est.to_bytes()
    with pytest.raises(pp.NotPrivate):
        pickle.dumps(est)
    again = pp.load(est.to_bytes(insecure=True))
    assert not again.secure
    assert not again.release().secure


def test_a_list_of_users_stays_outside_and_must_be_given_again() -> None:
    users = pp.Users(["alice@example.org", "bob@example.org"])
    est = pp.Density(users, 2.0)
    blob = est.to_bytes()
    assert b"alice" not in blob
    assert b"example" not in blob
    unlisted = pp.load(blob)
    assert unlisted.release().universe == 2
    with refused("users-not-loaded"):
        unlisted.update("alice@example.org")
    with refused("users-not-loaded"):
        unlisted.update_many(["alice@example.org"])
    pp.load(blob, universe=pp.Users(["bob@example.org", "alice@example.org"])).update("alice@example.org")
    with refused("other-users"):
        pp.load(blob, universe=pp.Users(["eve@example.org", "bob@example.org"]))
    assert pp.load(unlisted.to_bytes()).last == unlisted.last


def test_a_state_of_another_version_is_refused() -> None:
    blob = bytearray(some()[0].to_bytes())
    blob[8] += 1
    with refused("state-version", "reads version 1"):
        pp.load(bytes(blob))
