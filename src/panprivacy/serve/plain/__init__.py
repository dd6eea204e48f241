"""Bodies that are nothing but integers, read where they lie, without a copy in the memory of any library.

Most bodies are one column of integers. Those that are written in the plainest way are read here, many times as fast as
the readers of all that is allowed; whatever is not plain is left to these, and so is saying what is wrong with it.
"""

from typing import Any

from numpy.typing import NDArray

from panprivacy.events import Columns, Kind
from panprivacy.lazily import loaded
from panprivacy.memory import Scratch
from panprivacy.serve.bodies import Body, Form
from panprivacy.serve.plain.arrow import integers_in_arrow


def plain_ids(body: Body, columns: Columns, scratch: Scratch) -> list[NDArray[Any]] | None:
    """The ids of a body, in pieces; None if it, or what is asked of it, is not plain."""
    if columns.names != list(columns.ids) or len(columns.ids) != 1 or columns.kind is not Kind.integers:
        return None
    (name,) = columns.ids
    if body.form is Form.arrow:
        return integers_in_arrow(body.octets, name)
    if body.form is Form.ndjson:
        found = loaded("panprivacy.serve.plain.lines").integers_in_lines(body.octets, name, scratch)
        return None if found is None else [found]
    return None
