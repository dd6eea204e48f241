"""Continual observation: the density at any time, any number of times."""

from panprivacy.estimators.continual.accuracy import Accuracy
from panprivacy.estimators.continual.observed import ContinualBudget, Observation
from panprivacy.estimators.continual.observer import Continual

__all__ = ["Accuracy", "Continual", "ContinualBudget", "Observation"]
