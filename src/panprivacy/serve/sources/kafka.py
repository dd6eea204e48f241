"""A topic of Kafka, read by confluent-kafka: the group's offsets are committed once the state is on disk."""

import threading
from typing import Any

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
            "error_cb": self._note_error,
        }
        self._consumer: Any = None
        self._trouble: str | None = None
        self._acknowledged: dict[tuple[str, int], int] = {}

    def fetch(self, most: int, seconds: float) -> Messages | None:
        """What has come; a batch is handed out when it is full, or when a tenth of a second is over."""
        consumer = self._connected()
        found = consumer.consume(most, min(seconds, 0.1))
        messages = [message for message in found if message.error() is None]
        if len(messages) < len(found):
            for message in found:
                self._check(message.error())
        if not messages:
            if self._trouble is not None:
                cause, self._trouble = self._trouble, None
                raise Unreachable(cause)
            return None
        payloads = [value for message in messages if (value := message.value())]  # deleted ones have none
        if len(payloads) < len(messages):
            messages = [message for message in messages if message.value()]
        ends = [each for each in consumer.position(consumer.assignment()) if each.offset >= 0]

        def place(number: int) -> str:
            return f"partition {messages[number].partition()}, offset {messages[number].offset()}"

        return Messages(payloads, ends, place) if payloads else None

    def acknowledge(self, messages: Messages) -> None:
        """Commit the offsets after the last messages; the broker may learn of it a little later."""
        from confluent_kafka import KafkaException

        try:
            self._consumer.commit(offsets=messages.receipt, asynchronous=True)
        except KafkaException as error:
            raise Unreachable(_said(error.args[0])) from None
        self._acknowledged = {(each.topic, each.partition): each.offset for each in messages.receipt}

    def close(self) -> None:
        """Commit once more what was acknowledged, and leave; a broker that does not answer is not waited for long."""
        if self._consumer is not None:
            leaving = threading.Thread(target=self._leave, name="leaving Kafka", daemon=True)
            leaving.start()
            leaving.join(_PATIENCE)

    def _leave(self) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        ends = [TopicPartition(topic, part, offset) for (topic, part), offset in self._acknowledged.items()]
        try:
            if ends:
                self._consumer.commit(offsets=ends, asynchronous=False)
        except KafkaException:
            pass  # then they are given out again, which does no harm
        finally:
            self._consumer.close()

    def _connected(self) -> Any:
        if self._consumer is None:
            from confluent_kafka import Consumer

            self._consumer = Consumer(self._options)
            self._consumer.subscribe([self._topic])
        return self._consumer

    def _note_error(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        if error.code() != KafkaError._TRANSPORT:  # of one connection; that all are gone is said by another
            self._trouble = _said(error)

    def _check(self, error: Any) -> None:
        from confluent_kafka import KafkaError

        if error is None:
            return
        if error.fatal() or error.code() == KafkaError.FENCED_INSTANCE_ID:
            raise Hopeless(f"another consumer of the same group has taken over ({_said(error)})")
        self._note_error(error)


def _said(error: Any) -> str:
    """The name of an error of Kafka's."""
    return str(error.name()).strip("_").lower().replace("_", " ")
