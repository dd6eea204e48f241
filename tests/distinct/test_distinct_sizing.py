"""For which counts an error holds."""

import pytest

import panprivacy as pp
from panprivacy.estimators.distinct_law import counts_within, relative_stderr
from panprivacy.privacy.pairs import symmetric


def reach(error: float) -> tuple[int, int]:
    est = pp.DistinctCount(epsilon=1.0, error=error)
    found = est.counts_within(error)
    assert found is not None
    return found


@pytest.mark.slow
@pytest.mark.parametrize("error", [0.2, 0.05, 0.01])
def test_an_error_holds_between_the_two_counts_and_not_beyond(error: float) -> None:
    est = pp.DistinctCount(epsilon=1.0, error=error)
    first, last = reach(error)
    for inside in (first, 2 * first, 1000 * first):
        assert est.count_stderr_at(inside) / inside <= error * 1.001
    assert est.count_stderr_at(first - 1) / (first - 1) > error
    assert est.count_stderr_at(last + 1) / (last + 1) > error


@pytest.mark.slow
def test_a_smaller_error_holds_from_a_larger_count_on() -> None:
    """At 23,570 users a table for 0.1 % errs more than one for 1 %, and neither keeps its word there."""
    assert 23_570 < reach(0.01)[0] < reach(0.001)[0]
    coarse, fine = (pp.DistinctCount(1.0, error=error).count_stderr_at(23_570) / 23_570 for error in (0.01, 0.001))
    assert fine > coarse > 0.01


@pytest.mark.slow
def test_tables_side_by_side_keep_to_a_smaller_error_from_more_users_on() -> None:
    """Three parts with a third of the users each: variances add, so the relative error falls with the root of three."""
    key = bytes(16)
    merged = pp.merge([pp.DistinctCount(1.0, buckets=1024, key=key) for _ in range(3)])
    assert isinstance(merged, pp.DistinctCount)
    found = merged.counts_within(0.05)
    assert found is not None
    assert merged.count_stderr_at(found[0]) / found[0] == pytest.approx(0.05, rel=1e-3)
    assert pp.DistinctCount(1.0, buckets=1024).counts_within(0.05) is None


def test_an_error_that_is_reached_nowhere_has_no_counts() -> None:
    model = pp.DistinctCount(1.0, buckets=64)._model(symmetric(0.5))
    assert counts_within(model, 0.01) is None
    assert relative_stderr(model, 1000) > 0.01
