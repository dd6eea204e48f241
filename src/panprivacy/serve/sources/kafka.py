"""A topic of Kafka, read by librdkafka: the group's offsets are committed once the state is on disk."""

import threading
from typing import Any

from panprivacy.serve.sources.librdkafka import Ends, Failed, Reader, name_of
from panprivacy.serve.sources.messages import Hopeless, Messages, Unreachable

_PLAIN = {
    "auto.offset.reset": "earliest",
    "queued.max.messages.kbytes": 16 * 1024,  # what librdkafka has fetched and not handed out: nobody wipes that
    "fetch.queue.backoff.ms": 10,  # so little is fetched ahead that a second, the default, would be too long a pause
    "log_level": 0,
}
"""What the options of a source may say otherwise."""

_PATIENCE = 10.0  # seconds to leave in

_OURS = {"enable.auto.commit": False, "enable.partition.eof": False}
"""What they may not: the first would acknowledge what is not on disk."""

_ONE_CONNECTION = "_TRANSPORT"  # is lost; that all are is said by another error
_ENDING = ("_FATAL", "FENCED_INSTANCE_ID")


class Kafka:
    """One topic, all of whose partitions go to one reader.

    A state is fed by one process, so its group has one member. That always has the same name, so that the broker hands
    the partitions of one that was killed to the next at once; if two of that name run, the first ends with an error
    that says so. The name has the topic in it: under an old name, the broker would hand out an old topic's partitions.
    """

    def __init__(self, servers: str, topic: str, group: str, options: dict[str, Any]) -> None:
        self.name = f"kafka://{servers}/{topic}"
        self._topic = topic
        self._options = {
            **_PLAIN,
            "group.instance.id": f"panprivacy-{topic}",
            **options,
            **_OURS,
            "bootstrap.servers": servers,
            "group.id": group,
        }
        self._reader: Reader | None = None
        self._trouble: str | None = None
        self._acknowledged: Ends = {}

    def fetch(self, most: int, seconds: float) -> Messages | None:
        """What has come; a batch is handed out when it is full, or when a tenth of a second is over."""
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
                cause, self._trouble = self._trouble, None
                raise Unreachable(cause)
            return None

        def place(number: int) -> str:
            return f"partition {found.partitions[number]}, offset {found.offsets[number]}"

        return Messages(found.payloads, ends, place)

    def acknowledge(self, messages: Messages) -> None:
        """Commit the offsets after the last messages; the broker may learn of it a little later."""
        try:
            self._connected().commit(messages.receipt, wait=False)
        except Failed as error:
            raise Unreachable(_plainly(str(error))) from None
        self._acknowledged = messages.receipt

    def close(self) -> None:
        """Commit once more what was acknowledged, and leave; a broker that does not answer is not waited for long."""
        if self._reader is not None:
            leaving = threading.Thread(target=self._leave, args=(self._reader,), name="leaving Kafka", daemon=True)
            leaving.start()
            leaving.join(_PATIENCE)

    def _leave(self, reader: Reader) -> None:
        try:
            if self._acknowledged:
                reader.commit(self._acknowledged, wait=True)
        except Failed:
            pass  # then they are given out again, which does no harm
        finally:
            reader.close()

    def _connected(self) -> Reader:
        if self._reader is None:
            self._reader = Reader(self._options, self._topic, self._note_error)
        return self._reader

    def _note_error(self, name: str) -> None:
        if name != _ONE_CONNECTION:
            self._trouble = _plainly(name)

    def _check(self, name: str) -> None:
        if name in _ENDING:
            raise Hopeless(f"another consumer of the same group has taken over ({_plainly(name)})")
        self._note_error(name)


def _plainly(name: str) -> str:
    """The name of an error of Kafka's, as people read it."""
    return name.strip("_").lower().replace("_", " ")
