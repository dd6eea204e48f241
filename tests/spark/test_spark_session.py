"""A session that would leave on disk who is in a batch is refused, and told what it lacks."""

from typing import Any

import pytest

from panprivacy import testing
from panprivacy.spark import NEEDED, check_session


class Session:
    """A session as far as it is asked about its settings."""

    def __init__(self, **settings: str) -> None:
        self.conf: Any = self
        self._settings = {name.replace("_", "."): value for name, value in settings.items()}

    def get(self, name: str, default: str) -> str:
        return self._settings.get(name, default)


def safe(**more: str) -> Session:
    return Session(**dict.fromkeys(NEEDED, "true"), **more)


def test_a_session_that_encrypts_and_deletes_is_taken() -> None:
    check_session(safe(), allow_plain_shuffle=False)
    check_session(safe(spark_shuffle_manager="sort"), allow_plain_shuffle=False)


@pytest.mark.parametrize("lacking", NEEDED)
def test_the_setting_that_is_lacking_is_named(lacking: str) -> None:
    settings = {name: "true" for name in NEEDED if name != lacking}
    with testing.refused("plain-shuffle", f'.config("{lacking}", "true")') as refusal:
        check_session(Session(**settings), allow_plain_shuffle=False)
    assert all(name not in str(refusal) for name in settings)
    check_session(Session(), allow_plain_shuffle=True)


def test_a_shuffle_of_somebody_else_is_refused() -> None:
    with testing.refused("plain-shuffle", "Celeborn"):
        check_session(safe(spark_shuffle_manager="org.apache.Celeborn"), allow_plain_shuffle=False)


def test_a_remote_session_is_refused_even_so() -> None:
    remote = type("SparkSession", (Session,), {"__module__": "pyspark.sql.connect.session"})()
    with testing.refused("spark-connect"):
        check_session(remote, allow_plain_shuffle=True)
