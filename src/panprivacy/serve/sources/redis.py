"""A stream of Redis, read by redis-py as one consumer of a group: entries stay pending until the state is on disk."""

import json
import re
from collections.abc import Callable
from typing import Any

from panprivacy.serve.sources.block import Block
from panprivacy.serve.sources.messages import Messages, Unreachable

_CONSUMER = "panprivacy"  # always the same, so that what one that was killed left pending goes to the next
_NEW = ">"
_NUMBER = re.compile(rb"0|-?[1-9][0-9]{0,17}")


class Redis:
    """One stream, of which a group reads each entry once, and again from the first that is pending after a break.

    The fields of an entry are the columns of a row, unless the payload is in one `field` of it.
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
        """What is pending, in order, and then what is new."""
        from redis.exceptions import RedisError

        try:
            entries = self._read(most, seconds)
        except (RedisError, OSError) as error:
            self.close()
            raise Unreachable(type(error).__name__) from None
        if self._after != _NEW:
            self._after = entries[-1][0].decode() if entries else _NEW
        found = [(name, payload) for name, fields in entries if fields and (payload := self._payload(fields))]
        if not found:
            return None
        names = [name for name, _ in found]
        payloads = Block.of([payload for _, payload in found])
        return Messages(payloads, [name for name, _ in entries], lambda number: f"entry {names[number].decode()}")

    def acknowledge(self, messages: Messages) -> None:
        """Take the entries off the list of those that are pending."""
        from redis.exceptions import RedisError

        try:
            self._connected().xack(self._stream, self._group, *messages.receipt)
        except (RedisError, OSError) as error:
            self.close()
            raise Unreachable(type(error).__name__) from None

    def close(self) -> None:
        """Let go of the connection. Entries may be pending then whose delivery was lost: they are read first."""
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
                if "MKSTREAM" in str(error):  # which Redis proposes where there is no stream
                    client.xgroup_create(self._stream, self._group, id="0", mkstream=True)
                    self._tell("made", "there was no such stream; it is made, and empty, so check its name")
                elif "BUSYGROUP" not in str(error):  # the group is there already
                    raise
            self._client = client
        return self._client

    def _payload(self, fields: dict[bytes, bytes]) -> bytes:
        return _as_json(fields) if self._field is None else fields.get(self._field, b"")


def _as_json(fields: dict[bytes, bytes]) -> bytes:
    """The fields of an entry as an object; what is written like an integer is one.

    >>> _as_json({b"user": b"17", b"clinic": b"north", b"ward": b"007"})
    b'{"user":17,"clinic":"north","ward":"007"}'
    """
    return b"{" + b",".join(_as_text(name) + b":" + _value(value) for name, value in fields.items()) + b"}"


def _value(value: bytes) -> bytes:
    return value if _NUMBER.fullmatch(value) else _as_text(value)


def _as_text(value: bytes) -> bytes:
    return json.dumps(value.decode(errors="replace")).encode()
