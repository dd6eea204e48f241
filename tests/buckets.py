"""An S3-compatible server of this process, and buckets in it."""

import random
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def s3_server() -> Iterator[str]:
    """Where a server listens that keeps buckets in memory."""
    threaded = pytest.importorskip("moto.server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    running = threaded.ThreadedMotoServer(ip_address="127.0.0.1", port=port)
    running.start()
    yield f"http://127.0.0.1:{port}"
    running.stop()


def new_bucket(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty bucket, which clients of this process find by their environment."""
    fsspec = pytest.importorskip("fsspec")
    given = {"ACCESS_KEY_ID": "someone", "SECRET_ACCESS_KEY": "secret", "DEFAULT_REGION": "us-east-1"}
    for name, value in (given | {"ENDPOINT_URL": server}).items():
        monkeypatch.setenv(f"AWS_{name}", value)
    fsspec.get_filesystem_class("s3").clear_instance_cache()  # a client of another server would be taken for this one
    bucket = f"counts-{random.SystemRandom().getrandbits(32):08x}"
    fsspec.filesystem("s3").mkdir(bucket)
    return f"s3://{bucket}"
