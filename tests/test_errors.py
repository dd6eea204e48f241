"""Errors are the project's own, and each says what to do."""

from collections.abc import Callable
from typing import Any

import pytest

import panprivacy as pp
from panprivacy import audit, ingest
from panprivacy.slots import UserSample
from panprivacy.testing import refused

EXPORTED = [getattr(module, name) for module in (pp, audit, pp.paper, ingest) for name in module.__all__]
OWN = [one for one in EXPORTED if isinstance(one, type) and issubclass(one, Exception) and not issubclass(one, Warning)]


@pytest.mark.parametrize("error", OWN)
def test_every_error_of_the_library_has_one_parent(error: type[Exception]) -> None:
    assert issubclass(error, pp.PanPrivacyError)
    assert error.__doc__


def test_errors_are_looked_for_in_every_public_module() -> None:
    assert {pp.LateEvent, audit.TooManyOutcomes, ingest.BadInput, pp.OtherUniverse} < set(OWN)


@pytest.mark.parametrize("error", [pp.OutsideUniverse, pp.NotPrivate, pp.CorruptState, pp.CannotMerge])
def test_a_wrong_argument_is_also_a_value_error(error: type[Exception]) -> None:
    assert issubclass(error, ValueError)


@pytest.mark.parametrize(("sample", "releases", "intrusions"), [(10.0, 1, 0), (10, 1.0, 0), (10, 1, 1.0), ("10", 1, 0)])
def test_numbers_of_things_are_whole(sample: object, releases: object, intrusions: object) -> None:
    with refused("not-a-whole-number"):
        pp.Density(100, 1.0, sample=sample, releases=releases, intrusions=intrusions)  # type: ignore[arg-type]


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "epsilon as text": (lambda: pp.Density(100, "1"), "not-a-number"),  # type: ignore[arg-type]
    "epsilon as a truth value": (lambda: pp.Density(100, True), "not-a-number"),
    "no epsilon": (lambda: pp.Density(100, None), "not-a-number"),  # type: ignore[arg-type]
    "delta as text": (lambda: pp.Density(100, 1.0, delta="tiny"), "not-a-number"),  # type: ignore[arg-type]
    "a universe of True": (lambda: pp.Density(True, 1.0), "universe-type"),
    "a key as text": (lambda: pp.Density(100, 1.0, key="secret"), "key-type"),  # type: ignore[arg-type]
    "a shard that is no pair": (lambda: pp.Density(100, 1.0, shard=3), "shard-type"),  # type: ignore[arg-type]
    "half a shard": (lambda: pp.Density(100, 1.0, shard=(0, 1.5)), "not-a-whole-number"),  # type: ignore[arg-type]
    "memory as a list": (lambda: pp.Density(100, 1.0, memory=[]), "memory-type"),  # type: ignore[arg-type]
    "no buckets": (lambda: pp.DistinctCount(1.0, buckets=0), "buckets-range"),
    "an error in percent": (lambda: pp.DistinctCount(1.0, error="5%"), "not-a-number"),  # type: ignore[arg-type]
    "half an appearance": (lambda: pp.Counts(100, 1.0, up_to=1.5), "not-a-whole-number"),  # type: ignore[arg-type]
    "half a release": (lambda: pp.Retention(100, 1.0, releases=1.5), "not-a-whole-number"),  # type: ignore[arg-type]
    "half a move": (lambda: pp.Continual(100, 1.0, moves=1.5), "not-a-whole-number"),  # type: ignore[arg-type]
    "a step as text": (lambda: pp.Continual(100, 1.0, step="5%"), "not-a-number"),  # type: ignore[arg-type]
    "windows of an estimator": (lambda: pp.Windows(pp.Density(100, 1.0)), "window-maker"),  # type: ignore[arg-type]
    "windows of no length": (lambda: pp.Windows(lambda: pp.Density(100, 1.0)), "every-missing"),
    "a merge of one": (lambda: pp.merge(pp.Density(100, 1.0)), "merge-type"),  # type: ignore[arg-type]
    "a merge of numbers": (lambda: pp.merge([5]), "not-mergeable"),  # type: ignore[type-var]
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_in_one_line_with_a_code(mistake: str) -> None:
    call, code = MISTAKES[mistake]
    with pytest.raises(pp.PanPrivacyError) as caught:
        call()
    assert caught.value.code == code
    assert "\n" not in str(caught.value)


def test_a_refused_number_of_releases_leaves_nothing_behind() -> None:
    """Splits are remembered; 1.0 and 1 are the same key."""
    with pytest.raises(TypeError):
        pp.Density(100, 1.25, releases=1.0)  # type: ignore[arg-type]
    assert pp.Density(100, 1.25, releases=1).budget.releases_made == 0


@pytest.mark.parametrize("universe", [2, 3, 5, 100])
def test_a_sample_of_one_always_holds_someone(universe: int) -> None:
    """Some slots are nobody's; a table of those alone could estimate nothing."""
    for _ in range(60):
        est = pp.Density(universe, 1.0, sample=1)
        assert est.users == 1
        assert 0 <= est.release().density <= 1


def test_a_key_whose_sample_holds_nobody_is_refused() -> None:
    sampled = (UserSample(3, 0, 1, bytes([i] * 16)) for i in range(256))
    empty = next(slots for slots in sampled if not slots.users)
    with refused("empty-sample"):
        pp.Density(3, 1.0, sample=1, key=empty.key)
