"""The first event loads nothing and compiles nothing: what a process has loaded does not tell that there was one."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from textwrap import dedent
from typing import TypeAlias

import pytest

pytestmark = pytest.mark.slow

Changes: TypeAlias = Callable[..., dict[str, list[str]]]

WATCH = """
import json, os, sys
import numpy as np
import panprivacy as pp
import panprivacy.estimators.base  # with the kernels that every estimator loads when it is built
from panprivacy.paper import FixedLevelPPDS

def loaded():
    from numba.core.dispatcher import Dispatcher
    kernels = {}
    for module in [name for name in sys.modules if name.startswith("panprivacy")]:
        # neither vars nor isinstance, which look at names of a module, and load one that is loaded late
        for name, thing in object.__getattribute__(sys.modules[module], "__dict__").items():
            if issubclass(type(thing), Dispatcher):
                kernels[f"{module}.{name}"] = len(thing.signatures)
    return set(sys.modules), kernels

def changed(before):
    modules, kernels = loaded()
    return sorted(modules - before[0]) + [name for name in kernels if kernels[name] != before[1].get(name)]

def read_only(ids):
    array = np.array(ids)
    array.flags.writeable = False
    return array

NUMBERS = [5, 2, 9, 998]

for line in sys.stdin:
    if os.fork() == 0:
        exec(json.loads(line))
        os._exit(0)
    if os.wait()[1]:
        print("null", flush=True)
"""

COLUMNS = {
    "int64": "np.array(NUMBERS)",
    "int32": "np.array(NUMBERS, dtype=np.int32)",
    "uint64": "np.array(NUMBERS, dtype=np.uint64)",
    "read-only": "read_only(NUMBERS)",
    "strided": "np.repeat(NUMBERS, 2)[::2]",
    "list": "NUMBERS",
    "range": "range(7)",
    "long": "np.arange(600_000) % 1000",
}
EDGES = {
    "int64": "np.array([[1, 2], [7, 3]])",
    "int32": "np.array([[1, 2], [7, 3]], dtype=np.int32)",
    "columns": "(np.array([1, 7]), np.array([2, 3]))",
    "list": "[(1, 2), (7, 3)]",
}
NAMES = {"list": "['ada', 'grace']", "array": "np.array(['ada', 'grace'])", "bytes": "[b'ada']"}
SUBJECTS = {
    "density": ("pp.Density(1000, 9.0, intrusions=1)", "5", COLUMNS),
    "sampled": ("pp.Density(1000, 9.0, sample=500, intrusions=1)", "5", COLUMNS),
    "shard": ("pp.Density(1000, 9.0, shard=(1, 2))", "5", COLUMNS),
    "counts": ("pp.Counts(1000, 9.0)", "5", COLUMNS),
    "listed numbers": ("pp.Density(pp.Users(range(1000)), 9.0)", "5", COLUMNS),
    "listed names": ("pp.Density(pp.Users(['ada', 'grace', 'mary']), 9.0)", "'ada'", {"list": NAMES["list"]}),
    "edges": ("pp.Density(pp.Edges(50), 9.0)", "(3, 4)", EDGES),
    "distinct numbers": ("pp.DistinctCount(9.0, 64, intrusions=1)", "5", COLUMNS),
    "distinct names": ("pp.DistinctCount(9.0, 64)", "'ada'", NAMES),
    "delta": ("pp.Density(1000, 9.0, releases=90, delta=1e-9)", "5", {"list": "NUMBERS"}),
    "categories": ("pp.Density(1000, 9.0, categories=['flu', 'cold'])", "5, 'flu'", {"list": "NUMBERS, ['flu'] * 4"}),
    "distinct categories": (
        "pp.DistinctCount(9.0, 64, categories=['a', 'b'])",
        "5, 'a'",
        {"list": "NUMBERS, ['a'] * 4"},
    ),
    "loaded": ("pp.load(pp.Counts(1000, 9.0, delta=1e-9, releases=90).to_bytes())", "5", {"list": "NUMBERS"}),
    "fixed level": ("FixedLevelPPDS(1000, 9.0, 100)", "5", COLUMNS),
}


@pytest.fixture(scope="module")
def changes() -> Iterator[Changes]:
    """Which modules were loaded, and which kernels compiled, by each of some calls in a process of their own.

    It is forked from one that has loaded what every estimator loads before there is any event, and nothing else.
    """
    command = [sys.executable, "-c", dedent(WATCH)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        asked, answers = parent.stdin, parent.stdout
        assert asked is not None
        assert answers is not None

        def made(make: str, events: dict[str, str], planted: str = "") -> dict[str, list[str]]:
            script = f"est = {make}\n{planted}\nfound = {{}}\n"
            for name, call in events.items():
                script += f"before = loaded()\n{call}\nfound[{name!r}] = changed(before)\n"
            print(json.dumps(script + "print(json.dumps(found), flush=True)"), file=asked, flush=True)
            found = json.loads(answers.readline())
            assert found is not None, "the process failed, and says why on standard error"
            return {name: changed for name, changed in found.items() if changed}

        yield made


def calls_on(name: str) -> dict[str, str]:
    make, user, columns = SUBJECTS[name]
    batches = {f"update_many of {kind}": f"est.update_many({column})" for kind, column in columns.items()}
    removed = {} if "Distinct" in make else {"remove": f"est.remove({user})"}
    redrawn = {"rerandomize": "est.rerandomize()"} if "intrusions" in make else {}
    return {"update": f"est.update({user})", **batches, **removed, **redrawn, "release": "est.release()"}


@pytest.mark.parametrize("name", SUBJECTS)
def test_no_event_and_no_release_loads_or_compiles_anything(name: str, changes: Changes) -> None:
    assert changes(SUBJECTS[name][0], calls_on(name)) == {}


@pytest.mark.parametrize("kind", ["int32", "strided", "list"])
@pytest.mark.parametrize("name", ["sampled", "distinct numbers"])
def test_neither_does_a_batch_that_comes_first(name: str, kind: str, changes: Changes) -> None:
    assert changes(SUBJECTS[name][0], {"first": f"est.update_many({COLUMNS[kind]})"}) == {}


def test_a_module_that_the_first_event_loads_is_found(changes: Changes) -> None:
    planted = "est.update = lambda user: __import__('colorsys')"
    assert changes(SUBJECTS["density"][0], {"update": "est.update(5)"}, planted) == {"update": ["colorsys"]}


def test_a_kernel_that_the_first_event_compiles_is_found(changes: Changes) -> None:
    planted = "import numba, panprivacy.table.kernels as k\nk.late = numba.njit(lambda n: n + 1)\nest.update = k.late"
    found = changes(SUBJECTS["density"][0], {"update": "est.update(5)"}, planted)
    assert "panprivacy.table.kernels.late" in found["update"]
