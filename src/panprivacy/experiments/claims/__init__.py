"""What was claimed, and whether it is so."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial

import polars as pl

from panprivacy.experiments.claims import errors, privacy
from panprivacy.experiments.claims.claim import Claim, Of, Verdict

JUDGES: Sequence[tuple[int, Callable[[pl.DataFrame], Claim]]] = (
    (1, privacy.half_an_order),
    (2, privacy.optbern_uses_all),
    (3, privacy.dwork_wastes),
    (4, errors.densities),
    (4, errors.optbern_errs_less),
    (4, errors.bounds_are_loose),
    (5, errors.theory_coincides),
    (6, errors.both_beat_dwork),
    (6, errors.robust_to_the_stream),
    (6, errors.ppds_on_sparse_streams),
    (7, errors.small_samples),
    (7, errors.ppds_in_the_middle),
    (7, errors.optbern_improves),
    (7, errors.identical_without_sampling),
    (9, partial(privacy.theorem, name="Dwork")),
    (9, partial(privacy.theorem, name="OptBern")),
    (9, partial(privacy.theorem, name="PPDS")),
    (9, privacy.budgets_are_kept),
    (8, errors.thirty_times_less),
    (10, errors.structure_does_not_matter),
)
"""Each claim is judged by the data of one figure."""


def judged(tables: Mapping[int, pl.DataFrame]) -> list[Claim]:
    """The claims about the figures whose tables are given, with their verdicts."""
    return [judge(tables[number]) for number, judge in JUDGES if number in tables]


def as_table(claims: Sequence[Claim]) -> pl.DataFrame:
    """The claims as rows."""
    return pl.DataFrame([asdict(claim) for claim in claims], schema=[field.name for field in fields(Claim)])


__all__ = ["JUDGES", "Claim", "Of", "Verdict", "as_table", "judged"]
