"""Periods as people write them: a unit is needed, and what could mean two things is refused."""

import re
from datetime import timedelta

import pytest

from panprivacy.periods import SECOND, days_of, length_of, parse_period
from panprivacy.testing import refused

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
    ],
)
def test_a_period_has_a_number_and_a_unit(text: str, seconds: float) -> None:
    assert parse_period(text) == seconds
    assert length_of(text) == round(seconds * SECOND)
    assert length_of(timedelta(seconds=seconds)) == length_of(text)


WRITTEN = "write it like 60s, 15m (minutes), 12h, 7d or 2w, or day, week, month, quarter or year"
DAYS_OR_MONTH = "write 30d for 30 days, or month for months of the calendar"


@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        ("7", f"period '7' has no unit; {WRITTEN}"),
        (
            "1M",
            f"period '1M': is that minutes or months? Write 1m for minutes, {DAYS_OR_MONTH.removeprefix('write ')}",
        ),
        ("7D", "period '7D': units are written in lower case, 7d"),
        ("1mo", f"period '1mo': months have 28 to 31 days; {DAYS_OR_MONTH}"),
        ("1Mo", f"period '1Mo': months have 28 to 31 days; {DAYS_OR_MONTH}"),
        ("1 month", f"period '1 month': months have 28 to 31 days; {DAYS_OR_MONTH}"),
        ("3mo", "period '3mo': months have 28 to 31 days; write 90d for 90 days, or month for months of the calendar"),
        ("1 fortnight", f"period '1 fortnight': there is no unit 'fortnight'; {WRITTEN}"),
        ("1y", f"period '1y': there is no unit 'y'; {WRITTEN}"),
        *((text, f"period {text!r} is not understood; {WRITTEN}") for text in ("", "d", "0d", "-1d", "1e3s", "1d 2h")),
    ],
)
def test_a_period_that_could_be_another_is_refused_with_what_to_write(text: str, doubt: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(doubt)}$"):
        parse_period(text)


@pytest.mark.parametrize("period", ["month", "quarter", "1mo", "3 months"])
def test_days_and_spans_of_actives_are_no_months(period: str) -> None:
    for span, every in ((period, "1d"), ("28d", period)):
        with refused("period-calendar"):
            days_of(span, every)
