"""The figures: 1 to 7 are the paper's, 8 to 10 are what it does not have."""

from panprivacy.experiments.figures.equal_bits import EQUAL_BITS, STRUCTURED
from panprivacy.experiments.figures.paper import (
    BUDGETS,
    ERROR_PROBABILITY,
    LOSSES,
    MSE_EPSILON,
    MSE_SAMPLE,
    MSE_THEORY,
    RATIOS,
    SAMPLE_SIZES,
)
from panprivacy.experiments.figures.study import Study, save

STUDIES: dict[int, Study] = {
    study.number: study
    for study in (
        SAMPLE_SIZES,
        RATIOS,
        BUDGETS,
        ERROR_PROBABILITY,
        MSE_THEORY,
        MSE_EPSILON,
        MSE_SAMPLE,
        EQUAL_BITS,
        LOSSES,
        STRUCTURED,
    )
}

__all__ = ["STUDIES", "Study", "save"]
