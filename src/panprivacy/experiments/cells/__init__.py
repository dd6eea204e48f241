"""What is computed. Every number of a reproduction comes from this folder and the library; the rest only shows it."""

from panprivacy.experiments.cells.algorithms import ALGORITHMS, bits_of_an_id
from panprivacy.experiments.cells.audits import StateLoss, TrueLoss
from panprivacy.experiments.cells.cell import Cell
from panprivacy.experiments.cells.printed import CoinCount, SampleSize
from panprivacy.experiments.cells.runs import Runs, Trial, runs
from panprivacy.experiments.cells.streams import Stream

__all__ = [
    "ALGORITHMS",
    "Cell",
    "CoinCount",
    "Runs",
    "SampleSize",
    "StateLoss",
    "Stream",
    "Trial",
    "TrueLoss",
    "bits_of_an_id",
    "runs",
]
