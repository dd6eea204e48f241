"""Four weeks of visits, and options that count them week by week."""

from datetime import datetime, timedelta
from pathlib import Path

import polars as pl

USERS, WEEKS = 4000, 4
MONDAY = datetime(2026, 1, 5)  # files without a zone are in UTC
BUDGET = ("-c", "user", "-n", USERS, "-e", 12)
WEEKLY = ("--release-every", "7d")
FROM = ("--time", "when", "--start", "2026-01-05")


def visits() -> pl.DataFrame:
    """In each of four weeks a quarter of the users appears, the last event of a week an hour before it ends."""
    users = range(USERS)
    span = timedelta(days=7) - timedelta(hours=1)
    quarter = USERS // WEEKS
    when = [MONDAY + user // quarter * timedelta(days=7) + (user % quarter + 1) / quarter * span for user in users]
    return pl.DataFrame({"user": users, "when": when})


def rows(path: Path, *times: str) -> Path:
    """A file with one user for each of these times."""
    path.write_text("user,when\n" + "".join(f"{user},{time}\n" for user, time in enumerate(times)))
    return path


def visits_file(folder: Path) -> Path:
    """The visits in a file."""
    path = folder / "visits.parquet"
    visits().write_parquet(path)
    return path
