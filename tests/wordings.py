"""All sentences of errors, by code, as in the source: `python tests/wordings.py` writes docs/reference/errors.md anew.

Tests ask for the code of an error. The page shows its sentence, once, and what a change of wording has changed.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from panprivacy import errors

ROOT = Path(__file__).resolve().parents[1]
SOURCE, PAGE = ROOT / "src" / "panprivacy", ROOT / "docs" / "reference" / "errors.md"

_GENERAL = ("PanPrivacyError", "InvalidValue", "InvalidType")
_HEAD = """# Errors by code

Every error that this library raises on purpose is a `pp.PanPrivacyError`. Its `code` stays when its sentence changes:
test for the code, show the sentence. `{...}` stands for a value. This page is written by `python tests/wordings.py`.

| code and class | sentence |
|---|---|
"""


class Wording(NamedTuple):
    """One sentence."""

    code: str
    error: str
    sentence: str

    def __str__(self) -> str:
        sentence = " ".join(self.sentence.split()).replace("|", "\\|")
        return f"| `{self.code}` {self.error} | {sentence} |"


@cache
def wordings() -> list[Wording]:
    """Every sentence with a code of its own."""
    return sorted({found for path in SOURCE.rglob("*.py") for found in _in(ast.parse(path.read_text()))})


def _in(tree: ast.AST) -> Iterator[Wording]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            codes = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
            if codes and isinstance(codes[0], ast.Constant) and isinstance(codes[0].value, str):
                error = ast.unparse(node.func).rpartition(".")[2]
                said = node.args[1] if error == "BadInput" else node.args[0]  # the first argument is the file
                yield Wording(codes[0].value, error, _sentence(said))


def _sentence(node: ast.expr) -> str:
    """A string or f-string as it is read, with dots in the place of values."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_sentence(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _sentence(node.left) + _sentence(node.right)
    return "{...}"


def uncoded() -> list[str]:
    """Where an error of a class that says little is made without a code."""
    return [
        f"{path.name}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _GENERAL
        if not any(keyword.arg in ("code", None) for keyword in node.keywords)
    ]


def general() -> list[Wording]:
    """The codes of errors that have none of their own."""
    classes = [thing for thing in vars(errors).values() if isinstance(thing, type)]
    kinds = [kind for kind in classes if issubclass(kind, errors.PanPrivacyError) and "CODE" in vars(kind)]
    return [Wording(kind.CODE, kind.__name__, (kind.__doc__ or "").split("\n")[0]) for kind in kinds]


def page() -> str:
    """The page, whole."""
    return _HEAD + "\n".join(map(str, (*general(), *wordings()))) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
