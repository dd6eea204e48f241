"""What every constructor and release asks of its arguments, each said in one place."""

from contextlib import suppress
from datetime import date, timedelta
from operator import index
from typing import Any
from uuid import UUID
from warnings import warn

from panprivacy.errors import InvalidType, InvalidValue

KEY_BYTES = 16
"""Length of a key that decides which bit a user owns."""

LARGEST_EPSILON = 1e6
"""More is no privacy at all, and its exponential no number."""


LEAST_DELTA = 1e-300
LARGEST_DELTA, TINY_DELTA = 1e-3, 1e-6
"""The largest delta there is, and the largest that is taken without a word."""


def check_number(value: Any, name: str) -> float:
    """A number as a float. Text is refused, and so is True, which Python takes for 1.

    >>> check_number(1, "epsilon")
    1.0
    """
    if not (isinstance(value, str | bytes) or is_truth(value)):
        with suppress(TypeError, ValueError, OverflowError):
            return float(value)
    raise InvalidType(f"{name} must be a number, got {shown(value)}", code="not-a-number")


def check_whole(value: Any, name: str) -> int:
    """A whole number as an integer. 1.5, text and True are refused.

    >>> check_whole(3, "releases")
    3
    """
    if is_truth(value) or not hasattr(value, "__index__"):
        raise InvalidType(f"{name} must be a whole number, got {shown(value)}", code="not-a-whole-number")
    return index(value)


_SHOWN = 60  # characters of a value that an error names


def shown(value: Any) -> str:
    """One value for an error to name, shortened; of an object that may hold many ids, its type only.

    >>> shown("ada"), shown(7), shown(range(7)), len(shown("a" * 1000))
    ("'ada'", '7', 'a range', 60)
    """
    parts = value if isinstance(value, tuple) else (value,)
    if all(
        isinstance(part, str | bytes | int | float | UUID | date | timedelta | None) or _of_numpy(part)
        for part in parts
    ):
        text = repr(value.item() if _of_numpy(value) else value)
        return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    return f"a {type(value).__name__}"


def _of_numpy(value: Any) -> bool:
    """Whether this is one number, text or time of NumPy, which is not imported to find out."""
    return type(value).__module__ == "numpy" and getattr(value, "shape", None) == ()


def is_truth(value: Any) -> bool:
    """Whether this is True or False, of Python or of NumPy."""
    return type(value).__name__ in ("bool", "bool_")


def check_flag(value: Any, name: str) -> bool:
    """True or False, and nothing else that Python takes for one of them.

    >>> check_flag(True, "newcomers")
    True
    """
    if not is_truth(value):
        raise InvalidType(f"{name} is True or False, got {shown(value)}", code="not-a-flag")
    return bool(value)


def check_epsilon(epsilon: Any) -> float:
    """A budget as a float, or `ValueError`.

    >>> check_epsilon(1)
    1.0
    """
    checked = check_number(epsilon, "epsilon")
    if not 0 < checked <= LARGEST_EPSILON:
        raise InvalidValue(
            f"epsilon must be positive and at most {LARGEST_EPSILON:,.0f}, got {epsilon}", code="epsilon-range"
        )
    return checked


class LargeDelta(UserWarning):
    """A delta that is no longer next to nothing."""


def check_delta(delta: Any) -> float | None:
    """A delta as a float, or `ValueError`; a delta that is not tiny comes with a warning that explains it.

    None says that none is allowed.

    >>> check_delta(1e-9)
    1e-09
    """
    if delta is None:
        return None
    checked = bounded_delta(delta)
    if checked > TINY_DELTA:
        warn(large_delta(checked), LargeDelta, stacklevel=3)
    return checked


def bounded_delta(delta: Any) -> float:
    """A delta as a float, or `ValueError`, without a word about its size."""
    checked = check_number(delta, "delta")
    if not 0 < checked <= LARGEST_DELTA:
        raise InvalidValue(f"delta must be above 0 and at most {LARGEST_DELTA:g}, got {delta}", code="delta-range")
    if checked < LEAST_DELTA:
        raise InvalidValue(
            f"delta {delta} is too small to compute with; leave it out, and nothing is lost beyond epsilon",
            code="delta-range",
        )
    return checked


def large_delta(delta: float) -> str:
    """The meaning of a delta that is not tiny, in words.

    >>> large_delta(1e-4)[:72]
    'delta 0.0001 is a probability: with a chance of up to one in 10,000 a pe'
    """
    return (
        f"delta {delta:g} is a probability: with a chance of up to one in {1 / delta:,.0f} a person loses more than "
        "epsilon, possibly everything; keep it far below one over the number of users"
    )


def check_level(level: Any) -> float:
    """The level of a confidence interval as a float, or `ValueError`.

    >>> from decimal import Decimal
    >>> check_level(Decimal("0.95"))
    0.95
    """
    try:
        checked = float(level)
    except (TypeError, ValueError):
        checked = 0.0
    if not 0 < checked < 1:
        raise InvalidValue(f"level must be between 0 and 1, got {shown(level)}", code="level-range")
    return checked


def check_key(key: bytes | None) -> bytes | None:
    """A key of the right length, or none."""
    if key is not None and not isinstance(key, bytes | bytearray | memoryview):
        raise InvalidType(f"key must be {KEY_BYTES} bytes, got a {type(key).__name__}", code="key-type")
    if key is not None and len(key) != KEY_BYTES:
        raise InvalidValue(f"key needs {KEY_BYTES} bytes, got {len(key)}", code="key-length")
    return key
