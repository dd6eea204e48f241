"""How many messages a second are counted from Kafka, beside a bare confluent-kafka consumer that only counts them.

    python benchmarks/brokers.py                # messages of one JSON object, and of one bare id
    python benchmarks/brokers.py --rows 1000    # messages of 1,000 rows in an Arrow stream

PANPRIVACY_KAFKA_JARS names a folder with the jars of Kafka, as `.ci/run` makes one. Broker and consumer share one
machine. Each consumer is a process of its own that reads the same topic from its beginning, in turns; the service is
started as the command starts itself, hardened, and acknowledges what is on disk. A measurement begins with the first
message and ends with the last. One bare consumer has the defaults of librdkafka, the other fetches as ours does.
"""

import argparse
import io
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "brokers"))
from servers import KafkaServer

UNIVERSE = 10**7
TOPIC = "visits"

BARE = """
import sys, time
from confluent_kafka import Consumer
servers, topic, group, wanted = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
tuned = {"queued.max.messages.kbytes": 16384, "fetch.queue.backoff.ms": 10} if TUNED else {}
consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest", **tuned})
consumer.subscribe([topic])
found, began = 0, None
while found < wanted:
    messages = consumer.consume(20_000, 0.1)
    if messages and began is None:
        began = time.time()
    found += len(messages)
print(time.time() - began)
consumer.close()
"""

OURS = """
import sys, time
from panprivacy.memory.hardening import start_hardened, started_as_program
started_as_program()
start_hardened()
from pathlib import Path
from panprivacy.serve.config import settings_of
from panprivacy.serve.service import Service
servers, topic, group, wanted, folder = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), Path(sys.argv[5])
source = {"kind": "kafka", "servers": servers, "topic": topic, "group": group}
counter = {"kind": "density", "universe": 10**7, "epsilon": 1.0, "column": "user", "source": source}
settings = settings_of({"service": {"anonymous": ["read"]}, "counters": {"flu": counter}}, folder)
service = Service(settings)
found, began = 0, None
from panprivacy.brokers.consumer import BrokerConsumer
hand_over, acknowledge = BrokerConsumer._hand_over, BrokerConsumer._acknowledge
def handed_over(pump, messages, start, end):
    global began
    began = began or time.time()
    return hand_over(pump, messages, start, end)
def acknowledged(pump, messages):
    global found
    acknowledge(pump, messages)
    found += len(messages.payloads)
BrokerConsumer._hand_over, BrokerConsumer._acknowledge = handed_over, acknowledged
with service:
    while found < wanted:
        time.sleep(0.005)
    print(time.time() - began)
"""


def payloads_of(messages: int, rows: int, form: str) -> list[bytes]:
    """Messages with random users."""
    draw = np.random.default_rng(1)
    if form == "arrow":
        return [_arrow(draw.integers(0, UNIVERSE, rows)) for _ in range(messages)]
    pattern = b'{"user": %d}' if form == "json" else b"%d"
    return [pattern % user for user in draw.integers(0, UNIVERSE, messages).tolist()]


def _arrow(ids: NDArray[np.int64]) -> bytes:
    out = io.BytesIO()
    pl.DataFrame({"user": ids}).write_ipc_stream(out)
    return out.getvalue()


def seconds_of(code: str, server: KafkaServer, topic: str, messages: int) -> float:
    """How long one process takes from its first message to its last."""
    group = f"g{time.monotonic_ns()}"
    with tempfile.TemporaryDirectory() as folder:
        arguments = [f"127.0.0.1:{server.port}", topic, group, str(messages), folder]
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout)


def compare(server: KafkaServer, form: str, messages: int, rows: int, rounds: int) -> None:
    """Measure both in turns, and show medians and the ratio."""
    topic = f"{TOPIC}-{form}"
    server.fill(topic, payloads_of(messages, rows, form))
    plain, tuned, ours = [], [], []
    for _ in range(rounds):
        plain.append(seconds_of(BARE.replace("TUNED", "False"), server, topic, messages))
        tuned.append(seconds_of(BARE.replace("TUNED", "True"), server, topic, messages))
        ours.append(seconds_of(OURS, server, topic, messages))
        print("  messages a second:", *(f"{messages / each[-1]:,.0f}" for each in (plain, tuned, ours)), flush=True)
    rate = messages / statistics.median(ours)
    ratios = [statistics.median(one / other for one, other in zip(each, ours, strict=True)) for each in (plain, tuned)]
    print(
        f"{form}: {rate:,.0f} messages a second ({rate * rows:,.0f} ids), {ratios[0]:.2f} of a bare consumer, "
        f"{ratios[1]:.2f} of one that fetches as ours does",
        flush=True,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=3_000_000)
    parser.add_argument("--rows", type=int, default=1, help="rows of a message; more than 1 are an Arrow stream")
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        server = KafkaServer(Path(folder))
        server.start()
        try:
            for form in ("arrow",) if asked.rows > 1 else ("json", "id"):
                compare(server, form, asked.messages, asked.rows, asked.rounds)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
