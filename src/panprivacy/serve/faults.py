"""What is wrong with a body, from the errors of its readers, which may quote a row, to words that never do."""

import re

from panprivacy.events import BadInput, Columns, Kind
from panprivacy.serve.refusals import Refused, Why

INTEGERS = "ids are integers, without quotes or leading zeros"
TEXTS = "ids are texts, or integers in digits"
_ROW = "this row is malformed, or its id is not what ids are here: "
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z_.-]{0,39}")
_MOST = 20  # names


def refusal(error: BadInput, columns: Columns) -> Refused:
    """The refusal that stands for an error which may quote a row."""
    ids = TEXTS if columns.kind is Kind.text else INTEGERS
    why, detail = sort_of(error), ""
    if error.sort == "id":
        detail = ids
    elif why is Why.no_column:
        detail = _lacking(error, columns)
    elif why is Why.unreadable and error.row is not None:
        detail = _ROW + ids
    return Refused(why, detail, row=error.row)


def sort_of(error: BadInput) -> Why:
    """The sort of refusal that an error of a reader is."""
    return Why.unreadable if error.sort == "id" else Why[error.sort]


def _lacking(error: BadInput, columns: Columns) -> str:
    """Name the column that is missing, and those that are there if none of them can be an id.

    The first row of a CSV body without header is taken for names. So they are told only where ids are integers and all
    names are without digits; and only few, or a sender could have anything repeated.
    """
    told = columns.kind is Kind.integers and len(error.has) <= _MOST and all(map(_PLAIN.fullmatch, error.has))
    there = f"; there are {', '.join(error.has)}" if told and error.has else ""
    return f"there is no column {error.lacks}{there}"
