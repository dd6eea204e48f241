"""What the printed algorithms say of themselves."""

import re
import warnings
from collections.abc import Callable
from copy import deepcopy
from math import inf

import pytest

from panprivacy import paper, theory
from panprivacy.paper import printed
from panprivacy.paper.printed import Printed

MAKERS: dict[str, Callable[[], Printed]] = {
    "Dwork": lambda: paper.Dwork(10, 0.1, 5),
    "OptBern": lambda: paper.OptBern(10, 0.1, 5),
    "PPDS": lambda: paper.PPDS(10, 0.1, 5),
    "Continuous": lambda: paper.Continuous(10, 0.1, 5),
    "DistinctSampling": lambda: paper.DistinctSampling(10, 5),
}
EACH = pytest.mark.parametrize("name", MAKERS)


@pytest.fixture(autouse=True)
def _nothing_warned_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed, "_warned", set())


@EACH
def test_building_one_warns_once_with_the_flaw_its_size_and_the_alternative(name: str) -> None:
    with pytest.warns(paper.NotPrivateAsPrinted, match=f"{name} is not private as printed") as seen:
        est = MAKERS[name]()
    message = str(seen[0].message)
    assert est.known_flaws[0] in message
    assert re.search(r"(loses?|loss is) (inf|[0-9]+\.[0-9]{3})\b", message), message
    assert "panprivacy.Density" in message
    assert seen[0].filename == __file__
    MAKERS[name]()  # warnings are errors here: a second one would fail


def test_a_warning_that_was_raised_is_due_again() -> None:
    for _ in range(2):
        with pytest.raises(paper.NotPrivateAsPrinted):
            MAKERS["Dwork"]()


def test_each_algorithm_has_its_own_warning() -> None:
    with pytest.warns(paper.NotPrivateAsPrinted):
        MAKERS["Dwork"]()
    with pytest.warns(paper.NotPrivateAsPrinted):
        MAKERS["OptBern"]()


def test_the_repaired_algorithm_warns_of_nothing() -> None:
    est = paper.FixedLevelPPDS(10, 1.0, 5)
    assert est.known_flaws == ()
    assert est.claimed_epsilon == est.epsilon == 1.0


@EACH
def test_they_claim_twice_epsilon_and_say_whose_coins_they_used(name: str) -> None:
    with warnings.catch_warnings(action="ignore"):
        est = MAKERS[name]()
    assert est.claimed_epsilon == 2 * est.epsilon
    assert est.secure
    assert "as printed; see known_flaws" in repr(est)
    assert hash(est.state) == hash(deepcopy(est.state)), "the auditor looks states up by what they hold"


@pytest.mark.filterwarnings("ignore::panprivacy.paper.NotPrivateAsPrinted")
def test_flaws_name_the_sizes_that_theory_computes() -> None:
    assert "lose 3.423 where 0.2 is claimed" in MAKERS["Dwork"]().known_flaws[0]
    assert "only 0.0513 of the 0.1" in MAKERS["Dwork"]().known_flaws[1]
    assert "lose 1.573 where 0.2 is claimed" in MAKERS["OptBern"]().known_flaws[0]
    assert f"loss is {inf}" in MAKERS["PPDS"]().known_flaws[0]
    assert "lose 3.423" in paper.PPDS(10, 0.1, 5, pair="dwork").known_flaws[1]
    high = paper.OptBern(10, 0.5, 5, c=0.8).known_flaws
    assert f"state alone then loses {theory.actual_epsilon(theory.symmetric_pair(0.5, 0.8)):.3f}" in high[0]
    assert "at least" in high[1]
