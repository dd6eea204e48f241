"""What `pp.load` is given that is not what `to_bytes` wrote."""

import struct
from hashlib import sha256
from pathlib import Path

import pytest

import panprivacy as pp


def resealed(blob: bytes, at: int, value: bytes) -> bytes:
    """The bytes with some of them replaced and the checksum mended."""
    body = bytearray(blob[:-32])
    body[at : at + len(value)] = value
    return bytes(body) + sha256(body).digest()


@pytest.mark.parametrize("blob", [5, 10**15, None, "text", [1, 2], 2.5])
def test_what_is_not_bytes_is_refused_as_such(blob: object) -> None:
    with pytest.raises(TypeError):
        pp.load(blob)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["flu.pp", Path("flu.pp")])
def test_a_path_is_not_the_bytes_in_it(path: object) -> None:
    with pytest.raises(TypeError, match=r"pp.load takes bytes: Path\('flu.pp'\).read_bytes\(\)"):
        pp.load(path)  # type: ignore[arg-type]


def test_any_buffer_of_bytes_will_do() -> None:
    blob = pp.Density(100, 1.0).to_bytes()
    for buffer in (bytearray(blob), memoryview(blob)):
        assert pp.load(buffer).to_bytes() == blob  # type: ignore[arg-type]


@pytest.mark.parametrize("built", [100, pp.Edges(20), pp.Edges(20, directed=True)], ids=repr)
def test_a_universe_that_is_given_again_must_be_the_same(built: int | pp.Edges) -> None:
    blob = pp.Density(built, 1.0).to_bytes()
    assert pp.load(blob, universe=built).to_bytes() == blob
    for other in (99, pp.Edges(21), pp.Users(["a"])):
        with pytest.raises(pp.OtherUniverse, match="was built for"):
            pp.load(blob, universe=other)


def test_a_plan_of_absurdly_many_redraws_is_refused_at_once() -> None:
    """Sealed by someone who means harm: working out its worst case would take for ever."""
    blob = pp.Density(100, 4.0, intrusions=2).to_bytes()
    planned = struct.pack("<I", 2)
    at = blob.index(planned, 24 + 8 + 4 + 8 + 4 + 4)  # behind the head, epsilon, pair, release, releases and flip
    with pytest.raises(pp.CorruptState, match="redraws"):
        pp.load(resealed(blob, at, struct.pack("<I", 2**32 - 1)))
    with pytest.raises(ValueError, match="at most 1000"):
        pp.Density(100, 1e5, intrusions=1001)


def test_a_mended_checksum_does_not_buy_more_releases() -> None:
    """One release was planned and made; a plan of two would lose more than epsilon."""
    est = pp.Density(100, 1.0)
    est.release()
    blob = est.to_bytes()
    releases = 24 + 8 + 4 + 8
    assert struct.unpack_from("<I", blob, releases) == (1,)
    with pytest.raises(pp.CorruptState, match="loses more"):
        pp.load(resealed(blob, releases, struct.pack("<I", 2)))


def test_states_of_other_classes_name_the_class_that_reads_them() -> None:
    watched = pp.Continual(100, epsilon=8.0)
    with pytest.raises(pp.CorruptState, match=r"read it with panprivacy.Continual.from_bytes"):
        pp.load(watched.to_bytes())
    fixed = pp.paper.FixedLevelPPDS(100, 1.0, sample=50)
    with pytest.raises(pp.CorruptState, match=r"read it with panprivacy.paper.FixedLevelPPDS.from_bytes"):
        pp.load(fixed.to_bytes())
    assert fixed.KIND != watched.KIND
