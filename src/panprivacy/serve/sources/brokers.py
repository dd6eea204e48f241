"""From a table of the file, or the address on a command line, to what reads a broker."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from panprivacy.events import Columns
from panprivacy.serve.config import CounterSettings
from panprivacy.serve.config.table import BadConfig, Table
from panprivacy.serve.logs import log
from panprivacy.serve.sources.kafka import Kafka
from panprivacy.serve.sources.messages import Broker
from panprivacy.serve.sources.nats import Nats
from panprivacy.serve.sources.payloads import Payload
from panprivacy.serve.sources.pump import Pump
from panprivacy.serve.sources.redis import Redis

_BATCH = {"kafka": 20_000, "nats": 2_000, "redis": 5_000}
_NEEDS = {"kafka": "confluent_kafka", "nats": "nats", "redis": "redis"}
_READ_FROM = {"kafka": "topic", "nats": "stream", "redis": "stream"}
_WHOLE = ("batch", "database")
_SERIOUS = ("unreachable", "stopped")


def source(settings: CounterSettings, given: dict[str, Any]) -> Pump:
    """The source of a counter of the service, or all that is wrong with its table."""
    problems: list[str] = []
    table = Table(given, f"counters.{settings.name}.source", problems)
    _check_counter(settings, table)

    def tell(word: str, cause: str) -> None:
        level = "error" if word in _SERIOUS else "info"
        log(f"source {word}", level=level, counter=settings.name, cause=cause)

    pump = pump_of(table, settings.name, settings.columns, tell)
    if pump is None or problems:
        raise BadConfig(problems)
    return pump


def pump_of(
    table: Table, name: str, columns: Columns, tell: Callable[[str, str], None], *, skip_bad: bool = False
) -> Pump | None:
    """What reads the broker that a table describes; None if too much is wrong with it.

    `name` is that of the counter, by which the broker knows how far it has read.
    """
    kind = table.one_of("kind", tuple(_BATCH))
    if kind is None:
        return None
    if find_spec(_NEEDS[kind]) is None:
        table.blame("kind", f"this needs {_NEEDS[kind]}: pip install 'panprivacy[{kind}]'")
    if kind == "nats" and columns.action is not None:
        table.blame("kind", "JetStream gives out again what was not acknowledged after newer messages, so that a "
                    "deletion could be undone: use Kafka or Redis where there is a column of actions")  # fmt: skip
    form = table.one_of("format", tuple(Payload))
    batch = table.whole("batch", _BATCH[kind], least=1)
    skip_bad = table.one_of("bad", ("stop", "skip"), "skip" if skip_bad else "stop") == "skip"
    broker = _broker_of(kind, table, f"panprivacy-{name}", tell)
    table.close()
    if broker is None:
        return None
    told = None if form is None else Payload(form)
    return Pump(broker, columns, batch=batch, form=told, skip_bad=skip_bad, tell=tell)


def table_of(address: str) -> dict[str, Any]:
    """What the table of a source would say, for ``kafka://host:port/topic?group=flu`` and its like.

    >>> table_of("redis://localhost:6379/visits?field=data&database=2")
    {'kind': 'redis', 'servers': 'localhost:6379', 'stream': 'visits', 'field': 'data', 'database': 2}
    """
    parts = urlsplit(address)
    read_from = _READ_FROM.get(parts.scheme)
    if read_from is None or not parts.netloc or not parts.path.strip("/"):
        raise ValueError(f"{address}: an address is like kafka://HOST:PORT/TOPIC, nats://HOST:PORT/STREAM or "
                         "redis://HOST:PORT/STREAM")  # fmt: skip
    if "@" in parts.netloc:
        raise ValueError("a password in an address is seen by everybody on this machine: put it into a file, and say "
                         "--options FILE.toml")  # fmt: skip
    more = {key: int(value) if key in _WHOLE and value.isdecimal() else value for key, value in parse_qsl(parts.query)}
    return {"kind": parts.scheme, "servers": parts.netloc, read_from: parts.path.strip("/"), **more}


def _broker_of(kind: str, table: Table, reader: str, tell: Callable[[str, str], None]) -> Broker | None:
    servers = table.text("servers")
    read_from = table.text(_READ_FROM[kind])
    for key, found in (("servers", servers), (_READ_FROM[kind], read_from)):
        if found is None and key not in table:
            table.blame(key, "where are the messages?")
    options = table.table("options")
    given = {} if options is None else options.plain()
    if kind == "kafka":
        group = table.text("group", reader)
        return Kafka(servers, read_from, group, given) if servers and read_from else None
    if kind == "nats":
        consumer, subject = table.text("consumer", reader), table.text("subject")
        return Nats(servers, read_from, consumer, given, subject=subject) if servers and read_from else None
    group, field, database = table.text("group", reader), table.text("field"), table.whole("database", 0)
    if not (servers and read_from):
        return None
    return Redis(servers, read_from, group, given, database=database, field=field, tell=tell)


def _check_counter(settings: CounterSettings, table: Table) -> None:
    """Refuse a counter to which a message that comes twice is not the same as one that comes once."""
    if settings.kind == "counts":
        table.blame("", "a broker may deliver a message twice, after a crash, and a counter of kind counts would count "
                    "it twice: send its events over HTTP")  # fmt: skip
    by_events = settings.schedule is not None and settings.schedule.time is not None
    late = settings.schedule.late if settings.schedule is not None else "count"
    if settings.kind in ("actives", "retention") and not (by_events and late != "count"):
        table.blame("", f"a message that a broker delivers again after a period is over would count in the next one of "
                    f"a counter of kind {settings.kind}: let the events say when they were, with schedule.time = NAME "
                    'and schedule.late = "skip"')  # fmt: skip
