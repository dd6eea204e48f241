"""What tests of several commands use."""

from pathlib import Path

import pytest
from weekly import visits


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    """Four weeks of visits in a file."""
    path = tmp_path / "visits.parquet"
    visits().write_parquet(path)
    return path
