"""Pages that show what commands print: a block of `sh`, and after it, if it prints something, one of `console`.

    python tests/cli/shown.py docs/tutorials/flights.md      # write what the commands print now into the page

What is private comes out different each time, so pages are compared by their words, with `#` for every number.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from warm import warm_commands

SOURCE = Path(__file__).parents[2] / "src"
_SHOWN = re.compile(r"```sh\n(?P<commands>.*?)```\n(?:\n```console\n(?P<output>.*?)```\n)?", flags=re.DOTALL)
_MARK = "=== the next block ==="


class Block(NamedTuple):
    """Commands, and what the page says that they print."""

    commands: str
    output: str


def blocks(page: str) -> list[Block]:
    """The commands of a page, with what it shows of them."""
    return [Block(found["commands"], found["output"] or "") for found in _SHOWN.finditer(page)]


def printed(page: str, folder: Path) -> list[str]:
    """What each block prints when they run one after the other in one shell; the first failure ends them all."""
    script = "set -euo pipefail\n" + f"echo '{_MARK}'\n".join(block.commands for block in blocks(page))
    environment = shell_environment()
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    return ran.stdout.split(f"{_MARK}\n")


def shell_environment() -> dict[str, str]:
    """Variables of a shell in which `panprivacy` and `python` are those under test."""
    path = os.pathsep.join([str(warm_commands()), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(SOURCE)}


def words(output: str) -> str:
    """An output without its numbers.

    >>> words("density 0.7919 ± 0.0200; users 2,631, of 3,322")
    'density # ± #; users #, of #'
    """
    return re.sub(r"[0-9]+(?:[.,][0-9]+)*", "#", output)


def rewritten(page: str, outputs: list[str]) -> str:
    """The page with these outputs."""
    rest = iter(outputs)

    def block(found: re.Match[str]) -> str:
        output = next(rest)
        shown = f"\n```console\n{output}```\n" if found["output"] else ""
        return f"```sh\n{found['commands']}```\n{shown}"

    return _SHOWN.sub(block, page)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        file = Path(name)
        text = file.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as scratch:
            file.write_text(rewritten(text, printed(text, Path(scratch))), encoding="utf-8")
