"""The whole file: read, and checked from end to end before anything is started."""

import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from panprivacy.serve.config.counters import CounterSettings, check_made, counter_of
from panprivacy.serve.config.service import ServiceSettings, service_of
from panprivacy.serve.config.table import BadConfig, Table

_NAME = re.compile("[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")


@dataclass(frozen=True)
class Settings:
    """All that a service is started with."""

    service: ServiceSettings
    counters: tuple[CounterSettings, ...]

    def at_port(self, port: int | None) -> "Settings":
        """The same on another port, if one is given."""
        return self if port is None else replace(self, service=replace(self.service, port=port))


def read_settings(path: str | Path) -> Settings:
    """Read a file, or say all that is wrong with it."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        raise BadConfig([f"{path}: {(error.strerror or str(error)).lower()}"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadConfig([f"{path}: not TOML: {error}"]) from None
    return settings_of(values, path.resolve().parent)


def settings_of(values: dict[str, Any], folder: Path) -> Settings:
    """Check what a file says; other files are named from its folder on."""
    problems: list[str] = []
    table = Table(values, "", problems)
    service = service_of(table, folder)
    counters: list[CounterSettings] = []
    tables = table.tables("counters")
    if not tables:
        problems.append("counters: there is nothing to count: give a table such as [counters.flu]")
    for name, each in tables.items():
        if not _NAME.fullmatch(name):
            problems.append(f"counters.{name}: a name has small letters, digits, - and _, 64 at most")
        counter = counter_of(name, each, folder)
        if counter is not None:
            check_made(counter, each)
            counters.append(counter)
    _check_tokens(service, set(tables), problems)
    table.close()
    if problems:
        raise BadConfig(problems)
    return Settings(service, tuple(counters))


def _check_tokens(service: ServiceSettings, counters: set[str], problems: list[str]) -> None:
    for token in service.tokens:
        for name in sorted((token.counters or frozenset()) - counters):
            problems.append(f"tokens.{token.name}.counters: there is no counter {name!r}")
