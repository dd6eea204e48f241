"""What `pp.load` is given that is not what `to_bytes` wrote."""

import struct
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import panprivacy as pp
from panprivacy import registry, state
from panprivacy.testing import refused


def resealed(blob: bytes, at: int, value: bytes) -> bytes:
    """The bytes with some of them replaced and the checksum mended."""
    body = bytearray(blob[:-32])
    body[at : at + len(value)] = value
    return bytes(body) + sha256(body).digest()


@pytest.mark.parametrize("blob", [5, 10**15, None, [1, 2], 2.5])
def test_what_is_not_bytes_is_refused_as_such(blob: object) -> None:
    with pytest.raises(TypeError):
        pp.load(blob)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [str, Path])
def test_a_path_is_read_as_a_file(kind: type, tmp_path: Path) -> None:
    est = pp.Density(100, 1.0)
    blob = est.to_bytes()
    est.save(kind(tmp_path / "flu.pp"))
    assert pp.load(kind(tmp_path / "flu.pp")).to_bytes() == blob == (tmp_path / "flu.pp").read_bytes()
    with refused("state-unreadable"):
        pp.load(kind(tmp_path / "no.pp"))


def test_any_buffer_of_bytes_will_do() -> None:
    blob = pp.Density(100, 1.0).to_bytes()
    for buffer in (bytearray(blob), memoryview(blob)):
        assert pp.load(buffer).to_bytes() == blob  # type: ignore[arg-type]


@pytest.mark.parametrize("built", [100, pp.Edges(20), pp.Edges(20, directed=True)], ids=repr)
def test_a_universe_that_is_given_again_must_be_the_same(built: int | pp.Edges) -> None:
    blob = pp.Density(built, 1.0).to_bytes()
    assert pp.load(blob, universe=built).to_bytes() == blob
    for other in (99, pp.Edges(21), pp.Users(["a"])):
        with refused("built-for-others"):
            pp.load(blob, universe=other)


def test_a_plan_of_absurdly_many_redraws_is_refused_at_once() -> None:
    """Sealed by someone who means harm: working out its worst case would take for ever."""
    blob = pp.Density(100, 4.0, intrusions=2).to_bytes()
    planned = struct.pack("<I", 2)
    at = blob.index(planned, 24 + 8 + 4 + 8 + 4 + 4)  # behind the head, epsilon, pair, release, releases and flip
    with refused("state-contradictory", "redraws"):
        pp.load(resealed(blob, at, struct.pack("<I", 2**32 - 1)))
    with refused("intrusions-range", "1000"):
        pp.Density(100, 1e5, intrusions=1001)


def test_a_mended_checksum_does_not_buy_more_releases() -> None:
    """One release was planned and made; a plan of two would lose more than epsilon."""
    est = pp.Density(100, 1.0)
    est.release()
    blob = est.to_bytes()
    releases = 24 + 8 + 4 + 8
    assert struct.unpack_from("<I", blob, releases) == (1,)
    with refused("state-contradictory"):
        pp.load(resealed(blob, releases, struct.pack("<I", 2)))


def estimators() -> list[Any]:
    """One of each class that can be saved."""
    return [
        pp.Density(100, 1.0),
        pp.DistinctCount(1.0, 64),
        pp.paper.FixedLevelPPDS(100, 1.0, sample=50),
        pp.Continual(100, epsilon=8.0),
    ]


@pytest.mark.parametrize("which", range(4))
def test_every_estimator_is_loaded_from_bytes_and_from_a_file(which: int, tmp_path: Path) -> None:
    est = estimators()[which]
    blob = est.to_bytes()
    est.save(tmp_path / "s.pp")
    for again in (pp.load(blob), pp.load(tmp_path / "s.pp")):
        assert type(again) is type(est)
        assert again.to_bytes() == blob


@pytest.mark.parametrize("which", range(4))
def test_the_registry_names_the_class_of_each_kind(which: int) -> None:
    est = estimators()[which]
    assert registry.class_of(est.KIND) is type(est)


def test_a_class_reads_its_own_states_only() -> None:
    with refused("other-estimator", "Density"):
        pp.Density.from_bytes(pp.Continual(100, epsilon=8.0).to_bytes())
    with refused("other-estimator", "Continual"):
        pp.Continual.from_bytes(pp.Density(100, 1.0).to_bytes())


def test_a_kind_is_read_by_one_class() -> None:
    with refused("kind-taken", "1", "panprivacy.estimators.density:Density"):
        registry.register(1, "mine:Density")
    with refused("kind-unknown", "200"):
        pp.load(state.seal(state.Snapshot(200, True, b"", np.zeros(1, dtype=np.uint64))))
