"""What a counter has published: one line of a file for each release, which everybody may read again at no cost."""

import json
import os
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

from panprivacy.errors import PanPrivacyError
from panprivacy.noisy import is_mostly_noise

Record = dict[str, Any]
"""One release as it is published."""

_UNITS = {"count": "users", "mean": "appearances"}
_OWNER_ONLY = 0o600


class Bulletin:
    """All releases of one counter, in order, on disk before anybody sees them.

    A line that a crash has cut short is taken off when the file is opened: the state itself knows the release, and
    whoever opens both publishes it again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.records: list[Record] = []
        self._heard: list[Callable[[Record], None]] = []
        whole = 0
        if path.exists():
            for line in path.read_bytes().splitlines(keepends=True):
                if not line.endswith(b"\n"):
                    break
                try:
                    self.records.append(json.loads(line))
                except ValueError:
                    raise PanPrivacyError(f"{path}: line {len(self.records) + 1} is damaged; mend it") from None
                whole += len(line)
            os.truncate(path, whole)

    @property
    def last(self) -> Record | None:
        """The last one; None before the first."""
        return self.records[-1] if self.records else None

    def hear(self, listener: Callable[[Record], None]) -> None:
        """Have somebody called with each release that is published from now on, by the thread that publishes it."""
        self._heard.append(listener)

    def publish(self, record: Record) -> None:
        """Write a release down, for everybody to read."""
        line = (json.dumps(record, separators=(",", ":")) + "\n").encode()
        handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _OWNER_ONLY)
        try:
            size = os.fstat(handle).st_size
            try:
                if os.write(handle, line) != len(line):
                    raise OSError(28, "no space left on device")  # noqa: TRY301 - as if the system had said so
                os.fsync(handle)
            except OSError:
                os.ftruncate(handle, size)
                raise
        finally:
            os.close(handle)
        self.records.append(record)

    def tell(self, record: Record) -> None:
        """Call those who listen."""
        for listener in self._heard:
            listener(record)


def record_of(number: int, released: Any, at: str, period: dict[str, Any] | None) -> Record:
    """A release as it is published: its values in one shape whatever the estimator, and the fields of the library."""
    plain = _finite(released.to_dict())
    groups = [{"group": row["group"], "values": values_of(row)} for row in plain.get("groups", ())]
    return {
        "id": number,
        "at": at,
        "period": period,
        "level": plain["level"],
        "values": values_of(plain),
        "groups": groups,
        "epsilon_spent": plain["epsilon_spent"],
        "delta_spent": plain["delta_spent"],
        "mostly_noise": is_mostly_noise(released),
        "release": plain,
    }


def values_of(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """All estimates among the fields of a release, each with its error and its interval.

    >>> values_of({"density": 0.5, "density_stderr": 0.1, "density_interval": [0.3, 0.7], "number": 1})
    [{'name': 'density', 'unit': 'share', 'value': 0.5, 'stderr': 0.1, 'low': 0.3, 'high': 0.7}]
    >>> [each["name"] for each in values_of({"active": [0.1, 0.2], "active_stderr": [0.01, 0.01]})]
    ['active 1', 'active 2']
    """
    found = []
    for name, value in fields.items():
        stderr, interval = fields.get(f"{name}_stderr"), fields.get(f"{name}_interval", fields.get(f"{name}_band"))
        if value is None or (stderr is None and interval is None):
            continue
        if isinstance(value, list):
            each = zip(value, stderr or [None] * len(value), interval or [None] * len(value), strict=True)
            found += [_value(f"{name} {i}", *one) for i, one in enumerate(each, 1)]
        else:
            found.append(_value(name, value, stderr, interval))
    return found


def _value(name: str, value: float, stderr: float | None, interval: list[float | None] | None) -> dict[str, Any]:
    low, high = interval or (None, None)
    unit = next((unit for word, unit in _UNITS.items() if word in name), "share")
    return {"name": name, "unit": unit, "value": value, "stderr": stderr, "low": low, "high": high}


def _finite(value: Any) -> Any:
    """The same as JSON has it: lists, and None for what is infinite."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not isfinite(value) else value
