"""Crossings: every exported estimator with every feature that it can meet, each audited, refused or not applicable."""

from panprivacy.audit.crossings.cells import Cell, How, Verdict
from panprivacy.audit.crossings.columns import COLUMNS
from panprivacy.audit.crossings.more import MORE
from panprivacy.audit.crossings.rows import Row, exported, rows
from panprivacy.audit.crossings.table import Crossing, Filled, crossings, fill, markdown

__all__ = [
    "COLUMNS",
    "MORE",
    "Cell",
    "Crossing",
    "Filled",
    "How",
    "Row",
    "Verdict",
    "crossings",
    "exported",
    "fill",
    "markdown",
    "rows",
]
