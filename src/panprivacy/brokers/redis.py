"""A stream of Redis, read by redis-py as one consumer of a group: entries stay pending until the state is on disk."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from panprivacy.brokers import NO_ANSWER, NOT_ALLOWED, NOT_LET_IN, Block, Hopeless, Messages, Unreachable

_CONSUMER = "panprivacy"  # always the same: what a killed reader left pending goes to the next
_NEW = ">"
_PATIENCE = 5.0  # seconds for an answer
_NO_PAYLOAD = b"\xff"  # neither JSON, nor an id, nor Arrow
_NUMBER = re.compile(rb"0|-?[1-9][0-9]{0,17}")


class Redis:
    """One stream, whose entries a group reads once, and after a break again from the first that is pending.

    The fields of an entry are the columns of a row, unless the payload is in one `field` of it. An entry without that
    field is a message that can never be counted: its place says so.
    """

    def __init__(
        self, servers: str, stream: str, group: str, options: dict[str, Any], *, database: int = 0, field: str | None
    ) -> None:
        self.name = f"redis://{servers}/{stream}"
        host, _, port = servers.rpartition(":")
        self._options = {"host": host or port, "port": int(port) if host else 6379, "db": database, **options}
        self._stream, self._group, self._missing = stream, group, f"there is no stream {stream}"
        self._field = None if field is None else field.encode()
        self._client: Any = None
        self._after = "0"

    def fetch(self, most: int, seconds: float) -> Messages | None:
        """Entries that are pending, in order, and then new ones."""
        with self._asking():
            answer = self._connected().xreadgroup(
                self._group, _CONSUMER, {self._stream: self._after}, count=most, block=max(int(seconds * 1000), 1)
            )
        streams = list(answer.values()) if isinstance(answer, dict) else [each[1] for each in answer or ()]
        entries: list[Any] = streams[0] if streams else []  # their names and fields
        if entries and isinstance(entries[0], list):
            entries = entries[0]
        if self._after != _NEW:
            self._after = entries[-1][0].decode() if entries else _NEW
        places, payloads = list[str](), list[bytes]()
        for name, fields in entries:
            if not fields:  # it was deleted
                continue
            payload = _as_json(fields) if self._field is None else fields.get(self._field)
            lacking = "" if payload or self._field is None else f", which has no field {self._field.decode()!r}"
            places.append(f"entry {name.decode()}{lacking}")
            payloads.append(payload or _NO_PAYLOAD)
        receipt = [name for name, _ in entries]
        return Messages(Block.of(payloads), receipt, places.__getitem__) if payloads else None

    def waiting(self) -> int | None:
        """How many entries the group has not been given; Redis knows from version 7 on."""
        from redis.exceptions import RedisError

        try:
            groups = self._connected().xinfo_groups(self._stream)
        except (RedisError, OSError, Unreachable):  # or this user may not ask
            return None
        found: list[int | None] = [each.get("lag") for each in groups if each["name"] == self._group.encode()]
        return found[0] if found else None

    def check(self) -> None:
        """Ask for the stream, and for the names of the fields of its last entry."""
        with self._asking(), self._made() as client:
            kind = client.type(self._stream)
            last = client.xrevrange(self._stream, count=1) if kind == b"stream" else []
        if kind == b"none":
            raise Unreachable(self._missing)
        if kind != b"stream":
            raise Hopeless(f"{self._stream} is no stream")
        if self._field is not None and last and self._field not in last[0][1]:
            raise Hopeless(f"the last entry of {self._stream} has no field {self._field.decode()!r}")

    def acknowledge(self, messages: Messages) -> None:
        """Take the entries off the list of pending ones."""
        with self._asking():
            self._connected().xack(self._stream, self._group, *messages.receipt)

    def close(self) -> None:
        """Disconnect. Entries whose delivery was lost may be pending then: they are read first."""
        self._after = "0"
        if self._client is not None:
            self._client.close()
            self._client = None

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Disconnect if the broker does not answer, or refuses something."""
        from redis.exceptions import RedisError

        try:
            yield
        except (RedisError, OSError) as error:
            self.close()
            raise Unreachable(self._cause(error)) from None

    def _connected(self) -> Any:
        if self._client is None:
            from redis.exceptions import ResponseError

            client = self._made()
            try:
                client.xgroup_create(self._stream, self._group, id="0")
            except ResponseError as error:
                if "MKSTREAM" in str(error):  # which Redis proposes where the stream is missing
                    raise Unreachable(self._missing) from None
                if "BUSYGROUP" not in str(error):  # the group is there already
                    raise
            self._client = client
        return self._client

    def _made(self) -> Any:
        """A client, not connected."""
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry

        plain = {"socket_timeout": _PATIENCE, "socket_connect_timeout": _PATIENCE}
        ours = {"decode_responses": False, "retry": Retry(NoBackoff(), 0)}  # a consumer tries again, and says so
        return redis.Redis(**{**plain, **self._options, **ours})

    def _cause(self, error: BaseException) -> str:
        """Why there is nothing to read, for people."""
        from redis import exceptions

        if isinstance(error, exceptions.AuthenticationError):
            return NOT_LET_IN
        if isinstance(error, exceptions.NoPermissionError):
            return NOT_ALLOWED
        if isinstance(error, (exceptions.ConnectionError, exceptions.TimeoutError, OSError)):
            return NO_ANSWER
        return f"{self._stream} is no stream" if "WRONGTYPE" in str(error) else type(error).__name__


def _as_json(fields: dict[bytes, bytes]) -> bytes:
    """The fields of an entry as an object; a value that is written like an integer is one.

    >>> _as_json({b"user": b"17", b"clinic": b"north", b"ward": b"007"})
    b'{"user":17,"clinic":"north","ward":"007"}'
    """

    def as_text(value: bytes) -> bytes:
        return json.dumps(value.decode(errors="replace")).encode()

    values = {name: value if _NUMBER.fullmatch(value) else as_text(value) for name, value in fields.items()}
    return b"{" + b",".join(as_text(name) + b":" + value for name, value in values.items()) + b"}"
