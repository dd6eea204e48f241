"""What a sender hands over: bytes in memory of our own, wiped as soon as their rows are counted."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from panprivacy.memory import wipe


class Form(StrEnum):
    """What a body can be."""

    arrow = "application/vnd.apache.arrow.stream"
    ndjson = "application/x-ndjson"
    csv = "text/csv"
    json = "application/json"


@dataclass(frozen=True)
class Body:
    """Rows as they came. Whoever takes it wipes it."""

    octets: NDArray[np.uint8]
    form: Form
    delete: bool = False
    """Whether its rows take users back, all of them."""

    @classmethod
    def copied(cls, data: bytes, form: Form, *, delete: bool = False) -> "Body":
        """A body with the bytes of somebody who still has them."""
        return cls(np.frombuffer(data, dtype=np.uint8).copy(), form, delete)

    def wipe(self) -> None:
        """Overwrite the bytes."""
        wipe(self.octets)
