"""One table of the file: hands out its values, checked, and notes by the name of their key what is wrong with them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, TypeVar

from panprivacy.errors import PanPrivacyError
from panprivacy.periods import length_of, moment_of
from panprivacy.sizes import parse_bytes

T = TypeVar("T")


class BadConfig(PanPrivacyError, ValueError):
    """What is wrong with a file, one line for each key."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Table:
    """A table of a TOML file.

    A value that is wrong is noted, and its default is handed out, so that one reading finds all that is wrong.

    >>> problems: list[str] = []
    >>> table = Table({"epsilon": "one", "relases": 3}, "counters.flu", problems)
    >>> table.number("epsilon"), table.whole("releases", 1)
    (None, 1)
    >>> table.close(); problems
    ["counters.flu.epsilon: a number, not 'one'", 'counters.flu.relases: there is no such key; is it releases?']
    """

    def __init__(self, values: Mapping[str, Any], path: str, problems: list[str]) -> None:
        self._values = dict(values)
        self._path = path
        self._problems = problems
        self._known: list[str] = []

    def named(self, key: str) -> str:
        """A key as it is called in the whole file."""
        return f"{self._path}.{key}" if self._path else key

    def blame(self, key: str, cause: str) -> None:
        """Note that something is wrong with a key."""
        self._problems.append(f"{self.named(key) if key else self._path}: {cause}")

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    # --- values -------------------------------------------------------------------------------------------------

    def text(self, key: str, default: Any = None) -> Any:
        """A text."""
        return self._checked(key, default, "a text", lambda value: value if isinstance(value, str) else None)

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false."""
        found = self._checked(key, default, "true or false", lambda value: value if isinstance(value, bool) else None)
        return bool(found)

    def whole(self, key: str, default: Any = None, least: int = 0) -> Any:
        """A whole number."""
        wanted = f"a whole number, {least} or more" if least else "a whole number"
        return self._checked(key, default, wanted, lambda value: value if _is_whole(value) and value >= least else None)

    def number(self, key: str, default: Any = None) -> Any:
        """A number; none that is infinite, or not a number."""

        def number(value: Any) -> float | None:
            return float(value) if _is_whole(value) or (type(value) is float and isfinite(value)) else None

        return self._checked(key, default, "a number", number)

    def one_of(self, key: str, choices: Sequence[str], default: Any = None) -> Any:
        """One of some words."""
        wanted = f"one of {', '.join(choices)}"
        return self._checked(key, default, wanted, lambda value: value if value in choices else None)

    def texts(self, key: str, default: Any = None) -> Any:
        """A list of texts."""

        def texts(value: Any) -> tuple[str, ...] | None:
            return tuple(value) if isinstance(value, list) and all(isinstance(each, str) for each in value) else None

        return self._checked(key, default, "a list of texts", texts)

    def labels(self, key: str, default: Any = None) -> Any:
        """A list of texts, or of whole numbers."""

        def labels(value: Any) -> tuple[Any, ...] | None:
            same = isinstance(value, list) and value and len({type(each) for each in value}) == 1
            return tuple(value) if same and (_is_whole(value[0]) or isinstance(value[0], str)) else None

        return self._checked(key, default, "a list of texts or of whole numbers", labels)

    def size(self, key: str, default: Any = None) -> Any:
        """A number of bytes, such as 64 MiB."""
        return self._read(key, default, parse_bytes, (str, int))

    def period(self, key: str, default: Any = None) -> Any:
        """A period in microseconds, such as 7d."""
        return self._read(key, default, length_of, (str,))

    def moment(self, key: str, default: Any = None) -> Any:
        """A moment in microseconds since 1970, such as 2026-01-05."""
        return self._read(key, default, moment_of, (object,))

    # --- tables -------------------------------------------------------------------------------------------------

    def table(self, key: str) -> "Table | None":
        """A table inside this one; None if it is not there."""
        self._known.append(key)
        if key not in self._values:
            return None
        found = self._values[key]
        if not isinstance(found, Mapping):
            self.blame(key, "a table, like [" + self.named(key) + "]")
            return None
        return Table(found, self.named(key), self._problems)

    def table_or_empty(self, key: str) -> "Table":
        """A table inside this one, be it that it says nothing."""
        return self.table(key) or Table({}, self.named(key), self._problems)

    def tables(self, key: str) -> "dict[str, Table]":
        """The tables inside a table, by their names."""
        outer = self.table(key)
        if outer is None:
            return {}
        inner = {name: outer.table(name) for name in outer}
        return {name: table for name, table in inner.items() if table is not None}

    def plain(self) -> dict[str, Any]:
        """All values as they are, for whoever checks them otherwise."""
        return self._values

    def close(self) -> None:
        """Note keys that nobody asked for."""
        for key in self._values:
            if key not in self._known:
                near = _nearest(key, self._known)
                self.blame(key, f"there is no such key{f'; is it {near}?' if near else ''}")

    # --- checking -----------------------------------------------------------------------------------------------

    def _checked(self, key: str, default: Any, wanted: str, check: Callable[[Any], Any]) -> Any:
        self._known.append(key)
        if key not in self._values:
            return default
        found = check(self._values[key])
        if found is None:
            self.blame(key, f"{wanted}, not {self._values[key]!r}")
            return default
        return found

    def _read(self, key: str, default: Any, read: Callable[[Any], Any], types: tuple[type, ...]) -> Any:
        self._known.append(key)
        if key not in self._values:
            return default
        value = self._values[key]
        try:
            if not isinstance(value, types):
                raise TypeError(f"{value!r} is not understood")  # noqa: TRY301 - all that is wrong is said below
            return read(value)
        except (TypeError, ValueError) as error:
            self.blame(key, str(error))
            return default


def _is_whole(value: Any) -> bool:
    return type(value) is int


def _nearest(key: str, known: Sequence[str]) -> str | None:
    from difflib import get_close_matches

    return next(iter(get_close_matches(key, known, n=1)), None)
