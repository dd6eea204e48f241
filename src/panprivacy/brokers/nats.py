"""A stream of NATS JetStream, read by nats-py through a durable pull consumer: messages are acknowledged one by one.

JetStream can also acknowledge all messages up to one. But it gives out again what a killed reader had not acknowledged
after newer messages, and acknowledging those would acknowledge the older ones unseen.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import wraps
from typing import Any, TypeVar

from panprivacy.brokers import NO_ANSWER, NOT_LET_IN, Block, Hopeless, Messages, Unreachable

_PATIENCE = 5.0  # seconds for a connection
_PING = 10  # seconds between questions whether the broker is there, two of which may stay without an answer
_NOT_LET_IN = "authorization violation"  # which nats-py quotes in an error of no class of its own
_PENDING = 100_000  # messages that may be out and not acknowledged


T = TypeVar("T")


def _in_loop(method: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., T]:
    """Run a method in the loop of its client."""

    @wraps(method)
    def run(self: "Nats", *arguments: Any) -> T:
        import nats.errors

        self._loop = self._loop or asyncio.new_event_loop()
        try:
            # A client that cannot find its server would let a call wait for ever.
            return self._loop.run_until_complete(asyncio.wait_for(method(self, *arguments), 2 * _PATIENCE))
        except (nats.errors.Error, TimeoutError, OSError) as error:
            raise Unreachable(self._cause(error)) from None

    return run


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
        self._noted: BaseException | None = None  # the last error of a connection that is tried again and again

    @_in_loop
    async def fetch(self, most: int, seconds: float) -> Messages | None:
        """Messages that are there, or the first that come."""
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

    @_in_loop
    async def waiting(self) -> int | None:
        """How many messages of the stream the consumer has not been given."""
        found: int | None = (await (await self._connected()).consumer_info()).num_pending
        return found

    def check(self) -> None:
        """Ask for the stream; a missing consumer is not made."""
        try:
            self._ask()
        finally:
            self.close()

    @_in_loop
    async def _ask(self) -> None:
        await self._connect()
        await self._check_consumer(self._client.jetstream(), add=False)

    @_in_loop
    async def acknowledge(self, messages: Messages) -> None:
        """Acknowledge each message, and wait until the broker has it."""
        for message in messages.receipt:
            await message.ack()
        await self._client.flush(timeout=_PATIENCE)

    def close(self) -> None:
        """Disconnect, and end tasks that nats-py has left: a loop that is closed over them complains."""
        if self._loop is not None:
            try:
                with suppress(Unreachable):  # the loop is closed all the same
                    self._disconnect()
            finally:
                tasks = asyncio.all_tasks(self._loop)
                for task in tasks:
                    task.cancel()
                if tasks:
                    self._loop.run_until_complete(asyncio.wait(tasks))
                self._loop.close()

    @_in_loop
    async def _disconnect(self) -> None:
        if self._client is not None:
            await self._client.close()

    def _cause(self, error: BaseException) -> str:
        """Why there is nothing to read, for people."""
        from nats.errors import NoServersError
        from nats.js.errors import NotFoundError, ServiceUnavailableError

        if isinstance(error, NotFoundError):
            return f"there is no stream {self._stream}"
        if isinstance(error, ServiceUnavailableError):
            return "the broker has no JetStream"
        if any(_NOT_LET_IN in str(each).lower() for each in (error, self._noted)):
            return NOT_LET_IN
        return NO_ANSWER if isinstance(error, (TimeoutError, OSError, NoServersError)) else type(error).__name__

    async def _connected(self) -> Any:
        await self._connect()
        if self._pulled is None:
            stream = self._client.jetstream()
            await self._check_consumer(stream, add=True)
            self._pulled = await stream.pull_subscribe_bind(consumer=self._consumer, stream=self._stream)
        return self._pulled

    async def _connect(self) -> None:
        import nats

        if self._client is None or self._client.is_closed:
            self._pulled = None
            ours: dict[str, Any] = dict.fromkeys(("disconnected_cb", "closed_cb"), _say_nothing)
            ours |= {"error_cb": self._note_error, "reconnected_cb": self._note_error}
            given = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.5, "ping_interval": _PING, **self._options}
            async with asyncio.timeout(_PATIENCE):
                self._client = await nats.connect(self._servers, **given, **ours)
            self._noted = None

    async def _note_error(self, error: BaseException | None = None) -> None:
        """Note the last error of a connection, in the place of a line on standard error; none if it is there again."""
        self._noted = error

    async def _check_consumer(self, stream: Any, *, add: bool) -> None:
        """Refuse a durable consumer that is not as it must be; one that is missing may be added."""
        from nats.js.api import AckPolicy, ConsumerConfig
        from nats.js.errors import NotFoundError

        await stream.stream_info(self._stream)
        try:
            config = (await stream.consumer_info(self._stream, self._consumer)).config
        except NotFoundError:
            config = ConsumerConfig(durable_name=self._consumer, filter_subject=self._subject, max_ack_pending=_PENDING)
            config.ack_policy = AckPolicy.EXPLICIT
            if add:
                await stream.add_consumer(self._stream, config)
        if config.ack_policy != AckPolicy.EXPLICIT:
            raise Hopeless(f"consumer {self._consumer} does not acknowledge each message: its policy must be explicit")


async def _say_nothing(*_: Any) -> None:
    """In the place of lines that nats-py would write to standard error."""
