"""A process under audit: started, led from checkpoint to checkpoint, and imaged in between."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from panprivacy.audit.imaging.processes import CannotImage
from panprivacy.audit.imaging.subjects import Shown
from panprivacy.audit.imaging.truth import Version
from panprivacy.hardening import AT_START


def environment(*, hardened: bool) -> dict[str, str]:
    """The environment of a process under audit: this one's modules, and its allocators as asked."""
    plain = {name: value for name, value in os.environ.items() if name not in AT_START}
    return (
        plain
        | {"PYTHONPATH": os.pathsep.join(str(Path(folder).resolve()) for folder in sys.path)}
        | (AT_START if hardened else {})
    )


class Stage:
    """The child process of a scenario."""

    def __init__(self, plan: dict[str, Any], path: Path, *, hardened: bool) -> None:
        self._keys, keys = os.pipe()
        self._counts, counts = os.pipe()
        for told in (self._keys, self._counts):
            os.set_blocking(told, False)
        path.write_text(json.dumps(plan | {"keys": keys, "counts": counts}))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "panprivacy.audit.imaging.child", str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[keys, counts],
            cwd=plan["folder"],
            env=environment(hardened=hardened),
        )
        for given in (keys, counts):
            os.close(given)
        self.keys = b""
        """All keys that the coins have drawn so far."""
        self.counts = b""
        """All counts that were released so far, as `Counted` reads them."""

    @property
    def process(self) -> int:
        """Its number."""
        return self._process.pid

    def versions(self) -> list[Version]:
        """Wait for a checkpoint; the bits of all tables there."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            assert self._process.stderr is not None
            raise CannotImage(f"the process under audit has ended: {self._process.stderr.read().decode()}")
        self.keys += b"".join(_arrived(self._keys))
        self.counts += b"".join(_arrived(self._counts))
        return [Version.at(Shown(**table), self.process) for table in json.loads(line)]

    def go_on(self) -> None:
        """Let it do the next step."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        for told in (self._keys, self._counts):
            os.close(told)


def _arrived(pipe: int) -> Iterator[bytes]:
    """What is in a pipe now."""
    try:
        while piece := os.read(pipe, 2**16):
            yield piece
    except BlockingIOError:
        pass


@contextmanager
def folders() -> Iterator[tuple[Path, Path]]:
    """A folder that is imaged, and one beside it for what the auditor hands over."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="panprivacy-audit-") as name:
        imaged, handed = Path(name) / "imaged", Path(name) / "handed"
        imaged.mkdir()
        handed.mkdir()
        yield imaged, handed
