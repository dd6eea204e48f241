"""The configuration file: what is counted, for whom, and within which limits.

The file is checked whole before anything starts, and all problems are said at once. Each table is a model of pydantic
(`panprivacy.settings`). Which keys a counter has depends on its kind: its estimator says so in `TRAITS`.
"""

import re
import ssl
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, create_model, model_validator

from panprivacy import registry
from panprivacy.brokers.consumer import Source
from panprivacy.brokers.settings import SourceTable, read_source
from panprivacy.errors import PanPrivacyError
from panprivacy.ingest import Columns, kind_of, read_ids, split_column
from panprivacy.ingest import Kind as Ids
from panprivacy.periods import Periods, RowPolicy, as_datetime
from panprivacy.registry import build, options_of
from panprivacy.serve.tokens import ROLES, Role, Token, parsed_hash
from panprivacy.settings import (
    Bytes,
    InvalidSettings,
    KeyProblems,
    Moment,
    Period,
    Table,
    TimeZone,
    named,
    read_table,
    secret_file,
    with_files,
)
from panprivacy.universe import Edges, Range, Universe, Users
from panprivacy.urls import is_loopback

_MIB = 2**20
_NAME = re.compile("[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")

KINDS: dict[str, Any] = registry.served()
"""The classes of estimators, by the words that the file has for them."""


def takes(kind: str, option: str) -> bool:
    """Whether the estimator of a kind is made with an option."""
    return option in options_of(KINDS[kind])


_NO_ROLES = (
    "service.anonymous: no sender could do anything: make a token with `panprivacy token`, or say what may be done "
    'without one, such as anonymous = ["read"]'
)
_TWICE = (
    "a broker may deliver a message twice, after a crash, and a counter of kind {kind} would count it twice: send its "
    "events over HTTP"
)
_NEXT_PERIOD = (
    "a message that a broker delivers again after a period is over would count in the next one of a counter of kind "
    '{kind}: let the events say when they were, with schedule.time = NAME and schedule.late = "skip"'
)


# --- Tables of the file ---------------------------------------------------------------------------------------------


class FileTable(Table):
    """The whole file."""

    service: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None
    tokens: dict[str, dict[str, Any]] | None = None
    counters: dict[str, dict[str, Any]] | None = None


class Tls(Table):
    """The files of a certificate and its key."""

    certificate: str = Field(description="the name of a file in PEM format")
    key: str = Field(description="the name of a file in PEM format")


def _network(said: Any) -> Any:
    try:
        return said if isinstance(said, IPv4Network | IPv6Network) else ip_network(str(said))
    except ValueError:
        raise ValueError("must be an address, or a network such as 10.0.0.0/8") from None


Network = Annotated[IPv4Network | IPv6Network, BeforeValidator(_network)]


class ServiceSettings(Table):
    """Where the service listens and keeps its states, and what may be done without a token."""

    folder: str = "states"
    host: str = "127.0.0.1"
    port: int = Field(default=8787, ge=0, lt=2**16)
    tls: Tls | None = None
    without_tls: bool = False
    """Whether a proxy in front encrypts, so that addresses other than loopback are safe."""
    anonymous: list[Role] = Field(default_factory=list)
    """What may be done without a token."""
    hosts: list[str] = Field(default_factory=list)
    """Other names by which browsers reach it, such as the name of a proxy in front."""
    proxies: list[Network] = Field(default_factory=list)
    """Addresses, or networks, of proxies whose word for a sender's address is taken."""
    longest_stop: Period = "8d"
    """How long the last period may be over at a start; if it is longer, the clock may be wrong."""
    count_events: bool = False
    """Whether metrics tell how many events came, how long requests took, and how many wait."""

    @model_validator(mode="after")
    def _check_exposed(self) -> Self:
        if self.tls is None and not self.without_tls and not is_loopback(self.host):
            exposed = (
                f"{self.host} is reached from other machines: give a table [service.tls], or say without_tls = true "
                "where a proxy in front of the service encrypts"
            )
            raise KeyProblems([("host", exposed)])
        return self

    @property
    def address(self) -> str:
        """Where the page is."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/"


class Limits(Table):
    """How much the service takes."""

    body: Bytes = 64 * _MIB
    """Bytes of a body."""
    waiting: Bytes = 256 * _MIB
    """Bytes of all bodies that are being received or wait to be counted."""
    memory: Bytes | None = None
    """Bytes of the process that it stays below, by refusing connections and bodies; None for `chosen_limit`."""
    headers: Bytes = 32 * 1024
    """Bytes of the headers of a request, its address included."""
    seconds: float = Field(default=30.0, gt=0)
    """Time for headers or a body to come, and for a reader to take the next part of an answer."""
    requests: float = Field(default=0.0, ge=0)
    """Requests a second of one token, or of one address without a token; 0 for no limit."""
    readers: int = Field(default=5000, ge=1)
    """Connections that may be open at once."""

    @model_validator(mode="after")
    def _check_room(self) -> Self:
        if self.waiting < self.body:
            raise KeyProblems([("waiting", "must be at least limits.body, or no body of that size could be taken")])
        return self


class TokenTable(Table):
    """What the holder of a token may do."""

    hash: Annotated[bytes, BeforeValidator(parsed_hash)] = Field(description="the line that `panprivacy token` prints")
    roles: list[Role] = Field(min_length=1, description=f"what its holder may do: some of {', '.join(ROLES)}")
    counters: list[str] | None = None


class ScheduleSettings(Table):
    """When a counter is released."""

    every: Period = Field(description="the length of a period, such as 12h, 7d or month")
    start: Moment | None = None
    """When the first period starts; None for the time when the counter is made."""
    tz: TimeZone | None = None
    """The time zone of days, and of times without one; UTC if it is left out."""
    time: str | None = None
    """The column of the events' own times, which say which rows are late or early."""
    late: Literal["count", "skip", "refuse"] | None = None
    """What becomes of a row of a period that is released."""
    early: Literal["skip", "refuse"] | None = None
    """What becomes of a row of a period that has not begun."""
    ahead: Annotated[int, Field(ge=0)] | None = None
    """By how many periods a row may move the clock; 0: the wall clock ends periods, and rows never do."""

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        unused = [key for key in ("late", "early", "ahead") if self.time is None and getattr(self, key) is not None]
        if unused:
            told = "is about the times of events: say in which column they are, time = NAME"
            raise KeyProblems((key, told) for key in unused)
        return self

    def periods(self, begun: int) -> Periods:
        """The periods of a counter that was made at this moment."""
        if self.start is None:
            return Periods.around(begun, self.every, self.tz)
        return Periods.of(self.every, self.start, self.tz)

    @property
    def by_clock(self) -> bool:
        """Whether the wall clock ends periods."""
        return not self.ahead


class CounterTable(Table):
    """The keys of a counter that do not depend on its kind."""

    kind: str = Field(description=f"what is counted: one of {', '.join(KINDS)}")
    epsilon: float = Field(gt=0, description="how much privacy? The total loss of the counter's life; 1 is usual")
    title: str = ""
    level: float = Field(default=0.95, gt=0, lt=1)
    retired: bool = False
    skip_missing: bool = False
    skip_outside: bool = False
    unlisted: Literal["skip", "refuse"] = "skip"
    universe: Annotated[int, Field(ge=1)] | None = None
    universe_file: str | None = None
    normalize: list[str] | str | None = None
    nodes: Annotated[int, Field(ge=2)] | None = None
    group: str | None = None
    directed: bool = False
    column: str | None = None
    edges: list[str] | None = None
    action: str | None = None
    by: str | None = None
    schedule: ScheduleSettings | None = None
    source: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if self.kind in KINDS:
            problems = [*self._wrong_universe(), *self._wrong_columns(), *self._wrong_times()]
            if problems:
                raise KeyProblems(problems)
        return self

    @property
    def row_policy(self) -> RowPolicy:
        """What becomes of rows that are late or early; how far a row may move the clock."""
        given = self.schedule
        late = "skip" if KINDS[self.kind].TRAITS.own_periods else "count"
        if given is None:
            return RowPolicy(0, late, "skip")
        return RowPolicy(given.ahead or 0, given.late or late, given.early or "skip")

    def _wrong_universe(self) -> Iterable[tuple[str, str]]:
        given = [key for key in ("universe", "universe_file", "nodes") if getattr(self, key) is not None]
        if not takes(self.kind, "universe"):
            for key in given:
                yield key, f"a counter of kind {self.kind} has no universe: anybody may appear"
        elif len(given) != 1:
            yield "universe", "which users could appear? Give one of universe, universe_file and nodes"
        if self.group is not None and (self.universe_file is None or not takes(self.kind, "groups")):
            groups = " or ".join(word for word in KINDS if takes(word, "groups"))
            yield "group", f"is a column of universe_file, for counters of kind {groups}"
        if self.normalize is not None and self.universe_file is None:
            yield "normalize", "is for listed users: say universe_file"
        if self.directed and self.nodes is None:
            yield "directed", "is for a graph: say how many nodes it has"

    def _wrong_columns(self) -> Iterable[tuple[str, str]]:
        if (getattr(self, "categories", None) is None) != (self.by is None):
            yield "by", "the column of an event's category goes with the list of categories, and only with it"
        if self.nodes is not None:
            if self.edges is None or len(self.edges) != 2 or self.column is not None:
                yield "edges", 'the columns of the two ends of an edge, such as ["from", "to"], and no column'
        elif self.edges is not None:
            yield "edges", "are for a graph: say how many nodes it has"
        elif self.column is None:
            yield "column", "is missing: the column that holds the ids"

    def _wrong_times(self) -> Iterable[tuple[str, str]]:
        if takes(self.kind, "every") and self.schedule is not None and self.schedule.late == "count":
            yield "schedule.late", "a row of a day that is over cannot count on another: skip or refuse"
        if takes(self.kind, "every") and (self.schedule is None or self.schedule.start is None):
            yield "schedule.start", "when does the first day start? Such as 2026-01-05"
        if "ids" in KINDS[self.kind].TRAITS.options and getattr(self, "ids", None) is None:
            yield "ids", "are they integers or text?"
        by_period = KINDS[self.kind].TRAITS.own_periods and (self.schedule is None or self.row_policy.late == "count")
        if self.source is not None and (by_period or not KINDS[self.kind].REPEATABLE):
            yield "source", (_NEXT_PERIOD if KINDS[self.kind].REPEATABLE else _TWICE).format(kind=self.kind)


def _same_type(labels: list[Any]) -> list[Any]:
    if {type(each) for each in labels} not in ({str}, {int}):
        raise ValueError("must be a list of texts, or of whole numbers")
    return labels


_Count = Annotated[int, Field(ge=1)]
_PLAN: dict[str, Any] = {
    **dict.fromkeys(("delta", "error", "step", "beta"), float),
    **dict.fromkeys(("sample", "releases", "buckets", "up_to", "moves", "observations"), _Count),
    "intrusions": Annotated[int, Field(ge=0)],
    **dict.fromkeys(("memory", "only", "span"), str),
    "ids": Literal["integers", "text"],
    **dict.fromkeys(("other", "newcomers"), bool),
    "categories": Annotated[list[Any], Field(min_length=1), AfterValidator(_same_type)],
}
"""The types of keys that only some kinds have; the constructor of the estimator checks the rest."""
_OF_SCHEDULE = ("every", "start", "tz")


@cache
def _counter_table(kind: str | None) -> type[CounterTable]:
    """The table of counters of a kind; without a kind, with the keys of all."""
    kinds = KINDS.values() if kind is None else [KINDS[kind]]
    keys = [key for each in kinds for key in each.TRAITS.options if key not in _OF_SCHEDULE]
    fields: dict[str, Any] = {key: (_PLAN[key] | None if key in _PLAN else Any, None) for key in keys}
    return create_model("CounterTable", __base__=CounterTable, **fields)


# --- Settings of a service ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CounterSettings:
    """One counter."""

    name: str
    table: CounterTable
    """What the file says of it."""
    universe: Universe | None
    """The users who could appear; None for anybody."""
    columns: Columns
    plan: dict[str, Any]
    """What else its estimator is made with."""
    source: SourceTable | None
    """Its broker."""

    @property
    def by_day(self) -> bool:
        """Whether its estimator has days of its own, each of which is released when it ends."""
        return takes(self.table.kind, "every")

    def make(self) -> Any:
        """A new estimator of it."""
        return build(KINDS[self.table.kind], self.universe, self.table.epsilon, **self.plan)

    @property
    def pinned(self) -> dict[str, Any]:
        """What cannot change while the counter lives, by the keys of the file: as JSON has it.

        Whether a list of users is the same one, the state itself knows.
        """
        keys = ("kind", "epsilon", "universe", "group", "nodes", "directed")
        given = {key: value for key in keys if (value := getattr(self.table, key)) not in (None, False)}
        return given | {key: _written(value) for key, value in self.plan.items()}


@dataclass(frozen=True)
class Settings:
    """All that a service is started with."""

    service: ServiceSettings
    limits: Limits
    tokens: tuple[Token, ...]
    counters: tuple[CounterSettings, ...]
    folder: Path
    """Where states are kept."""
    sources: Mapping[str, Source] = field(default_factory=dict)
    """Sources of events that are no brokers, by the names of their counters; the demonstration has one."""

    accept_clock: bool = False
    """Whether the clock is right however long the service was stopped."""
    initialize: bool = False
    """Whether lost states and releases are known to be lost, so that their counters start all the same."""

    def at_port(self, port: int | None) -> "Settings":
        """The same on another port, if one is given."""
        return self if port is None else replace(self, service=self.service.model_copy(update={"port": port}))


# --- Reading --------------------------------------------------------------------------------------------------------


def read_settings(path: str | Path) -> Settings:
    """Read a file, or say all that is wrong with it."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        raise InvalidSettings([f"{path}: {(error.strerror or str(error)).lower()}"]) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSettings([f"{path}: not TOML: {error}"]) from None
    return settings_of(values, path.resolve().parent)


def settings_of(values: dict[str, Any], folder: Path) -> Settings:
    """Check what a file says; other files are named from its folder on."""
    problems: list[str] = []
    read_table(FileTable, values, "", problems)
    tables = {key: _tables_in(values, key) for key in FileTable.model_fields}
    service = _service_of(tables["service"], folder, problems)
    limits = read_table(Limits, tables["limits"], "limits", problems)
    tokens = _tokens_of(tables["tokens"], tables["counters"], folder, problems)
    if not tables["tokens"] and not tables["service"].get("anonymous"):
        problems.append(_NO_ROLES)
    if not tables["counters"]:
        problems.append("counters: there is nothing to count: give a table such as [counters.flu]")
    counters = [_counter_of(name, each, folder, problems) for name, each in tables["counters"].items()]
    if problems or service is None or limits is None:
        raise InvalidSettings(problems)
    known = tuple(each for each in counters if each is not None)
    return Settings(service, limits, tokens, known, folder / service.folder)


def _tables_in(values: dict[str, Any], key: str) -> dict[str, Any]:
    """A table of the file, without entries that are no tables where all should be."""
    found = values.get(key)
    if not isinstance(found, dict):
        return {}
    named_tables = key in ("tokens", "counters")
    return {name: each for name, each in found.items() if isinstance(each, dict) or not named_tables}


def _service_of(values: dict[str, Any], folder: Path, problems: list[str]) -> ServiceSettings | None:
    settings = read_table(ServiceSettings, values, "service", problems)
    if settings is None:
        return None
    kept = folder / settings.folder
    if kept.exists() and not kept.is_dir():
        problems.append(f"service.folder: {kept} is not a folder")
    if settings.tls is None:
        return settings
    files = {key: secret_file(getattr(settings.tls, key), folder) for key in ("certificate", "key")}
    missing = [key for key, path in files.items() if not path.is_file()]
    problems += [f"service.tls.{key}: there is no file {files[key]}" for key in missing]
    if not missing:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files["certificate"], files["key"], lambda: "")
        except OSError:  # which errors of OpenSSL are
            both = f"{files['certificate']} and {files['key']}"
            problems.append(f"service.tls.certificate: {both} are not a certificate and its key in PEM format")
    tls = Tls(certificate=str(files["certificate"]), key=str(files["key"]))
    return settings.model_copy(update={"tls": tls})


def _tokens_of(values: dict[str, Any], counters: Iterable[str], folder: Path, problems: list[str]) -> tuple[Token, ...]:
    found: dict[bytes, Token] = {}
    for name, said in values.items():
        given = with_files(said, folder, f"tokens.{name}", problems)
        table = read_table(TokenTable, given, f"tokens.{name}", problems)
        wanted: Any = given.get("counters") if isinstance(given.get("counters"), list) else []
        for counter in {each for each in wanted if isinstance(each, str)}.difference(counters):
            problems.append(f"tokens.{name}.counters: there is no counter {counter!r}")
        if table is None:
            continue
        if table.hash in found:
            same = found[table.hash].name
            problems.append(f"tokens.{name}.hash: is the hash of tokens.{same}, too: make a token for each")
        only = None if table.counters is None else frozenset(table.counters)
        found.setdefault(table.hash, Token(name, table.hash, frozenset(table.roles), only))
    return tuple(found.values())


def _counter_of(name: str, values: dict[str, Any], folder: Path, problems: list[str]) -> CounterSettings | None:
    path, kind = f"counters.{name}", values.get("kind")
    if not _NAME.fullmatch(name):
        problems.append(f"{path}: a name has small letters, digits, - and _, 64 at most")
    known = kind if isinstance(kind, str) and kind in KINDS else None
    if isinstance(kind, str) and known is None:
        problems.append(f"{path}.kind: must be one of {', '.join(KINDS)}, got {kind!r}")
    table = read_table(_counter_table(known), values, path, problems)
    if table is None or known is None:
        return None
    try:
        universe, ids = _universe_of(table, folder)
    except (PanPrivacyError, ValueError, OSError) as error:
        problems.append(f"{path}.{'universe' if table.universe_file is None else 'universe_file'}: {error}")
        return None
    plan = _plan_of(table)
    names = tuple(table.edges or ()) if table.nodes is not None else (table.column or "",)
    time = table.schedule.time if table.schedule else None
    try:
        columns = Columns(names, Ids(plan["ids"]) if "ids" in plan else ids, table.action, time, table.by)
    except ValueError as error:
        problems.append(f"{path}.column: {error}")
        return None
    source = None
    if table.source is not None:
        given = table.source
        if isinstance(given.get("options"), dict):
            given = given | {"options": with_files(given["options"], folder, f"{path}.source.options", problems)}
        source = read_source(given, f"{path}.source", columns, problems)
    settings = CounterSettings(name, table, universe, columns, plan, source)
    try:
        settings.make()
    except (PanPrivacyError, ValueError, TypeError, OverflowError) as error:  # blamed on the key that it speaks of
        key = next((key for key in ("epsilon", *KINDS[known].TRAITS.options) if key in str(error)), "")
        problems.append(f"{named(path, key)}: {error}")
    return settings


def _universe_of(table: CounterTable, folder: Path) -> tuple[Universe | None, Ids | None]:
    """The users of a counter, None for anybody, and what their ids are."""
    if not takes(table.kind, "universe"):
        return None, None
    if table.nodes is not None:
        return Edges(table.nodes, table.directed), Ids.integers
    if table.universe is not None:
        return Range(table.universe), Ids.integers
    assert table.universe_file is not None
    name, column = split_column(table.universe_file)
    file = str(folder / name)
    ids = read_ids(file, column)
    groups = None if table.group is None else read_ids(file, table.group)
    try:
        users = Users(ids, groups=groups, normalize=table.normalize)
    except PanPrivacyError as error:  # which may quote an id
        told = {"user-in-two-groups": "a user is in two groups; a user has one", "normalize-unknown": str(error)}
        told["users-become-one"] = "two users become one by normalize"
        raise ValueError(f"{file}: {told.get(error.code, 'its users cannot be listed')}") from None
    return users, Ids.text if users.normalize else kind_of(ids.dtype) or Ids.integers


def _plan_of(table: CounterTable) -> dict[str, Any]:
    schedule = table.schedule
    plan = {key: getattr(table, key) for key in KINDS[table.kind].TRAITS.options if key not in _OF_SCHEDULE}
    if takes(table.kind, "every") and schedule is not None and schedule.start is not None:
        days = schedule.periods(0)
        plan |= {"every": timedelta(microseconds=days.length), "start": as_datetime(days.start, days.zone)}
        plan |= {"tz": schedule.tz} if schedule.tz else {}
    plan = {key: tuple(value) if isinstance(value, list) else value for key, value in plan.items()}
    return {key: value for key, value in plan.items() if value is not None and value is not False}


def _written(value: Any) -> Any:
    """A value of a plan as JSON has it."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value.isoformat() if hasattr(value, "isoformat") else list(value) if isinstance(value, tuple) else value
