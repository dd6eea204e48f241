"""A topic of Kafka, read by librdkafka: the group's offsets are committed once the state is on disk."""

import threading
from contextlib import suppress
from typing import Any

from panprivacy.brokers import NO_ANSWER, NOT_ALLOWED, NOT_LET_IN, NOT_YET, Hopeless, Messages, Unreachable
from panprivacy.brokers.librdkafka import Ends, Failed, Reader, name_of

_PLAIN = {
    "auto.offset.reset": "earliest",
    "queued.max.messages.kbytes": 16 * 1024,  # fetched by librdkafka and not handed out, so not wiped
    "fetch.queue.backoff.ms": 10,  # the default, a second, is too long where so little is fetched ahead
    "socket.timeout.ms": 15_000,  # a broker that hangs is told from one without messages
    "log_level": 0,
}
"""Defaults, which the options of a source may change."""

_PATIENCE = 10.0  # seconds to leave in, and to answer whether there is a topic

_OURS = {"enable.auto.commit": False, "enable.partition.eof": False}
"""Options that a source may not change: the first would acknowledge messages that are not on disk."""

_ONE_CONNECTION = "_TRANSPORT"  # one connection is lost; another error says that all are
_ALL_CONNECTIONS = "_ALL_BROKERS_DOWN"  # also after a password is refused
_NO_TOPIC = ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC", "_UNKNOWN_PARTITION")
_SAID = {
    _ALL_CONNECTIONS: NO_ANSWER,
    "_TIMED_OUT": NO_ANSWER,
    "_RESOLVE": "the name of the broker is not known",
    "_AUTHENTICATION": NOT_LET_IN,
    "SASL_AUTHENTICATION_FAILED": NOT_LET_IN,
    "TOPIC_AUTHORIZATION_FAILED": NOT_ALLOWED,
    "GROUP_AUTHORIZATION_FAILED": NOT_ALLOWED,
}
_ENDING = ("_FATAL", "FENCED_INSTANCE_ID")


class Kafka:
    """One topic, all of whose partitions go to one reader.

    A state is fed by one process, so its group has one member, always under the same name. Then the broker hands the
    partitions of a killed reader to the next one at once; if two readers run, the first ends with an error. The topic
    is part of the name: under an old name, the broker would hand out the partitions of an old topic.
    """

    def __init__(self, servers: str, topic: str, group: str, options: dict[str, Any]) -> None:
        self.name = f"kafka://{servers}/{topic}"
        self._topic = topic
        self._options = {**_PLAIN, "group.instance.id": f"panprivacy-{topic}", **options}
        self._options |= {**_OURS, "bootstrap.servers": servers, "group.id": group}
        self._reader: Reader | None = None
        self._trouble: str | None = NOT_YET
        self._acknowledged: Ends = {}

    def fetch(self, most: int, seconds: float) -> Messages | None:
        """Messages that have come: a full batch, or what came in a tenth of a second."""
        reader = self._connected()
        found = reader.fetch(most, min(seconds, 0.1))
        try:
            for code in found.errors:
                self._check(name_of(code))
            ends = reader.ends()
        except (Hopeless, Failed):
            found.payloads.wipe()
            raise
        if not len(found.payloads):
            if self._trouble is not None:
                if not reader.answers(seconds):
                    raise Unreachable(self._trouble)
                self._trouble = None
            return None
        self._trouble = None

        def place(number: int) -> str:
            return f"partition {found.partitions[number]}, offset {found.offsets[number]}"

        return Messages(found.payloads, ends, place)

    def waiting(self) -> int | None:
        """How many messages are not fetched yet, in all partitions."""
        try:
            return self._connected().waiting()
        except Failed:
            return None

    def check(self) -> None:
        """Ask for the topic, without joining the group."""
        reader = Reader(self._options, self._topic, self._note_error)
        try:
            reader.check_topic(_PATIENCE)
        except Failed as error:
            self._note_error(str(error))
            raise Unreachable(NO_ANSWER if self._trouble in (None, NOT_YET) else self._trouble) from None
        finally:
            reader.close()

    def acknowledge(self, messages: Messages) -> None:
        """Commit the offsets after the last messages, without waiting for the broker."""
        try:
            self._connected().commit(messages.receipt, wait=False)
        except Failed as error:
            raise Unreachable(self._readable(str(error))) from None
        self._acknowledged = messages.receipt

    def close(self) -> None:
        """Commit what was acknowledged once more, and leave; a broker that does not answer gets some seconds."""
        reader = self._reader
        if reader is None:
            return

        def leave() -> None:
            try:
                with suppress(Failed):  # then the messages are given out again, which does no harm
                    if self._acknowledged:
                        reader.commit(self._acknowledged, wait=True)
            finally:
                reader.close()

        leaving = threading.Thread(target=leave, name="leaving Kafka", daemon=True)
        leaving.start()
        leaving.join(_PATIENCE)

    def _connected(self) -> Reader:
        if self._reader is None:
            self._reader = Reader(self._options, self._topic, self._note_error)
            self._reader.subscribe()
        return self._reader

    def _note_error(self, name: str) -> None:
        if name != _ONE_CONNECTION and not (name == _ALL_CONNECTIONS and self._trouble == NOT_LET_IN):
            self._trouble = self._readable(name)

    def _check(self, name: str) -> None:
        if name in _ENDING:
            raise Hopeless(f"another consumer of the same group has taken over ({self._readable(name)})")
        self._note_error(name)

    def _readable(self, name: str) -> str:
        """An error of Kafka by its name, for people."""
        if name in _NO_TOPIC:
            return f"there is no topic {self._topic}"
        return _SAID.get(name) or name.strip("_").lower().replace("_", " ")
