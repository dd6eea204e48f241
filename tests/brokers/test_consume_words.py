"""What `panprivacy consume` says of messages that it cannot count: once, in its own words, naming fields only."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import FakeBroker

from command_line import invoke
from panprivacy.brokers.consumer import BrokerConsumer
from panprivacy.ingest import Columns

ADDRESS = "redis://localhost:1/visits"


@pytest.fixture
def said_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """The lines on standard error of a command that reads these messages from a broker in memory, and fails."""

    def lines(messages: list[bytes], *options: str) -> list[str]:
        def consumer(source: Any, _name: str, columns: Columns, tell: Any) -> BrokerConsumer:
            return BrokerConsumer(FakeBroker(messages), columns, batch=1, skip_bad=source.bad == "skip", tell=tell)

        monkeypatch.setattr("panprivacy.brokers.settings.consumer_of", consumer)
        budget = ("-n", "1000", "-e", "1", "--state", str(tmp_path / "flu.pp"))
        result = invoke(["consume", ADDRESS, *budget, *options])
        assert (result.exit_code, result.stdout) == (2, "")
        return [
            line for line in result.stderr.splitlines() if "not in force here" not in line and "reading" not in line
        ]

    return lines


def test_a_field_that_is_not_there_is_named_once_beside_those_that_are(said_of: Callable[..., list[str]]) -> None:
    (line,) = said_of([b'{"user": 17, "at": 3}'], "-c", "usr")
    assert "message 0: no field 'usr'; it has 'user', 'at'; --skip-bad would leave out" in line
    assert "counted and saved" not in line
    assert "17" not in line


def test_what_came_before_is_said_to_be_saved_if_something_did(
    said_of: Callable[..., list[str]], tmp_path: Path
) -> None:
    *_, line = said_of([b'{"user": 17}', b'{"user": 4711}'], "-c", "user")
    assert "message 1: its user is not in the universe; --skip-outside leaves such messages out" in line
    assert "; what came before is counted and saved; --skip-bad" in line
    assert "4711" not in line
    assert (tmp_path / "flu.pp").exists()


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b'{"user": null}', "no field 'user', or nothing in it; --skip-missing leaves such messages out"),
        (b'{"user": "secret"}', "it is no JSON object, bare id or Arrow stream with ids that are integers"),
        (b"secret", "it is no JSON object, bare id or Arrow stream with ids that are integers"),
    ],
)
def test_the_words_are_those_of_a_command(said_of: Callable[..., list[str]], message: bytes, words: str) -> None:
    *_, line = said_of([message], "-c", "user")
    assert f"message 0: {words}; --skip-bad" in line
    assert "secret" not in line
