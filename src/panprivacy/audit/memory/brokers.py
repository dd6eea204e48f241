"""Real brokers on free ports of this machine, for audits and for tests: started, filled, killed and started again."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from panprivacy.audit.memory.images import CannotImage

JARS = "PANPRIVACY_KAFKA_JARS"  # the variable that names the folder with the jars of Kafka; `.ci/run` sets it
_PATIENCE = 120.0  # seconds: on a busy machine Java takes its time
_FORMATTED = "formatted"  # beside the jars: a folder of data with nothing in it, since making one takes seconds


def free_port() -> int:
    """A port that is not in use."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class Server:
    """A broker on a port of this machine, which is fed, killed without warning, and started again."""

    program: str
    """What has to be installed."""
    command: Sequence[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def missing(cls) -> str | None:
        """Why it cannot be started here; None if it can."""
        return None if shutil.which(cls.program) else f"{cls.program} is not installed"

    def start(self) -> None:
        """Start it, and wait until it listens."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self.command, cwd=self.folder, stdout=log, stderr=log)
        address = "127.0.0.1", self.port
        until(lambda: _answers(lambda: socket.create_connection(address, 1).close()), "the broker listens")

    def kill(self) -> None:
        """Kill it without warning."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def fill(self, topic: str, payloads: Sequence[bytes]) -> None:
        """Publish messages, in order."""
        raise NotImplementedError

    def left(self, topic: str) -> int:
        """How many messages are not acknowledged, or not even read; -1 while the broker is not ready to say."""
        raise NotImplementedError

    def source(self, topic: str) -> dict[str, str]:
        """What the file of a service says."""
        raise NotImplementedError

    def address(self, topic: str) -> str:
        """The same as an address on a command line."""
        said = self.source(topic)
        kind, servers, read_from, *more = said.values()
        keys = list(said)[3:]
        return f"{kind}://{servers}/{read_from}?{'&'.join(map('='.join, zip(keys, more, strict=True)))}"


class RedisServer(Server):
    """Redis, which has every entry on disk before it answers."""

    program = "redis-server"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.command = [self.program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(folder)]
        self.command += ["--appendonly", "yes", "--appendfsync", "always", "--save", ""]

    def start(self) -> None:
        super().start()
        import redis

        with redis.Redis(port=self.port) as client:
            until(lambda: _answers(client.ping), "Redis has read its file")

    def fill(self, topic: str, payloads: Sequence[bytes]) -> None:
        import redis

        with redis.Redis(port=self.port) as client, client.pipeline(transaction=False) as pipe:
            for payload in payloads:
                pipe.xadd(topic, {"data": payload})
            pipe.execute()

    def source(self, topic: str) -> dict[str, str]:
        return {"kind": "redis", "servers": f"127.0.0.1:{self.port}", "stream": topic, "field": "data"}

    def left(self, topic: str) -> int:
        import redis

        with redis.Redis(port=self.port) as client:
            groups = client.xinfo_groups(topic)
            return int(groups[0]["pending"] + (groups[0]["lag"] or 0)) if groups else int(client.xlen(topic))


class NatsServer(Server):
    """NATS with JetStream in files."""

    program = "nats-server"
    redelivers_after = 60.0
    """Seconds after which it gives out again what was not acknowledged. An image must not see such a message: it would
    be counted once more, after the auditor had noted the table."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.command = [self.program, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(folder)]

    def fill(self, topic: str, payloads: Sequence[bytes]) -> None:
        import nats
        from nats.js.api import AckPolicy, ConsumerConfig

        async def fill() -> None:
            client = await nats.connect(f"nats://127.0.0.1:{self.port}")
            stream = client.jetstream(publish_async_max_pending=10_000)
            await stream.add_stream(name=topic, subjects=[topic])
            config = ConsumerConfig(
                durable_name="quick",
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=self.redelivers_after,
                max_ack_pending=20_000,
            )
            await stream.add_consumer(topic, config)
            for payload in payloads:
                await stream.publish_async(topic, payload)
            await stream.publish_async_completed()
            await client.close()

        asyncio.run(fill())

    def source(self, topic: str) -> dict[str, str]:
        return {"kind": "nats", "servers": f"127.0.0.1:{self.port}", "stream": topic, "consumer": "quick"}

    def left(self, topic: str) -> int:
        import nats

        async def left() -> int:
            client = await nats.connect(f"nats://127.0.0.1:{self.port}")
            info = await client.jetstream().consumer_info(topic, "quick")
            await client.close()
            return int((info.num_pending or 0) + (info.num_ack_pending or 0))

        return asyncio.run(left())


class KafkaServer(Server):
    """Kafka in KRaft mode: one process that is broker and controller."""

    program = "java"

    @classmethod
    def missing(cls) -> str | None:
        jars = os.environ.get(JARS, "")
        if not jars or not any(Path(jars).glob("kafka_*.jar")):
            return f"{JARS} names no folder with the jars of Kafka"
        return super().missing()

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        jars = Path(os.environ[JARS])
        settings = folder / "server.properties"
        controller = free_port()
        settings.write_text(
            "process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\ncontroller.listener.names=CONTROLLER\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}\n"
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}\nlog.dirs={folder / 'data'}\n"
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
            "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\ngroup.initial.rebalance.delay.ms=0\n"
        )
        java = [self.program, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*"]
        formatted = jars / _FORMATTED
        if not formatted.exists():
            tool = [*java, "kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(settings)]
            subprocess.run(tool, check=True, capture_output=True)
            shutil.copytree(folder / "data", new := formatted.with_name(f"{_FORMATTED}.{os.getpid()}"))
            try:
                new.rename(formatted)
            except OSError:  # another process was quicker
                shutil.rmtree(new)
        else:
            shutil.copytree(formatted, folder / "data")
        self.command = [*java, "kafka.Kafka", str(settings)]

    def fill(self, topic: str, payloads: Sequence[bytes]) -> None:
        from confluent_kafka import KafkaException, Producer
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        servers: dict[str, Any] = {"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0}
        try:
            admin = AdminClient(servers)  # which has to live until the topic is made
            admin.create_topics([NewTopic(topic, 2, 1)])[topic].result()
        except KafkaException as error:
            if error.args[0].name() != "TOPIC_ALREADY_EXISTS":
                raise
        producer = Producer({**servers, "linger.ms": 20})
        for number, payload in enumerate(payloads):
            producer.produce(topic, payload, partition=number % 2)
            if number % 50_000 == 0:
                producer.flush(60)  # or its queue would be full
        assert producer.flush(60) == 0

    def source(self, topic: str) -> dict[str, str]:
        return {"kind": "kafka", "servers": f"127.0.0.1:{self.port}", "topic": topic, "group": topic}

    def left(self, topic: str) -> int:
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        reader = Consumer({"bootstrap.servers": f"127.0.0.1:{self.port}", "group.id": topic, "log_level": 0})
        try:
            parts = [TopicPartition(topic, number) for number in range(2)]
            done = sum(max(part.offset, 0) for part in reader.committed(parts, timeout=30))
            return sum(reader.get_watermark_offsets(part, timeout=30)[1] for part in parts) - done
        except KafkaException:
            return -1
        finally:
            reader.close()


KINDS: dict[str, type[Server]] = {"kafka": KafkaServer, "nats": NatsServer, "redis": RedisServer}


def started(kind: str, folder: Path) -> Server:
    """A broker that runs, and keeps what it has in a new folder."""
    folder.mkdir()
    server = KINDS[kind](folder)
    server.start()
    return server


def until(holds: Callable[[], bool], what: str, seconds: float = _PATIENCE) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise CannotImage(f"{what}: not within {seconds:g} seconds")
        time.sleep(0.05)


def _answers(call: Callable[[], Any]) -> bool:
    try:
        call()
    except Exception:  # of whichever library
        return False
    return True
