"""Tables of a configuration file, checked by pydantic; each problem is one line that names its key.

A line says where and what: ``counters.visits.epsilon: must be above 0, got -1``. Values that could be secret are not
repeated. Needs pydantic, which the extras `serve`, `kafka`, `nats` and `redis` bring along.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from panprivacy.display import parse_bytes
from panprivacy.errors import PanPrivacyError
from panprivacy.periods import length_of, moment_of, zone_of

_SECRET = frozenset({"hash", "options"})  # keys whose values are never repeated
_LONGEST = 60  # characters of a value that is repeated


class InvalidSettings(PanPrivacyError, ValueError):
    """All that is wrong with a configuration file, one line for each key."""

    CODE: ClassVar[str] = "invalid-settings"

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems: tuple[str, ...] = tuple(problems)


class KeyProblems(ValueError):
    """Keys of one table that do not fit together: pairs of a key (or nothing, for the table) and a sentence."""

    def __init__(self, problems: Iterable[tuple[str, str]]) -> None:
        self.problems: tuple[tuple[str, str], ...] = tuple(problems)
        super().__init__("; ".join(": ".join(each) for each in self.problems))


class Table(BaseModel):
    """A table of a file: known keys only, values of just the right type."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, hide_input_in_errors=True,
        arbitrary_types_allowed=True,
    )  # fmt: skip


T = TypeVar("T", bound=Table)


def read_table(model: type[T], values: Any, path: str, problems: list[str]) -> T | None:
    """The table at a path of the file; None if something is wrong with it, which is added to `problems`.

    >>> class Counter(Table):
    ...     epsilon: float
    ...     releases: int = 1
    >>> problems: list[str] = []
    >>> read_table(Counter, {"epsilon": "one", "relases": 3}, "counters.flu", problems)
    >>> for problem in problems: print(problem)
    counters.flu.epsilon: must be a number, got 'one'
    counters.flu.relases: there is no such key; is it releases?
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        for each in error.errors(include_url=False):
            problems += _lines(each, model, path)
        return None


def with_files(values: dict[str, Any], folder: Path, path: str, problems: list[str]) -> dict[str, Any]:
    """The same with what files hold in the place of values such as `{ file = "kafka-password" }`."""
    found = dict(values)
    for key, value in values.items():
        if isinstance(value, dict) and list(value) == ["file"] and isinstance(value["file"], str):
            file = secret_file(value["file"], folder)
            try:
                found[key] = file.read_text().rstrip("\r\n")
            except (OSError, UnicodeDecodeError):
                problems.append(f"{named(path, key)}: there is no file of text {file}")
    return found


def secret_file(name: str, folder: Path) -> Path:
    """Where a file is: among the credentials that systemd has passed on, or else named from a folder on."""
    passed = Path(os.environ.get("CREDENTIALS_DIRECTORY", "/nonexistent"), name)
    return passed if passed.is_file() else folder / name


def named(path: str, *keys: Any) -> str:
    """A key as the whole file calls it."""
    return ".".join(str(key) for key in (path, *keys) if key != "")


def _lines(error: Mapping[str, Any], model: type[BaseModel], path: str) -> list[str]:
    loc, cause = error["loc"], (error.get("ctx") or {}).get("error")
    if isinstance(cause, KeyProblems):
        return [f"{named(path, *loc, key)}: {sentence}" for key, sentence in cause.problems]
    where = named(path, *(key for key in loc if not isinstance(key, int)))
    if error["type"] == "extra_forbidden":
        near = get_close_matches(str(loc[-1]), list(_table_at(model, loc[:-1]).model_fields), n=1)
        return [f"{where}: there is no such key{f'; is it {near[0]}?' if near else ''}"]
    if error["type"] == "missing":
        told = _table_at(model, loc[:-1]).model_fields[str(loc[-1])].description
        return [f"{where}: is missing{f': {told}' if told else ''}"]
    return [f"{where}: {_sentence(error, where)}"]


def _table_at(model: type[BaseModel], keys: Sequence[Any]) -> type[BaseModel]:
    """The model of a table inside a table."""
    for key in keys:
        field = model.model_fields[str(key)].annotation
        model = next(
            each for each in (field, *get_args(field)) if isinstance(each, type) and issubclass(each, BaseModel)
        )
    return model


_MUST: dict[str, str] = {
    "string_type": "must be a text",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "list_type": "must be a list",
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be below {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "too_short": "must not be empty",
    "literal_error": "must be {expected}",
}
_TABLE_TYPES = ("model_type", "dict_type")


def _sentence(error: Mapping[str, Any], where: str) -> str:
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    if error["type"] in _TABLE_TYPES:
        return f"must be a table, like [{where}]"
    given = error["input"]
    must = _MUST.get(error["type"], "is not understood").format(**error.get("ctx", {})).replace("'", "")
    plain = isinstance(given, str | int | float) and len(repr(given)) <= _LONGEST and error["loc"][-1] not in _SECRET
    return f"{must}, got {given!r}" if plain else must


def _parsed(parse: Callable[[Any], Any], *types: type, kept: bool = False) -> BeforeValidator:
    """Refuse what cannot be parsed; the value is what was parsed, or is `kept` as it was written."""

    def parsed(value: Any) -> Any:
        if not isinstance(value, types):
            raise ValueError(f"{value!r} is not understood")  # noqa: TRY004 - pydantic collects ValueErrors
        try:
            found = parse(value)
        except (TypeError, OverflowError) as error:
            raise ValueError(str(error)) from None
        return value if kept else found

    return BeforeValidator(parsed)


Bytes = Annotated[int, _parsed(parse_bytes, str, int)]
"""A number of bytes, such as 64 MiB."""
Period = Annotated[str, _parsed(length_of, str, kept=True)]
"""A length of time as it is written, such as 7d or month."""
Moment = Annotated[Any, _parsed(moment_of, object, kept=True)]
"""A time as it is written, such as 2026-01-05."""
TimeZone = Annotated[str, _parsed(zone_of, str, kept=True)]
"""The name of a time zone, such as Europe/Berlin."""
