"""What a counter promised when it was made, kept beside its state: a file that says otherwise later is refused."""

import json
import os
from pathlib import Path
from typing import Any

from panprivacy.errors import PanPrivacyError
from panprivacy.state.disk import sync_folder

_OWNER_ONLY = 0o600
_LOST = (
    "counters.{name}: its state {state} is missing, and with it what it has spent; a new one would spend the budget "
    "again: put the file back, or give the counter another name"
)


class Broken(PanPrivacyError):
    """The file asks for another counter than the one that runs under its name."""


class Promise:
    """The promise of one counter, when it was made, and which release is under way: all of it public.

    A release is noted here, without its value, before the state books it. So after a crash it is known of when the
    release is that the state has and nobody has seen.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, Any] = {}
        if path.exists():
            try:
                self._known = json.loads(path.read_bytes())
            except ValueError:
                raise Broken(f"counters.{path.stem}: {path} is damaged, and says what the counter promised") from None

    @property
    def begun(self) -> int:
        """The moment at which the counter was made."""
        return int(self._known["begun"])

    @property
    def under_way(self) -> dict[str, Any] | None:
        """The last release that was begun: its time and its period."""
        found: dict[str, Any] | None = self._known.get("under_way")
        return found

    def check(self, name: str, asked: dict[str, Any]) -> None:
        """Refuse another promise than the one that was made, by the names of the keys."""
        given = self._known.get("promise", asked)
        wrong = [
            f"counters.{name}.{key}: the running counter has {_said(given, key)}, and the file says {_said(asked, key)}"
            for key in sorted({*given, *asked})
            if given.get(key) != asked.get(key)
        ]
        if wrong:
            advice = "a promise cannot change: put it back, or give the counter another name"
            raise Broken("\n".join(f"{each}; {advice}" for each in wrong))

    def check_state(self, state: Path, listed: int) -> None:
        """Refuse to go on without the state of a counter that has one: a new state would have the whole budget again.

        `listed` is how many releases are published. A crash may leave a promise without a state that was never made.
        """
        if not state.exists() and (listed or self.under_way or "made" in self._known):
            raise Broken(_LOST.format(name=state.stem, state=state))
        if state.exists() and "promise" not in self._known:
            raise Broken(
                f"counters.{state.stem}: {self._path} is missing, which says what {state} promised: put it back"
            )

    def make(self, promise: dict[str, Any], moment: int) -> None:
        """Note the promise of a new counter."""
        self._write({"promise": promise, "begun": moment})

    def note_made(self) -> None:
        """Note that the counter has a state from now on."""
        if "made" not in self._known:
            self._write(self._known | {"made": True})

    def note_release(self, at: str, period: dict[str, Any] | None) -> None:
        """Note that a release is under way."""
        self._write(self._known | {"under_way": {"at": at, "period": period}})

    def _write(self, known: dict[str, Any]) -> None:
        new = self._path.with_name(self._path.name + ".new")
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY)
        try:
            os.write(handle, json.dumps(known).encode())
            os.fsync(handle)
        finally:
            os.close(handle)
        new.replace(self._path)
        sync_folder(self._path.parent)
        self._known = known


def _said(promise: dict[str, Any], key: str) -> str:
    return repr(promise[key]) if key in promise else "nothing"
