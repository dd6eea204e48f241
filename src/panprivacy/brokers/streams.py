"""Streams of NATS JetStream and of Redis, each read as one durable consumer.

JetStream is read by nats-py through a pull consumer, and messages are acknowledged one by one. JetStream can also
acknowledge all messages up to one. But it gives out again what a killed reader had not acknowledged after newer
messages, and acknowledging those would acknowledge the older ones unseen.

Redis is read by redis-py as one consumer of a group: entries stay pending until the state is on disk.
"""

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

from panprivacy.brokers.messages import Block, Hopeless, Messages, Unreachable

_PATIENCE = 5.0  # seconds for a connection
_PENDING = 100_000  # messages that may be out and not acknowledged


class Nats:
    """One stream, or the messages of one subject in it. The loop of nats-py runs while something is asked of it."""

    def __init__(
        self, servers: str, stream: str, consumer: str, options: dict[str, Any], *, subject: str | None = None
    ) -> None:
        self.name = f"nats://{servers}/{stream}"
        self._servers = [each if "://" in each else f"nats://{each}" for each in servers.split(",")]
        self._stream, self._consumer, self._subject = stream, consumer, subject
        self._options = options
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Any = None
        self._pulled: Any = None

    def fetch(self, most: int, seconds: float) -> Messages | None:
        """Messages that are there, or the first that come."""
        return self._done(self._fetch(most, seconds))  # type: ignore[no-any-return]

    def waiting(self) -> int | None:
        """How many messages of the stream the consumer has not been given."""
        try:
            return self._done(self._waiting())  # type: ignore[no-any-return]
        except Unreachable:  # or this user may not ask
            return None

    def acknowledge(self, messages: Messages) -> None:
        """Acknowledge each message, and wait until the broker has it."""
        self._done(self._acknowledge(messages.receipt))

    def close(self) -> None:
        """Disconnect."""
        if self._loop is not None:
            try:
                if self._client is not None:
                    self._done(self._client.close())
            except Unreachable:
                pass  # the loop is closed all the same
            finally:
                self._end_tasks(self._loop)
                self._loop.close()

    @staticmethod
    def _end_tasks(loop: asyncio.AbstractEventLoop) -> None:
        """End tasks that nats-py has left: a loop that is closed over them complains on standard error."""
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks))

    def _done(self, what: Any) -> Any:
        import nats.errors

        self._loop = self._loop or asyncio.new_event_loop()
        try:
            # A client that cannot find its server would let a call wait for ever.
            return self._loop.run_until_complete(asyncio.wait_for(what, 2 * _PATIENCE))
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise Unreachable(_said(error)) from None

    async def _fetch(self, most: int, seconds: float) -> Messages | None:
        import nats.errors

        pulled = await self._connected()
        try:
            found = await pulled.fetch(most, timeout=max(seconds, 0.1))
        except nats.errors.TimeoutError:
            if not self._client.is_connected:
                raise
            return None
        messages = [message for message in found if message.data]
        if not messages:
            return None
        payloads = Block.of([message.data for message in messages])
        for message in messages:
            message.data = b""  # the message is kept until it is acknowledged, and its data could not be wiped
        return Messages(payloads, found, lambda number: f"message {messages[number].metadata.sequence.stream}")

    async def _waiting(self) -> int | None:
        pulled = await self._connected()
        found: int | None = (await pulled.consumer_info()).num_pending
        return found

    async def _acknowledge(self, found: list[Any]) -> None:
        for message in found:
            await message.ack()
        await self._client.flush(timeout=_PATIENCE)

    async def _connected(self) -> Any:
        import nats

        if self._client is None or self._client.is_closed:
            self._pulled = None
            quiet = dict.fromkeys(("error_cb", "disconnected_cb", "reconnected_cb", "closed_cb"), _say_nothing)
            given = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.5, **self._options, **quiet}
            async with asyncio.timeout(_PATIENCE):
                self._client = await nats.connect(self._servers, **given)
        if self._pulled is None:
            self._pulled = await self._consumer_of(self._client.jetstream())
        return self._pulled

    async def _consumer_of(self, stream: Any) -> Any:
        """The durable consumer; made if it is missing."""
        from nats.js.api import AckPolicy, ConsumerConfig
        from nats.js.errors import NotFoundError

        await stream.stream_info(self._stream)
        try:
            config = (await stream.consumer_info(self._stream, self._consumer)).config
        except NotFoundError:
            config = ConsumerConfig(
                durable_name=self._consumer,
                ack_policy=AckPolicy.EXPLICIT,
                filter_subject=self._subject,
                max_ack_pending=_PENDING,
            )
            await stream.add_consumer(self._stream, config)
        if config.ack_policy != AckPolicy.EXPLICIT:
            raise Hopeless(f"consumer {self._consumer} does not acknowledge each message: its policy must be explicit")
        return await stream.pull_subscribe_bind(consumer=self._consumer, stream=self._stream)


async def _say_nothing(*_: Any) -> None:
    """In the place of lines that nats-py would write to standard error."""


def _said(error: BaseException) -> str:
    return type(error).__name__


_CONSUMER = "panprivacy"  # always the same: what a killed reader left pending goes to the next
_NEW = ">"
_NO_PAYLOAD = b"\xff"  # neither JSON, nor an id, nor Arrow
_NUMBER = re.compile(rb"0|-?[1-9][0-9]{0,17}")


class Redis:
    """One stream, whose entries a group reads once, and after a break again from the first that is pending.

    The fields of an entry are the columns of a row, unless the payload is in one `field` of it. An entry without that
    field is a message that can never be counted: its place says so.
    """

    def __init__(
        self,
        servers: str,
        stream: str,
        group: str,
        options: dict[str, Any],
        *,
        database: int = 0,
        field: str | None,
        tell: Callable[[str, str], None] = lambda _word, _cause: None,
    ) -> None:
        self.name = f"redis://{servers}/{stream}"
        host, _, port = servers.rpartition(":")
        self._options = {"host": host or port, "port": int(port) if host else 6379, "db": database, **options}
        self._stream, self._group = stream, group
        self._field = None if field is None else field.encode()
        self._tell = tell
        self._client: Any = None
        self._after = "0"

    def fetch(self, most: int, seconds: float) -> Messages | None:
        """Entries that are pending, in order, and then new ones."""
        from redis.exceptions import RedisError

        try:
            entries = self._read(most, seconds)
        except (RedisError, OSError) as error:
            self.close()
            raise Unreachable(type(error).__name__) from None
        if self._after != _NEW:
            self._after = entries[-1][0].decode() if entries else _NEW
        found = [(name, self._payload(fields)) for name, fields in entries if fields]  # deleted ones have none
        if not found:
            return None
        payloads = Block.of([payload for _, payload in found])
        lacking = "" if self._field is None else f", which has no field {self._field.decode()!r}"
        places = [f"entry {name.decode()}{lacking if payload is _NO_PAYLOAD else ''}" for name, payload in found]
        return Messages(payloads, [name for name, _ in entries], places.__getitem__)

    def waiting(self) -> int | None:
        """How many entries the group has not been given; Redis knows from version 7 on."""
        from redis.exceptions import RedisError

        try:
            groups = self._connected().xinfo_groups(self._stream)
        except (RedisError, OSError):  # or this user may not ask
            return None
        found: list[int | None] = [each.get("lag") for each in groups if each["name"] == self._group.encode()]
        return found[0] if found else None

    def acknowledge(self, messages: Messages) -> None:
        """Take the entries off the list of pending ones."""
        from redis.exceptions import RedisError

        try:
            self._connected().xack(self._stream, self._group, *messages.receipt)
        except (RedisError, OSError) as error:
            self.close()
            raise Unreachable(type(error).__name__) from None

    def close(self) -> None:
        """Disconnect. Entries whose delivery was lost may be pending then: they are read first."""
        self._after = "0"
        if self._client is not None:
            self._client.close()
            self._client = None

    def _read(self, most: int, seconds: float) -> list[Any]:
        """Entries: their names and fields."""
        answer = self._connected().xreadgroup(
            self._group, _CONSUMER, {self._stream: self._after}, count=most, block=max(int(seconds * 1000), 1)
        )
        streams = list(answer.values()) if isinstance(answer, dict) else [each[1] for each in answer or ()]
        entries: list[Any] = streams[0] if streams else []
        return entries[0] if entries and isinstance(entries[0], list) else entries

    def _connected(self) -> Any:
        if self._client is None:
            import redis

            client = redis.Redis(**{**self._options, "decode_responses": False})
            try:
                client.xgroup_create(self._stream, self._group, id="0")
            except redis.ResponseError as error:
                if "MKSTREAM" in str(error):  # which Redis proposes where the stream is missing
                    client.xgroup_create(self._stream, self._group, id="0", mkstream=True)
                    self._tell("made", "the stream was missing and is made, empty: check its name")
                elif "BUSYGROUP" not in str(error):  # the group is there already
                    raise
            self._client = client
        return self._client

    def _payload(self, fields: dict[bytes, bytes]) -> bytes:
        return _as_json(fields) if self._field is None else fields.get(self._field) or _NO_PAYLOAD


def _as_json(fields: dict[bytes, bytes]) -> bytes:
    """The fields of an entry as an object; a value that is written like an integer is one.

    >>> _as_json({b"user": b"17", b"clinic": b"north", b"ward": b"007"})
    b'{"user":17,"clinic":"north","ward":"007"}'
    """
    return b"{" + b",".join(_as_text(name) + b":" + _value(value) for name, value in fields.items()) + b"}"


def _value(value: bytes) -> bytes:
    return value if _NUMBER.fullmatch(value) else _as_text(value)


def _as_text(value: bytes) -> bytes:
    return json.dumps(value.decode(errors="replace")).encode()
