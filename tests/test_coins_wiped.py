"""Nothing random survives a call, and nothing random comes from elsewhere."""

import ast
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import panprivacy
from panprivacy.privacy import coins, kernels
from panprivacy.privacy.coins import SystemCoins

BLOCK = coins.BLOCK


class Witness:
    """Looks on while keystreams are drawn, and keeps the buffers to see what is left in them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: list[bytes] = []
        self.successors: list[bytes] = []
        self.buffers: list[coins.Buffer] = []
        self._keystream = coins.keystream
        monkeypatch.setattr(coins, "keystream", self)

    def __call__(self, key: bytearray) -> Callable[[coins.Buffer], None]:
        self.keys.append(bytes(key))
        draw = self._keystream(key)

        def watched(zeros: coins.Buffer) -> None:
            assert not any(zeros), "the buffer must be zero, or it does not become the keystream"
            draw(zeros)
            assert any(zeros) or len(zeros) < 32
            if zeros is key:
                self.successors.append(bytes(key))
            self.buffers.append(zeros)

        return watched

    def left(self) -> int:
        """How many bytes of keys and words are still in memory: what is neither 0 nor 1 is no flip."""
        return sum(int(np.count_nonzero(np.frombuffer(buffer, np.uint8) > 1)) for buffer in self.buffers)


def test_a_long_batch_replaces_its_key_by_bytes_of_each_block_and_wipes_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    witness = Witness(monkeypatch)
    SystemCoins().below(2**30, 4 * BLOCK + 5)
    assert len(witness.keys) == 5
    assert len(set(witness.keys)) == 5
    assert witness.keys[1:] == witness.successors[:-1]
    assert witness.left() == 0


def test_a_batch_that_breaks_off_wipes_everything_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    witness = Witness(monkeypatch)
    monkeypatch.setattr(kernels, "compare", interrupted)
    with pytest.raises(KeyboardInterrupt):
        SystemCoins().below(2**30, 10_000)
    assert witness.keys
    assert witness.left() == 0


def test_a_short_batch_leaves_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    buffers: list[coins.Buffer] = []
    fill = coins.fill_from_system

    def watched(buffer: coins.Buffer) -> None:
        fill(buffer)
        buffers.append(buffer)

    monkeypatch.setattr(coins, "fill_from_system", watched)
    SystemCoins().below(2**30, coins.SHORT)  # of so many, some tie
    assert len(buffers) == 2
    assert all(int(np.frombuffer(buffer, np.uint8).max(initial=0)) <= 1 for buffer in buffers)


def test_the_source_holds_nothing_between_calls() -> None:
    coins.system.below(2**31, 10)
    assert vars(coins.system) == {}


@pytest.mark.usefixtures("operating_system")
def test_no_descriptor_is_kept_that_others_could_close_and_reuse() -> None:
    """A daemon closes all descriptors and opens others: coins must not be read from one of those."""
    descriptors = Path("/proc/self/fd")
    before = len(list(descriptors.iterdir())) if descriptors.exists() else 0
    coins.system.below(2**31, 10)
    coins.system.flip(2**31)
    # Not "as many": what other tests left open may be closed by the garbage collector meanwhile.
    assert not before or len(list(descriptors.iterdir())) <= before


# --- no other randomness --------------------------------------------------------------------------------------------

# Simulated streams need no secrecy: what they feed is an estimator with coins of its own.
MAY_SIMULATE = (
    "testing.py",
    "experiments/",
    "audit/memory/batches.py",
    "audit/memory/processes.py",
    "audit/memory/refusals.py",
    "audit/memory/services.py",
    "cli/commands/trying.py",
    "serve/demo.py",
)


def foreign_randomness(source: str) -> list[str]:
    """Every use of `random`, `numpy.random` or `os.urandom` in a source text."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name in ("random", "numpy.random")]
        elif isinstance(node, ast.ImportFrom) and node.module in ("random", "numpy.random"):
            found.append(node.module)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            dotted = f"{node.value.id}.{node.attr}"
            found += [dotted] if dotted in ("np.random", "numpy.random", "os.urandom") else []
    return found


@pytest.mark.slow
def test_no_other_generator_is_used_anywhere_in_the_package() -> None:
    root = Path(panprivacy.__file__).parent
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if not name.startswith((*MAY_SIMULATE, "privacy/coins.py")):
            assert not foreign_randomness(path.read_text(encoding="utf-8")), name


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "from random import randint",
        "import numpy as np\nnp.random.default_rng()",
        "import numpy.random",
    ],
)
def test_the_scan_finds_another_generator(source: str) -> None:
    assert foreign_randomness(source)
