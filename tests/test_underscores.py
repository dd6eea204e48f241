"""No package uses a name with an underscore of another package."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "panprivacy"
HOOKS = "testing.py"
"""The one module that may look inside others: it shows tests and auditors what they need to see."""


class Reach(NamedTuple):
    """A use of another package's underscore."""

    file: str
    line: int
    name: str


@cache
def parsed() -> dict[str, ast.Module]:
    """All modules by their paths in the package."""
    return {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }


@cache
def nodes_of(tree: ast.Module) -> list[ast.AST]:
    """All nodes of a module."""
    return list(ast.walk(tree))


def package_of(file: str) -> str:
    """The folder of a module, or the module itself if it is in none."""
    return file.partition("/")[0]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def attributes(tree: ast.Module) -> Iterator[str]:
    """What objects of a module's classes have: methods, variables of classes, and attributes that `self` is given."""
    for node in nodes_of(tree):
        if isinstance(node, ast.ClassDef):
            for each in node.body:
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield each.name
                elif isinstance(each, ast.Assign | ast.AnnAssign):
                    yield from (name.id for name in ast.walk(each) if isinstance(name, ast.Name))
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
            yield node.attr


def variables(tree: ast.Module) -> Iterator[str]:
    """What a module has at its top level."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        else:
            yield from (each.id for each in ast.walk(node) if isinstance(each, ast.Name))


def is_own(value: ast.expr) -> bool:
    """Whether an object is the one whose method this is."""
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def used(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Names with an underscore that a module uses of others, and whether they are of an imported module."""
    imported = {
        alias.asname or alias.name
        for node in nodes_of(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    for node in nodes_of(tree):
        if isinstance(node, ast.Attribute) and not is_own(node.value):
            yield node.lineno, node.attr, isinstance(node.value, ast.Name) and node.value.id in imported
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name, True) for alias in node.names)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("attr"):
            named = [each.value for each in node.args[1:2] if isinstance(each, ast.Constant)]
            yield from ((node.lineno, str(name), False) for name in named)


def reaches(modules: dict[str, ast.Module]) -> list[Reach]:
    """All uses of a name with an underscore that its own package does not define, and another one does."""
    objects: dict[str, set[str]] = {}
    whole: dict[str, set[str]] = {}
    for file, tree in modules.items():
        found = set(attributes(tree))
        objects.setdefault(package_of(file), set()).update(found)
        whole.setdefault(package_of(file), set()).update(found, variables(tree))
    known = set().union(*whole.values())
    elsewhere = {
        (room, of_module): known - (whole if of_module else objects)[room]
        for room in whole
        for of_module in (True, False)
    }
    return [
        Reach(file, line, name)
        for file, tree in modules.items()
        if file != HOOKS
        for line, name, of_module in used(tree)
        if is_private(name) and name in elsewhere[package_of(file), of_module]
    ]


@pytest.mark.slow
def test_packages_do_not_reach_into_each_other() -> None:
    found = reaches(parsed())

    assert not found, "\n".join(f"{each.file}:{each.line} {each.name}" for each in found)


def test_a_reach_is_found() -> None:
    modules = {
        "a/one.py": ast.parse("class A:\n    def __init__(self):\n        self._inner = 1\n"),
        "b/two.py": ast.parse("def f(a):\n    return a._inner, getattr(a, '_inner'), a._other\n"),
        "a/three.py": ast.parse("def f(a):\n    return a._inner\n"),
        HOOKS: ast.parse("def f(a):\n    return a._inner\n"),
    }

    assert [(each.file, each.name) for each in reaches(modules)] == [("b/two.py", "_inner")] * 2
