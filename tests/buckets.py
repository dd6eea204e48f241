"""An S3-compatible server of this process, and buckets in it."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from benchmark_modules import benchmark

NEVER = 2**62
"""Requests between two that are answered by an error."""


@contextmanager
def s3_server() -> Iterator[str]:
    """Where a server listens that keeps buckets in memory.

    It serves one request at a time: the store by itself looks whether an object exists, and then writes it.
    """
    pytest.importorskip("moto.moto_server.werkzeug_app")
    with benchmark("lying_store").lying_store(writes=NEVER, reads=NEVER) as (url, _):
        yield url


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
