"""Errors are the project's own, and each says what to do."""

import pytest

import panprivacy as pp
from panprivacy import audit, events
from panprivacy.slots import Sampled

EXPORTED = [getattr(module, name) for module in (pp, audit, pp.paper, events) for name in module.__all__]
OWN = [one for one in EXPORTED if isinstance(one, type) and issubclass(one, Exception) and not issubclass(one, Warning)]


@pytest.mark.parametrize("error", OWN)
def test_every_error_of_the_library_has_one_parent(error: type[Exception]) -> None:
    assert issubclass(error, pp.PanPrivacyError)
    assert error.__doc__


def test_errors_are_looked_for_in_every_public_module() -> None:
    assert {pp.LateEvent, audit.TooManyOutcomes, events.BadInput, pp.OtherUniverse} < set(OWN)


@pytest.mark.parametrize("error", [pp.OutsideUniverse, pp.NotPrivate, pp.CorruptState, pp.CannotMerge])
def test_a_wrong_argument_is_also_a_value_error(error: type[Exception]) -> None:
    assert issubclass(error, ValueError)


@pytest.mark.parametrize(("sample", "releases", "intrusions"), [(10.0, 1, 0), (10, 1.0, 0), (10, 1, 1.0), ("10", 1, 0)])
def test_numbers_of_things_are_whole(sample: object, releases: object, intrusions: object) -> None:
    with pytest.raises(TypeError, match="integer"):
        pp.Density(100, 1.0, sample=sample, releases=releases, intrusions=intrusions)  # type: ignore[arg-type]


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
    sampled = (Sampled(3, 0, 1, bytes([i] * 16)) for i in range(256))
    empty = next(slots for slots in sampled if not slots.users)
    with pytest.raises(ValueError, match="nobody's"):
        pp.Density(3, 1.0, sample=1, key=empty.key)
