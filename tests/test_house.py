"""The house: rooms do not reach into each other, nor do tests into rooms; functions are short; the sizes are known."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "panprivacy"
HOOKS = "testing.py"
"""The one module that may look inside others: it shows tests and auditors what they need to see."""
REACHES = 0
"""Uses of a name with an underscore that only other rooms define."""
LONGEST, LONG = 45, 0
"""Lines of a function, its docstring not counted; and how many are longer. Lower it, too."""
HIDDEN = 124
"""Uses of the package's underscores in tests, which `panprivacy.testing` could show. To be lowered."""
QUOTED = 35
"""Errors that tests expect by words, and not by a code (`panprivacy.testing.refused`).

These have no code: a caller inside the package has broken a rule (a threshold, a size), an auditor cannot follow what
it audits (with a code, a crossing would take that for a refusal of the estimator), a folder is missing (Python's own
error), or the words themselves are what is tested (periods as people write them, names of columns that are not shown).
"""
FILES, LINES = 204, 51_100
"""Files and lines of the package, at most."""


class Reach(NamedTuple):
    """A use of another room's underscore."""

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
    """All nodes of a module; three tests ask for them."""
    return list(ast.walk(tree))


def room_of(file: str) -> str:
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
    """All uses of a name with an underscore that the own room does not define, and another one does."""
    objects: dict[str, set[str]] = {}
    whole: dict[str, set[str]] = {}
    for file, tree in modules.items():
        found = set(attributes(tree))
        objects.setdefault(room_of(file), set()).update(found)
        whole.setdefault(room_of(file), set()).update(found, variables(tree))
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
        if is_private(name) and name in elsewhere[room_of(file), of_module]
    ]


@pytest.mark.slow
def test_rooms_do_not_reach_into_each_other() -> None:
    found = reaches(parsed())

    assert len(found) <= REACHES, "\n".join(f"{each.file}:{each.line} {each.name}" for each in found)


def test_a_reach_is_found() -> None:
    modules = {
        "a/one.py": ast.parse("class A:\n    def __init__(self):\n        self._inner = 1\n"),
        "b/two.py": ast.parse("def f(a):\n    return a._inner, getattr(a, '_inner'), a._other\n"),
        "a/three.py": ast.parse("def f(a):\n    return a._inner\n"),
        HOOKS: ast.parse("def f(a):\n    return a._inner\n"),
    }

    assert [(each.file, each.name) for each in reaches(modules)] == [("b/two.py", "_inner")] * 2


@cache
def parsed_tests() -> dict[str, ast.Module]:
    """All modules of tests by their paths."""
    folder = Path(__file__).parent
    return {
        path.relative_to(folder).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(folder.rglob("*.py"))
    }


@pytest.mark.slow
def test_tests_use_few_names_that_the_package_hides() -> None:
    known = {name for tree in parsed().values() for name in (*attributes(tree), *variables(tree))}
    hidden = {name for name in known if is_private(name)} - {"_repr_html_"}  # notebooks call this one
    found = [
        f"{file}:{line} {name}"
        for file, tree in parsed_tests().items()
        for line, name, _ in used(tree)
        if name in hidden
    ]

    assert len(found) <= HIDDEN, "\n".join(found)


@pytest.mark.slow
def test_tests_quote_few_sentences_of_errors() -> None:
    """A test that plants an error, or expects an assertion of its own to fail, may quote it."""
    own = ("AssertionError", "OSError", "BlockingIOError", "KeyboardInterrupt")
    found = [
        f"{file}:{node.lineno}"
        for file, tree in parsed_tests().items()
        for node in nodes_of(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "pytest.raises"
        and any(keyword.arg == "match" for keyword in node.keywords)
        and ast.unparse(node.args[0]) not in own
    ]

    assert len(found) <= QUOTED, "\n".join(found)


def shell_words(tree: ast.Module) -> list[str]:
    """Names of options, such as --state, in the texts of a module; in comments they may stand."""
    return [
        f"{node.lineno} {word}"
        for node in nodes_of(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for word in re.findall(r"(?<![\w-])--[a-z][a-z-]*", node.value)
    ]


@pytest.mark.slow
def test_words_of_the_shell_are_in_rooms_that_are_run_by_commands() -> None:
    """The service and its command are one program; auditors start commands; a reproduction says how it was started."""
    run = ("cli", "serve", "audit", "experiments")
    found = {file: shell_words(tree) for file, tree in parsed().items() if room_of(file) not in run}
    assert not any(found.values()), {file: words for file, words in found.items() if words}


def test_a_word_of_the_shell_is_found() -> None:
    planted = "def f(n):\n    raise ValueError(f'{n} is too many: say --state FILE')  # or --shards\n"
    assert shell_words(ast.parse(planted)) == ["2 --state"]


def functions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Each function that is not compiled by numba, and how many lines it has below its docstring."""
    for node in nodes_of(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            compiled = any("njit" in ast.unparse(decorator) for decorator in node.decorator_list)
            documented = isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant)
            docstring = (node.body[0].end_lineno or 0) - node.body[0].lineno + 1 if documented else 0
            if not compiled:  # a kernel is one loop, which calls cost
                yield node.name, (node.end_lineno or 0) - node.lineno + 1 - docstring


@pytest.mark.slow
def test_functions_are_short() -> None:
    long = [f"{file} {name}: {n}" for file, tree in parsed().items() for name, n in functions(tree) if n > LONGEST]

    assert len(long) <= LONG, "\n".join(long)


def test_the_package_stays_small() -> None:
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCE.rglob("*.py"))
    print(f"{len(parsed())} files, {lines:,} lines")

    assert len(parsed()) <= FILES
    assert lines <= LINES
