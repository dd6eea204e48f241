"""Continual observation: the density at any time, any number of times."""

from panprivacy.continual.accuracy import Accuracy
from panprivacy.continual.observation import ContinualBudget, Observation
from panprivacy.continual.observer import Continual

__all__ = ["Accuracy", "Continual", "ContinualBudget", "Observation"]
