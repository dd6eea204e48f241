"""The search of an image finds what is there in whatever form, and nothing that is not."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from panprivacy.audit.memory import patterns
from panprivacy.audit.memory.batches import letters, opened, store
from panprivacy.audit.memory.images import Image, Segment
from panprivacy.audit.memory.patterns import ASCENDING, IN_ORDER, Run, Windows
from panprivacy.audit.memory.search import look_for

RANDOM = np.random.default_rng(10)
SIZE = 20_000
OLD = (RANDOM.random(SIZE) < 0.7).astype(np.uint8)
NEW = OLD.copy()
NEW[::5] = RANDOM.random(SIZE // 5) < 0.7
IDS = RANDOM.permutation(50_000)[:6_000].astype(np.uint64)


def packed(bits: NDArray[np.uint8]) -> NDArray[np.uint8]:
    octets = np.packbits(bits, bitorder="little")
    return np.concatenate([octets, np.zeros(-len(octets) % 8, dtype=np.uint8)])


def image_of(*pieces: bytes) -> Image:
    """Pieces with random bytes around them, each at an address that is a multiple of 16."""
    whole = b""
    for piece in pieces:
        whole += RANDOM.bytes(4096) + piece
        whole += RANDOM.bytes(-len(whole) % 16)
    octets = np.frombuffer(whole + RANDOM.bytes(4096), dtype=np.uint8)
    return Image([Segment("[heap]", 1, 4096, octets)])


def search(image: Image, *what: Windows | Run, before: Image | None = None) -> float:
    """Which share of what was looked for is there."""
    look_for(what, image, before)
    return float(np.concatenate([pattern.found for pattern in what]).mean())


def old_bits() -> list[Windows]:
    return patterns.of_bits(packed(OLD), SIZE, packed(NEW))


@pytest.mark.slow
@pytest.mark.parametrize("shift", range(8))
def test_an_old_table_is_found_at_any_offset(shift: int) -> None:
    shifted = np.packbits(np.concatenate([np.zeros(shift, np.uint8), OLD]), bitorder="little").tobytes()

    assert search(image_of(b"abc" + shifted), *old_bits()) > 0.11  # all windows of one of the eight offsets


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_an_old_table_is_found_with_a_number_a_bit(width: int) -> None:
    assert search(image_of(OLD.astype(f"u{width}").tobytes()), *old_bits()) > 0.11


@pytest.mark.slow
def test_the_present_table_is_no_find() -> None:
    assert search(image_of(packed(NEW).tobytes(), NEW.tobytes(), NEW.astype(np.int64).tobytes()), *old_bits()) == 0


@pytest.mark.slow
@pytest.mark.parametrize("place", [40_960, 45_055], ids=["first", "last"])
def test_of_a_fork_all_is_found_that_it_wrote_a_byte_of(place: int) -> None:
    """A byte at an edge of a page, amid a number of 8 bytes a bit: what it is part of reaches into both neighbours."""
    image = image_of(OLD.astype(np.uint64).tobytes())
    (segment,) = image.segments
    octets = segment.octets.copy()
    octets[place] ^= 1
    written = image.written_since(Image([replace(segment, octets=octets)]))

    def found(image: Image) -> set[int]:
        windows = old_bits()
        search(image, *windows)
        positions = np.concatenate([w.positions[w.found] for w in windows])
        return {at for at in positions.tolist() if abs(4096 + 8 * at + 256 - place) < 768}

    assert written.size == 3 * 4096
    assert found(written) == found(image) != set()
    assert not image.written_since(image).segments


@pytest.mark.slow
def test_a_part_of_an_old_table_names_only_its_users() -> None:
    windows = old_bits()
    search(image_of(packed(OLD)[512:768].tobytes()), *windows)
    found = np.concatenate([w.positions[w.found] for w in windows])

    assert found.min() >= 8 * 512
    assert found.max() < 8 * 768


@pytest.mark.slow
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_counts_per_word_are_found_in_any_width(width: int) -> None:
    old, new = (np.bitwise_count(packed(bits).view(np.uint64)) for bits in (OLD, NEW))

    assert search(image_of(old.astype(f"u{width}").tobytes()), patterns.of_counts(old, new)) > 0.9
    assert search(image_of(new.tobytes()), patterns.of_counts(old, new)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["<i4", "<i8", ">i8"])
def test_ids_are_found_in_the_order_of_a_batch(dtype: str) -> None:
    run = Run(IDS, IN_ORDER, swapped=True)

    assert search(image_of(IDS.astype(dtype).tobytes()), run) > 0.99


def test_ids_are_found_in_columns_of_pairs_and_as_python_integers() -> None:
    pairs = np.stack([IDS, IDS + np.uint64(1)], axis=1).tobytes()
    objects = np.zeros((len(IDS), 8), dtype=np.uint32)
    objects[:, 6] = IDS

    assert search(image_of(pairs), Run(IDS, IN_ORDER)) > 0.99
    assert search(image_of(objects.tobytes()), Run(IDS, IN_ORDER)) > 0.99


@pytest.mark.slow
def test_ids_are_found_in_ascending_order_and_not_in_another() -> None:
    ascending = Run(np.sort(IDS), ASCENDING)

    assert search(image_of(np.sort(IDS).tobytes()), ascending) > 0.99
    assert search(image_of(IDS.tobytes()), Run(np.sort(IDS), ASCENDING)) == 0
    assert search(image_of(np.arange(50_000).tobytes()), Run(np.sort(IDS), ASCENDING)) == 0


@pytest.mark.slow
def test_what_stood_there_before_is_no_find() -> None:
    image = image_of(IDS.tobytes())

    assert search(image, Run(IDS, IN_ORDER), before=image) == 0
    assert search(image, Run(IDS, IN_ORDER), before=Image([])) > 0.99


@pytest.mark.slow
def test_texts_are_found_in_bytes_and_in_letters_of_four_bytes() -> None:
    texts = letters(RANDOM, 1000)

    assert search(image_of(b"!" + texts.tobytes()), patterns.of_texts(texts)) == 1
    assert search(image_of(texts.astype("U12").tobytes()), patterns.of_texts(texts)) == 1


def test_large_numbers_are_found_one_by_one_and_as_python_integers() -> None:
    numbers = RANDOM.integers(2**60, 2**63, 100).astype(np.uint64)
    first = int(numbers[7])
    digits = b"".join((first >> 30 * i & 2**30 - 1).to_bytes(4, "little") for i in range(3))

    for left in (numbers[7:8].tobytes(), digits):
        assert search(image_of(left), *patterns.of_numbers(numbers)) == 0.005


@pytest.mark.slow
def test_random_memory_holds_nothing() -> None:
    """Chance of a false alarm below 2**-40: see `patterns`."""
    image = Image([Segment("[heap]", 1, 0, np.frombuffer(RANDOM.bytes(2**24), dtype=np.uint8))])
    keys = patterns.of_octets(RANDOM.bytes(2**16))

    assert search(image, *old_bits(), keys, Run(IDS, IN_ORDER)) == 0


def test_flips_of_a_batch_that_are_the_present_bits_are_no_find_and_others_are() -> None:
    came = np.zeros(SIZE, np.uint8)
    came[: SIZE // 2] = 1  # all slots of the first half, as of the low levels of a DistinctCount
    since = OLD.copy()
    since[: SIZE // 4] = NEW[: SIZE // 4]  # of which half were drawn again
    flips = packed(came & OLD)

    sought = patterns.of_marks(flips, SIZE, packed(since))
    assert search(image_of(packed(since).tobytes()), *sought) == 0.0
    assert search(image_of(flips.tobytes()), *sought) > 0.11


def test_marks_that_are_zeros_and_then_ones_are_not_looked_for() -> None:
    came = np.zeros(SIZE, np.uint8)
    came[SIZE // 2 + 7 :] = 1

    assert not sum(len(windows.keys) for windows in patterns.of_marks(packed(came), SIZE, None))


@pytest.mark.slow
def test_a_categorical_of_any_size_has_a_category_for_every_id(tmp_path: Path) -> None:
    ids = np.array([3, 9_999_999])
    with opened(**store(ids, "pandas categorical", tmp_path / "batch")) as column:
        assert column.tolist() == ids.tolist()
