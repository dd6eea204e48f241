"""Files and lines of each room of the package, at an earlier revision of this repository and now.

    python benchmarks/sizes.py ca087f0

Code is what is left without docstrings, comments and blank lines.
"""

import argparse
import ast
import io
import subprocess
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "src/panprivacy"
_SILENT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def sources(revision: str | None) -> Iterator[tuple[str, str]]:
    """Every module of a revision, or of the working tree: its path in the package, and its text."""
    if revision is None:
        folder = ROOT / PACKAGE
        yield from ((path.relative_to(folder).as_posix(), path.read_text()) for path in sorted(folder.rglob("*.py")))
        return
    names = _git("ls-tree", "-r", "--name-only", revision, PACKAGE).splitlines()
    for name in (name for name in names if name.endswith(".py")):
        yield name.removeprefix(f"{PACKAGE}/"), _git("show", f"{revision}:{name}")


def code_lines(text: str) -> int:
    """Lines that hold code."""
    described = set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            described.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    held = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT:
            held.update(range(token.start[0], token.end[0] + 1))
    return len(held - described)


def sizes(revision: str | None) -> dict[str, Counter[str]]:
    """Files, lines and lines of code of each room."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for path, text in sources(revision):
        room = path.partition("/")[0] if "/" in path else "alone"
        for each in (room, "all"):
            found[each].update(files=1, lines=len(text.splitlines()), code=code_lines(text))
    return found


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="an earlier revision")
    revision = parser.parse_args().revision
    before, now = sizes(revision), sizes(None)
    print(f"{'room':14}{'files':>14}{'lines':>18}{'code':>18}{'code, more':>12}")
    for room in sorted({*before, *now}, key=lambda room: (room == "all", room)):
        old, new = before[room], now[room]
        cells = (f"{old[kind]:,} to {new[kind]:,}" for kind in ("files", "lines", "code"))
        print(f"{room:14}{next(cells):>14}{next(cells):>18}{next(cells):>18}{new['code'] - old['code']:>+12,}")


if __name__ == "__main__":
    main()
