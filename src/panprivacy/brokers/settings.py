"""The settings of a source: a table of a file, or an address on a command line."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, ClassVar, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field

from panprivacy.brokers import Broker
from panprivacy.brokers.consumer import BrokerConsumer
from panprivacy.brokers.kafka import Kafka
from panprivacy.brokers.nats import Nats
from panprivacy.brokers.payloads import Payload
from panprivacy.brokers.redis import Redis
from panprivacy.errors import InvalidValue
from panprivacy.ingest import Columns
from panprivacy.settings import Table, named, read_table

Tell = Callable[[str, str], None]

_WHOLE = ("batch", "database")
_UNORDERED = (
    "JetStream gives out again what was not acknowledged after newer messages, so that a deletion could be undone: use "
    "Kafka or Redis where there is a column of actions"
)


class SourceTable(Table):
    """What all kinds of brokers have in common."""

    NEEDS: ClassVar[str]
    """The package of the client."""
    CLIENT: ClassVar[Callable[..., Broker]]
    READER: ClassVar[str] = "group"
    """The setting that names the reader."""
    READ_FROM: ClassVar[str] = "stream"
    """The setting that an address names."""

    servers: str = Field(min_length=1, description="the host and port of the broker")
    format: Literal["json", "id", "arrow"] | None = None
    bad: Literal["stop", "skip"] = "stop"
    """What becomes of messages that can never be counted."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Options of the client, such as passwords."""
    batch: int = Field(default=1, ge=1)
    """Messages that are fetched at a time."""

    def broker(self, reader: str) -> Broker:
        """The client, not connected; `reader` is the default name of the group or consumer."""
        given = self.model_dump(exclude={"kind", "format", "bad", "batch"})
        return type(self).CLIENT(**given | {self.READER: given[self.READER] or reader})


class KafkaTable(SourceTable):
    """A topic of Kafka."""

    NEEDS, CLIENT, READ_FROM = "confluent_kafka", Kafka, "topic"

    kind: Literal["kafka"]
    topic: str = Field(min_length=1, description="the topic with the messages")
    group: str | None = None
    batch: int = Field(default=20_000, ge=1)


class NatsTable(SourceTable):
    """A stream of NATS JetStream."""

    NEEDS, CLIENT, READER = "nats", Nats, "consumer"

    kind: Literal["nats"]
    stream: str = Field(min_length=1, description="the stream with the messages")
    consumer: str | None = None
    subject: str | None = None
    batch: int = Field(default=2_000, ge=1)


class RedisTable(SourceTable):
    """A stream of Redis."""

    NEEDS, CLIENT = "redis", Redis

    kind: Literal["redis"]
    stream: str = Field(min_length=1, description="the stream with the messages")
    group: str | None = None
    field: str | None = None
    database: int = Field(default=0, ge=0)
    batch: int = Field(default=5_000, ge=1)


_KINDS: dict[str, type[SourceTable]] = {"kafka": KafkaTable, "nats": NatsTable, "redis": RedisTable}


def read_source(values: dict[str, Any], path: str, columns: Columns, problems: list[str]) -> SourceTable | None:
    """The table of a source; None if something is wrong with it, which is added to `problems`."""
    kind, where = values.get("kind"), named(path, "kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        problems.append(f"{where}: must be one of {', '.join(_KINDS)}, got {kind!r}")
        return None
    if find_spec(_KINDS[kind].NEEDS) is None:
        problems.append(f"{where}: this needs {_KINDS[kind].NEEDS}: pip install 'panprivacy[{kind}]'")
    if kind == "nats" and columns.action is not None:
        problems.append(f"{where}: {_UNORDERED}")
    return read_table(_KINDS[kind], values, path, problems)


def broker_of(source: SourceTable, name: str) -> Broker:
    """The client of a source, not connected; the broker knows by the counter's `name` how far it has read."""
    return source.broker(f"panprivacy-{name}")


def consumer_of(source: SourceTable, name: str, columns: Columns, tell: Tell) -> BrokerConsumer:
    """What reads a source for the counter of that name."""
    return BrokerConsumer(
        broker_of(source, name),
        columns,
        batch=source.batch,
        payload=None if source.format is None else Payload(source.format),
        skip_bad=source.bad == "skip",
        tell=tell,
    )


def parse_address(address: str) -> dict[str, Any]:
    """The table that an address such as ``kafka://host:port/topic?group=flu`` stands for.

    >>> parse_address("redis://localhost:6379/visits?field=data&database=2")
    {'kind': 'redis', 'servers': 'localhost:6379', 'stream': 'visits', 'field': 'data', 'database': 2}
    """
    parts = urlsplit(address)
    if parts.scheme not in _KINDS or not parts.netloc or not parts.path.strip("/"):
        raise InvalidValue(f"{address}: an address is like kafka://HOST:PORT/TOPIC, nats://HOST:PORT/STREAM or "
                           "redis://HOST:PORT/STREAM", code="broker-address")  # fmt: skip
    if "@" in parts.netloc:
        raise InvalidValue("a password in an address can be read by everybody on this machine: put it into a file",
                           code="broker-password")  # fmt: skip
    read_from = _KINDS[parts.scheme].READ_FROM
    more = {key: int(value) if key in _WHOLE and value.isdecimal() else value for key, value in parse_qsl(parts.query)}
    return {"kind": parts.scheme, "servers": parts.netloc, read_from: parts.path.strip("/"), **more}
