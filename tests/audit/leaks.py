"""Leaks for the memory auditor to find: each function is called in a child process before anything else is done there.

All of them leave the results of the library as they are. What is kept is kept alive, so that it is found whatever an
allocator does; what is not wiped is left to chance, as it would be.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import panprivacy as pp
from panprivacy import periods
from panprivacy.estimators import windows
from panprivacy.estimators.base import Estimator
from panprivacy.memory import scratch
from panprivacy.memory.scratch import Scratch
from panprivacy.privacy import coins, noisy_counts
from panprivacy.testing import table_of
from panprivacy.universe import columns
from panprivacy.universe import range as range_

_kept: list[Any] = []


def _replace(module: Any, name: str, leaking: Any) -> None:
    """Put a leak in the place of a function, which must be there: else the leak would be planted nowhere."""
    assert hasattr(module, name), f"{module.__name__} has no {name}"
    setattr(module, name, leaking)


def _before_each_batch(note: Callable[[Any, Any], None]) -> None:
    update_many = Estimator.update_many

    def noted(self: Any, ids: Any, categories: Any = None, **options: Any) -> None:
        note(self, ids)
        update_many(self, ids, categories, **options)

    Estimator.update_many = noted  # type: ignore[method-assign]


def a_copy_of_the_table() -> None:
    """A second version of the bits, packed."""
    _before_each_batch(lambda est, _: _kept.append(table_of(est).words.copy()))


def a_copy_of_the_table_shifted() -> None:
    """The same, some bits further on, at an odd address."""

    def shifted(est: Any, _: Any) -> None:
        bits = np.unpackbits(table_of(est).words.view(np.uint8), bitorder="little")
        _kept.append(b"x" + np.packbits(np.concatenate([np.ones(3, np.uint8), bits]), bitorder="little").tobytes())

    _before_each_batch(shifted)


def the_table_a_byte_a_bit() -> None:
    """A second version of the bits as truth values."""
    _before_each_batch(
        lambda est, _: _kept.append(np.unpackbits(table_of(est).words.view(np.uint8), bitorder="little").astype(bool))
    )


def counters_a_byte_each() -> None:
    """Where the counters of a `Counts` stood."""

    def counters(est: Any, _: Any) -> None:
        _kept.append(np.array([counter for counter, _ in table_of(est).fields()], dtype=np.uint8))

    _before_each_batch(counters)


def a_cache_of_times() -> None:
    """When the events of each batch came."""
    from panprivacy.cli.calendar import Calendar

    moments = Calendar.moments

    def noted(self: Any, batch: Any, scratch: Any) -> Any:
        _kept.append(moments(self, batch, scratch).copy())
        return moments(self, batch, scratch)

    Calendar.moments = noted  # type: ignore[method-assign]


def texts_of_times() -> None:
    """The same as text."""
    from panprivacy.cli.calendar import Calendar

    moments = Calendar.moments

    def noted(self: Any, batch: Any, scratch: Any) -> Any:
        _kept.append(batch.rows[self.column].to_list())
        return moments(self, batch, scratch)

    Calendar.moments = noted  # type: ignore[method-assign]


def counts_of_ones() -> None:
    """How many bits of each word were one."""
    _before_each_batch(lambda est, _: _kept.append(np.bitwise_count(table_of(est).words)))


def wide_counts_of_ones() -> None:
    """The same as integers of 64 bits."""
    _before_each_batch(lambda est, _: _kept.append(np.bitwise_count(table_of(est).words).astype(np.int64)))


def the_table_in_a_file() -> None:
    """A second version of the bits in a hidden file beside the state."""

    def written(est: Any, _: Any) -> None:
        Path(".state.pp.old").write_bytes(b"old" + table_of(est).words.tobytes())

    _before_each_batch(written)


def states_that_are_loaded_as_copies() -> None:
    """What `pp.load` gives is fed, and its file stays as it was."""
    _replace(pp, "load", partial(pp.load, detached=True))


def a_copy_of_each_shard() -> None:
    """The bits of a shard as they were when it was loaded."""
    from panprivacy.folder.shards import ShardedBits

    shard = ShardedBits._shard

    def noted(self: Any, parts: Any, number: int) -> Any:
        found = shard(self, parts, number)
        _kept.append(found.table.words.copy())
        return found

    ShardedBits._shard = noted  # type: ignore[method-assign]


def a_journal_of_changed_blocks() -> None:
    """A journal as long as what has changed."""
    from journals import of_changed_blocks
    from panprivacy.state.journal import Journal

    Journal.commit = of_changed_blocks  # type: ignore[method-assign]


def no_write_without_a_change() -> None:
    """A state that is written only if it differs from the one in the file."""
    from panprivacy.state import StateFile, seal

    write = StateFile.write

    def write_changes(self: Any, parts: Any) -> None:
        if not self.exists or self._target.read_bytes() != seal(parts):
            write(self, parts)

    StateFile.write = write_changes  # type: ignore[method-assign]


def only_shards_that_are_touched() -> None:
    """Shards in which nobody of a batch is, left as they are."""
    from panprivacy.folder.shards import ShardedBits

    redrawn = ShardedBits._redrawn

    def redraw_touched(self: Any, shard: Any, deleted: Any, touched: Any, *arguments: Any, **options: Any) -> Any:
        return redrawn(self, shard, deleted, touched, *arguments, **options) if len(touched.slots) else None

    ShardedBits._redrawn = redraw_touched  # type: ignore[method-assign]


def marks_not_wiped() -> None:
    """Which slots a batch touches, in a folder that is fed."""
    from panprivacy.folder.marks import Marked, Tallied

    def keep(marks: Any) -> None:
        _kept.append(marks)

    Marked.wipe = Tallied.wipe = keep  # type: ignore[method-assign, assignment]


def a_cache_of_ids() -> None:
    """The ids of all batches."""
    _before_each_batch(lambda _, ids: _kept.append(np.array(ids)))


def a_list_of_ids() -> None:
    """The ids of all batches as Python's integers."""
    _before_each_batch(lambda _, ids: _kept.append([int(user) for user in ids]))


def a_sorted_cache_of_ids() -> None:
    """The ids of all batches in ascending order, 4 bytes each."""
    _before_each_batch(lambda _, ids: _kept.append(np.unique(ids).astype(np.int32)))


def a_cache_of_texts() -> None:
    """The ids of all batches, 4 bytes a letter."""
    _before_each_batch(lambda _, ids: _kept.append(np.array(list(ids), dtype=str)))


def a_cache_of_hashes() -> None:
    """The hashes of all ids."""
    _before_each_batch(lambda est, ids: _kept.append(np.array([est.universe.index(u) for u in ids], dtype=np.uint64)))


def flips() -> None:
    """The flips of every batch in the order of its events."""
    system: Any = coins.SystemCoins
    method = "draw" if hasattr(system, "draw") else "below"
    drawn = getattr(system, method)

    def noted(self: Any, threshold: int, given: Any) -> Any:
        result = drawn(self, threshold, given)
        _kept.append((given if result is None else result).copy())
        return result

    setattr(system, method, noted)


def marks() -> None:
    """Who came in each batch that several threads gathered."""
    from panprivacy.table.batch import BatchMarks

    drawn = BatchMarks.drawn

    def noted(self: Any, *arguments: Any) -> Any:
        found = drawn(self, *arguments)
        _kept.append(found[0].copy())
        return found

    BatchMarks.drawn = noted  # type: ignore[method-assign,assignment]


def keys() -> None:
    """The keys of the coins."""
    keystream = coins.keystream

    def noted(key: bytearray) -> Any:
        _kept.append(bytes(key))
        return keystream(key)

    coins.keystream = noted


def keystreams() -> None:
    """A few words of the coins."""
    keystream = coins.keystream

    def noted(key: bytearray) -> Any:
        draw = keystream(key)

        def draw_and_keep(zeros: Any) -> None:
            draw(zeros)
            _kept.append(bytes(zeros[501:525]))

        return draw_and_keep

    coins.keystream = noted


# --- a skipped wipe: the array is as it was, and nobody uses its memory again ----------------------------------------


def _not_wiped(kind: str) -> Callable[[], None]:
    """A leak in which scratch of this name is not wiped."""

    def leak() -> None:
        wipe_all = scratch.Scratch.__exit__

        def leave_one(self: Any, *reason: Any) -> None:
            if kind in self._named:
                _kept.append(self._named.pop(kind))
            wipe_all(self, *reason)

        scratch.Scratch.__exit__ = leave_one  # type: ignore[method-assign]

    return leak


flips_not_wiped = _not_wiped("flips")
slots_not_wiped = _not_wiped("slots")
words_not_wiped = _not_wiped("words")
hashes_not_wiped = _not_wiped("hashes")
cells_not_wiped = _not_wiped("cells")
found_not_wiped = _not_wiped("found")
indices_not_wiped = _not_wiped("indices")


def owned_not_wiped() -> None:
    """Arrays that others made for the library, such as packed flips and copies of the bits, are not wiped."""
    wipe_all = scratch.Scratch.sweep

    def leave_them(self: Any) -> None:
        _kept.extend(self._owned)
        self._owned.clear()
        wipe_all(self)

    scratch.Scratch.sweep = leave_them  # type: ignore[method-assign]


# --- counts of releases -----------------------------------------------------------------------------------------------


def counts_that_were_integers() -> None:
    """Exact counts as integers of Python's, which are freed and not wiped: what releases did before."""

    def noisy_counts_(self: Any) -> tuple[int, ...]:
        with Scratch() as scratch:
            counts = self._counts(scratch)
            exact = tuple(counts.tolist())
            others = list(range(10**6, 10**6 + 20 * len(exact)))
            noisy_counts.add_noise(counts, self._ledger.split.noise, self._coins)
            noisy = tuple(counts.tolist())
        del exact
        others.clear()  # what is freed last is given out first: it is no matter of luck how many counts are left
        return noisy

    Estimator._noisy_counts = noisy_counts_  # type: ignore[method-assign]


def counts_that_are_kept() -> None:
    """Exact counts as integers of Python's, all of which stay."""
    _before_noise(lambda counts: _kept.append(counts.tolist()))


def counts_that_were_floats() -> None:
    """Exact counts in a small array that nobody wipes."""
    _before_noise(lambda counts: _kept.append(counts.astype(np.float64)))


def noise_that_is_kept() -> None:
    """The noise on the counts, from which they follow."""
    add = noisy_counts.add_from_system

    def add_and_keep(counts: Any, noise: Any) -> None:
        exact = counts.copy()
        add(counts, noise)
        _kept.append(counts - exact)
        exact.fill(0)

    noisy_counts.add_from_system = add_and_keep


def _before_noise(note: Callable[[Any], None]) -> None:
    add = noisy_counts.add_from_system

    def noted(counts: Any, noise: Any) -> None:
        note(counts)
        add(counts, noise)

    noisy_counts.add_from_system = noted


# --- what Polars keeps ------------------------------------------------------------------------------------------------


def decoders_not_overwritten() -> None:
    """What the decoders of Polars' threads keep of the last files: what was done before."""
    from panprivacy.ingest import arrow, columnar

    for module in (arrow, columnar):
        _replace(module, "overwrite_decoder", lambda: None)


# --- what NumPy keeps -------------------------------------------------------------------------------------------------


def masks_of_numpy() -> None:
    """Which rows are those of strangers, in arrays that NumPy keeps when they are freed: what was done before."""
    _replace(range_, "mask", lambda rows: np.empty(rows, dtype=np.bool_))


def categoricals_of_numpy() -> None:
    """The values of pandas categoricals as pandas makes them: what was done before."""
    columns._of_pandas = lambda column, what: column.to_numpy()  # noqa: ARG005


def times_of_numpy() -> None:
    """Times read by NumPy's own conversions, each of which makes a copy: what was done before."""

    def moments(times: Any, *_: Any) -> Any:
        if times.dtype.kind == "f":
            assert bool((np.abs(times) < 1e12).all())
            return np.round(times.astype(np.float64) * periods.SECOND).astype(np.int64)
        return times.astype("datetime64[us]").astype(np.int64)

    _replace(windows, "moments_of", moments)


def times_that_are_kept() -> None:
    """The times of all batches, as numbers of microseconds."""
    moments_of = periods.moments_of

    def kept(times: Any, *zone: Any) -> Any:
        _kept.append(moments_of(times, *zone))
        return _kept[-1].copy()

    _replace(windows, "moments_of", kept)
