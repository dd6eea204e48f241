"""All sentences of errors, by code, as in the source: `python tests/wordings.py` writes docs/reference/errors.md anew.

Tests ask for the code of an error. The page shows its sentence, once, and what a change of wording has changed.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from panprivacy import errors

ROOT = Path(__file__).resolve().parents[1]
SOURCE, PAGE = ROOT / "src" / "panprivacy", ROOT / "docs" / "reference" / "errors.md"

_HEAD = """# Errors by code

Use this page to find out what an error means, and to test for it in a program. Every error that this library raises on
purpose is a `pp.PanPrivacyError` with a `code`. The code stays when the sentence changes: test for the code, show the
sentence.

```python
>>> import panprivacy as pp
>>> try:
...     pp.Density(universe=1_000, epsilon=-1.0)
... except pp.PanPrivacyError as error:
...     print(f"{error.code}: {error}")
epsilon-range: epsilon must be positive and at most 1,000,000, got -1.0

```

A command prints the sentence in one line on standard error, and ends with status 2. The service answers with
[problem details](service.md#sending-events) instead; `/problems` lists them. `python tests/wordings.py` writes this
page from the source.

## Classes

The code of a class is the code of its errors that have none of their own.

| class and code | meaning |
|---|---|
"""
_CODES = """
## Codes

`{...}` stands for a value. A code with several sentences has one for each case.
"""
_NEAR = 4
"""A sentence stands at most so many lines above the error."""
_UNTOLD = "*(the sentence is put together case by case)*"


class Wording(NamedTuple):
    """One sentence."""

    code: str
    error: str
    sentence: str

    @property
    def cell(self) -> str:
        """The sentence in a table."""
        sentence = " ".join(self.sentence.split()).replace("|", "\\|")
        return re.sub(r"(?<![\w`-])--[a-z][a-z-]*", r"`\g<0>`", sentence)

    @property
    def tells(self) -> bool:
        """Whether the source has words of it, and not only values."""
        return any(map(str.isalpha, self.sentence.replace("{...}", "")))


@cache
def wordings() -> list[Wording]:
    """Every sentence with a code of its own."""
    trees = [ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")]
    named = [(name, text) for tree in trees for _, name, text in _assigned(tree) if name.isupper()]
    often = Counter(name for name, _ in named)
    named = [(name, text) for name, text in named if often[name] == 1]
    return sorted({found for tree in trees for found in _in(tree, dict(named))})


def _assigned(tree: ast.AST) -> Iterator[tuple[int, str, ast.expr]]:
    """Texts that have a name: line, name and text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and " " in _sentence(node.value, {}):
            yield node.lineno, node.targets[0].id, node.value


def _in(tree: ast.AST, named: dict[str, ast.expr]) -> Iterator[Wording]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            codes = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            if codes and isinstance(codes[0], ast.Constant) and isinstance(codes[0].value, str):
                error = ast.unparse(node.func).rpartition(".")[2]
                said = node.args[1] if error == "BadInput" else node.args[0]  # the first argument is the file
                just_above = {name: text for line, name, text in _assigned(tree) if 0 < node.lineno - line < _NEAR}
                yield Wording(codes[0].value, error, _sentence(said, named | just_above))


def _sentence(node: ast.expr, named: dict[str, ast.expr]) -> str:
    """A string or f-string as it is read, with dots in the place of values."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_sentence(part, named) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _sentence(node.value, named) if isinstance(node.value, ast.Name) else "{...}"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _sentence(node.left, named) + _sentence(node.right, named)
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return _sentence(named[name], {}) if name in named else "{...}"


def general() -> list[Wording]:
    """The codes of errors that have none of their own."""
    classes = [thing for thing in vars(errors).values() if isinstance(thing, type)]
    kinds = [kind for kind in classes if issubclass(kind, errors.PanPrivacyError) and "CODE" in vars(kind)]
    return [Wording(kind.CODE, kind.__name__, (kind.__doc__ or "").split("\n")[0]) for kind in kinds]


def page() -> str:
    """The page, whole: the classes, and then the codes by their first letter."""
    classes = "\n".join(f"| {kind.error} `{kind.code}` | {kind.cell} |" for kind in general())
    parts = [
        f"\n### {letter.upper()}\n\n| code and class | sentence |\n|---|---|\n{_rows(list(found))}\n"
        for letter, found in groupby(wordings(), lambda wording: wording.code[0])
    ]
    return f"{_HEAD}{classes}\n{_CODES}{''.join(parts)}"


def _rows(found: list[Wording]) -> str:
    """A row for each code, with all its sentences."""
    rows = []
    for code, same in groupby(found, lambda wording: wording.code):
        sentences = list(same)
        told = "<br>".join(wording.cell for wording in sentences if wording.tells) or _UNTOLD
        rows.append(f"| `{code}` {sentences[0].error} | {told} |")
    return "\n".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page())
