"""On a terminal, `panprivacy advise` asks for what was left out."""

import pytest
from terminal import watched

pytestmark = pytest.mark.slow


def test_what_is_left_out_is_asked() -> None:
    shown = "\n".join(watched("advise", typed="retention\n5000\n\n0.08\n"))
    assert "How many users could come" in shown
    assert "pp.Retention(5000, epsilon=" in shown
