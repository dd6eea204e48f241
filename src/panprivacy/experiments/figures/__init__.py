"""The figures: 1 to 7 are the paper's, 8 to 10 are what it does not have."""

from panprivacy.experiments.figures.coins import BUDGETS, RATIOS
from panprivacy.experiments.figures.equal_bits import EQUAL_BITS
from panprivacy.experiments.figures.error_probability import ERROR_PROBABILITY
from panprivacy.experiments.figures.losses import LOSSES
from panprivacy.experiments.figures.mse import MSE_EPSILON, MSE_SAMPLE, MSE_THEORY
from panprivacy.experiments.figures.sample_sizes import SAMPLE_SIZES
from panprivacy.experiments.figures.saving import save
from panprivacy.experiments.figures.structured import STRUCTURED
from panprivacy.experiments.figures.study import Study

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
