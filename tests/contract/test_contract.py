"""Every exported estimator passes one list of checks."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from checks_of_all import (
    CHECKS,
    Check,
    check_a_bad_batch_changes_nothing,
    check_every_container_means_the_same,
    check_the_budget_is_kept,
    check_what_is_free_tells_nothing,
)
from contracted import SUBJECTS, USERS, VARIANTS, exported

import panprivacy as pp
from panprivacy.privacy.coins import Coins


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.slow] if SUBJECTS[kind].elsewhere else []) for kind in SUBJECTS],
    ids=lambda kind: kind.__name__,
)
def test_an_exported_estimator_keeps_the_contract(kind: type, check: Check) -> None:
    check(SUBJECTS[kind])


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("name", VARIANTS)
def test_an_estimator_in_another_use_keeps_the_contract(name: str, check: Check) -> None:
    check(VARIANTS[name])


def test_every_exported_estimator_is_under_contract() -> None:
    assert exported() == set(SUBJECTS), "give a new estimator its line in panprivacy/registry.py"


# --- planted bugs ---------------------------------------------------------------------------------------------------


class HalfABatch(pp.Density):
    """Takes what comes before a bad id."""

    def update_many(self, ids: Any, categories: Any = None, **_: Any) -> None:  # noqa: ARG002
        for user in ids:
            self.update(user)


class LabelsOfPandas(pp.Density):
    """Takes the index of a column for its values."""

    def update_many(self, ids: Any, categories: Any = None, **_: Any) -> None:  # noqa: ARG002
        super().update_many(ids.index.to_numpy() if hasattr(ids, "index") and hasattr(ids, "dtype") else ids)


class CountsEvents(pp.Density):
    """Says how many events there were."""

    events = 0

    def update_many(self, ids: Any, categories: Any = None, **_: Any) -> None:  # noqa: ARG002
        super().update_many(ids)
        self.events += len(ids)

    def _described(self) -> str:
        return f"{super()._described()} after {self.events} events"


class ReleasesForEver(pp.Density):
    """Says the last release again instead of refusing."""

    def release(self, level: float = 0.95) -> pp.Release:
        try:
            return super().release(level)
        except pp.BudgetExhausted:
            assert self.last is not None
            return self.last


BUGS: dict[type[pp.Density], tuple[Check, str]] = {
    HalfABatch: (check_a_bad_batch_changes_nothing, "was refused, and changed something"),
    LabelsOfPandas: (check_every_container_means_the_same, "a pandas counts others"),
    CountsEvents: (check_what_is_free_tells_nothing, "what can be read for free depends on who came"),
    ReleasesForEver: (check_the_budget_is_kept, "DID NOT RAISE"),
}


@pytest.mark.parametrize("kind", BUGS, ids=lambda kind: kind.__name__)
def test_an_estimator_with_a_bug_breaks_it(kind: type[pp.Density]) -> None:
    check, found = BUGS[kind]
    make: Callable[[Coins | None], Any] = lambda coins: kind(USERS, 2.0, releases=2, coins=coins)  # noqa: E731
    with pytest.raises((AssertionError, pytest.fail.Exception), match=found):
        check(replace(SUBJECTS[pp.Density], make=make))


def test_an_exported_estimator_without_a_line_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pp, "Budget", HalfABatch)
    assert exported() - set(SUBJECTS) == {HalfABatch}
