"""Periods as people write them: a unit is needed, and what could mean two things is refused."""

import re
from datetime import timedelta

import pytest

from panprivacy.periods import SECOND, length_of, parse_period

DAY = 86400.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        ("60s", 60.0),
        ("15m", 900.0),
        ("1.5 h", 5400.0),
        (" 7d ", 7 * DAY),
        ("2w", 14 * DAY),
        ("1mo", 30 * DAY),
        ("0.5mo", 15 * DAY),
    ],
)
def test_a_period_has_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_period(text) == seconds
    assert length_of(text) == round(seconds * SECOND)
    assert length_of(timedelta(seconds=seconds)) == length_of(text)


WRITTEN = "write it like 60s, 15m (minutes), 12h, 7d, 2w or 1mo (30 days), or day, week, month, quarter or year"


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("7", f"period '7' has no unit; {WRITTEN}"),
        ("1M", "period '1M': is that minutes or months? Write 1m for minutes, or 1mo for months of 30 days"),
        ("7D", "period '7D': units are written in lower case, 7d"),
        ("1Mo", "period '1Mo': units are written in lower case, 1mo"),
        ("1 fortnight", f"period '1 fortnight': there is no unit 'fortnight'; {WRITTEN}"),
        ("1y", f"period '1y': there is no unit 'y'; {WRITTEN}"),
        *((text, f"period {text!r} is not understood; {WRITTEN}") for text in ("", "d", "0d", "-1d", "1e3s", "1d 2h")),
    ],
)
def test_a_period_that_could_be_another_is_refused_with_what_to_write(text: str, doubt: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(doubt)}$"):
        parse_period(text)
