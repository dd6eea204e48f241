"""Tables and addresses of brokers: what is wrong is said by its key, before anything connects."""

import re
from pathlib import Path
from typing import Any

import pytest

from command_line import invoke
from panprivacy.brokers.settings import parse_address
from panprivacy.serve.config import settings_of
from panprivacy.settings import InvalidSettings

KAFKA = {"kind": "kafka", "servers": "localhost:9092", "topic": "visits"}
DENSITY = {"kind": "density", "universe": 100, "epsilon": 1.0, "column": "user"}


def _problems(folder: Path, source: dict[str, Any], **counter: Any) -> list[str]:
    said = {**DENSITY, **counter, "source": source}
    try:
        settings_of({"service": {"anonymous": ["read"]}, "counters": {"flu": said}}, folder)
    except InvalidSettings as error:
        return list(error.problems)
    return []


@pytest.mark.parametrize(
    "source",
    [
        {**KAFKA, "group": "g", "options": {"security.protocol": "SSL"}, "batch": 7, "bad": "skip", "format": "json"},
        {"kind": "nats", "servers": "localhost:4222", "stream": "V", "consumer": "c", "subject": "visits.*"},
        {"kind": "redis", "servers": "localhost:6379", "stream": "visits", "group": "g", "field": "f", "database": 3},
    ],
)
def test_a_source_is_made_without_connecting(source: dict[str, Any], tmp_path: Path) -> None:
    assert _problems(tmp_path, source) == []


def test_all_that_is_wrong_is_said_by_its_key(tmp_path: Path) -> None:
    at = "counters.flu.source"
    assert _problems(tmp_path, {"kind": "kafka", "servrs": "x", "batch": 0, "bad": "ignore"}) == [
        f"{at}.servers: is missing: the host and port of the broker",
        f"{at}.bad: must be stop or skip, got 'ignore'",
        f"{at}.batch: must be at least 1, got 0",
        f"{at}.topic: is missing: the topic with the messages",
        f"{at}.servrs: there is no such key; is it servers?",
    ]
    (line,) = _problems(tmp_path, {"kind": "rabbit"})
    assert line == f"{at}.kind: must be one of kafka, nats, redis, got 'rabbit'"


def test_counters_to_which_a_second_delivery_matters_are_refused_with_the_reason(tmp_path: Path) -> None:
    (line,) = _problems(tmp_path, KAFKA, kind="counts", up_to=4)
    assert line.startswith("counters.flu.source: a broker may deliver a message twice")
    (line,) = _problems(tmp_path, KAFKA, kind="retention", releases=3)
    assert "would count in the next one" in line
    timed = {"every": "1d", "time": "at", "start": "2026-01-01", "late": "skip"}
    assert _problems(tmp_path, KAFKA, kind="actives", span="7d", schedule=timed) == []
    assert _problems(tmp_path, KAFKA, action="what") == []
    (line,) = _problems(tmp_path, {"kind": "nats", "servers": "h:1", "stream": "s"}, action="what")
    assert "a deletion could be undone" in line


def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panprivacy.brokers.settings.find_spec", lambda _: None)
    (line,) = _problems(tmp_path, KAFKA)
    assert line.endswith("this needs confluent_kafka: pip install 'panprivacy[kafka]'")


def test_an_address_says_what_a_table_says() -> None:
    assert parse_address("kafka://a:1,b:2/visits?group=g") == {
        "kind": "kafka", "servers": "a:1,b:2", "topic": "visits", "group": "g",
    }  # fmt: skip
    assert parse_address("nats://h:4222/VISITS?batch=10")["batch"] == 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("kafka://h:1/t", "-n", "10", "-e", "1"), "say --state FILE.pp"),
        (("rabbit://h:1/t", "-n", "10", "-e", "1", "-s", "s.pp"), "an address is like kafka://HOST:PORT/TOPIC"),
        (("kafka://h:1", "-n", "10", "-e", "1", "-s", "s.pp"), "an address is like kafka://HOST:PORT/TOPIC"),
        (("redis://me:secret@h:1/t", "-n", "10", "-e", "1", "-s", "s.pp"), "put it into a file"),
        (("kafka://h:1/t?grup=g", "-n", "10", "-e", "1", "-s", "s.pp"), "grup: there is no such key; is it group?"),
        (("kafka://h:1/t", "-e", "1", "-s", "s.pp"), "are ids integers or text?"),
        (("kafka://h:1/t", "-n", "10", "-s", "s.pp"), "how much privacy?"),
        (("nats://h:1/t", "-n", "10", "-e", "1", "-s", "s.pp", "--action", "what"), "a deletion could be undone"),
        (
            ("kafka://h:1/t", "-n", "10", "-e", "1", "-s", "s.pp", "-f", "xml"),
            "format: must be json, id or",
        ),
        (("kafka://h:1/t", "--nodes", "9", "-e", "1", "-s", "s.pp"), "a graph needs --edges SRC,DST"),
        (("kafka://h:1/t", "-n", "10", "--edges", "a,b", "-e", "1", "-s", "s.pp"), "--edges is for a graph"),
        (("kafka://h:1/t", "-n", "10", "-e", "1", "-s", "s.pp", "--shard", "4"), "write it like 0/4"),
        (("kafka://h:1/t", "-n", "10", "-e", "1", "-s", "s.pp", "--error", ".1"), "--error: for a state without a"),
        (
            ("kafka://h:1/t", "--ids", "text", "-e", "1", "-s", "s.pp", "--sample", "9", "--shard", "0/2"),
            "--sample and --shard: for a state with a universe, and this one has none",
        ),
    ],
)
def test_what_a_command_cannot_do_is_one_line(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = invoke(["consume", *arguments])
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert said in line
    assert "secret" not in line


def test_a_state_that_counts_how_often_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("user\n1\n")
    state = str(tmp_path / "s.pp")
    made = ["counts", str(tmp_path / "v.csv"), "-c", "user", "-n", "10", "-e", "1", "-s", state]
    assert invoke(made).exit_code == 0
    result = invoke(["consume", "kafka://h:1/t", "-s", state])
    assert result.exit_code == 2
    assert "a broker may deliver a message twice, after a crash, and a Counts would count it twice" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "asked", "said"),
    [
        (("density", "-n", "1000", "--sample", "100"), ("--sample", "200"), "a table of 200 bits"),
        (("density", "-n", "1000", "--intrusions", "1"), ("--intrusions", "2"), "intrusions 1 in the state, and 2"),
        (("distinct", "--ids", "integers", "--buckets", "64"), ("--buckets", "128"), "this state has 64 buckets"),
        (("distinct", "--ids", "integers"), ("--key", "ab" * 16), "another key than was asked for"),
    ],
)
def test_a_state_of_another_size_than_is_asked_for_is_refused(
    made: tuple[str, ...], asked: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    (tmp_path / "v.csv").write_text("user\n1\n")
    state = str(tmp_path / "s.pp")
    command, *more = made
    arguments = [command, str(tmp_path / "v.csv"), "-c", "user", *more, "-e", "1", "-s", state]
    assert invoke(arguments).exit_code == 0
    result = invoke(["consume", "kafka://h:1/t", "-s", state, *asked])
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.slow
def test_help_of_messages_does_not_speak_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERMINAL_WIDTH", "100")
    shown = invoke(["consume", "--help"]).stdout
    assert "Messages: JSON objects" in shown
    assert "Events: CSV" not in shown
    assert "Events: CSV" in invoke(["density", "--help"]).stdout


@pytest.mark.slow
def test_options_of_density_and_distinct_are_options_of_consume() -> None:
    """But for those of files, and of folders, which messages are not acknowledged from."""
    density, distinct, consume = (
        set(re.findall(r"^│ +(--[a-z-]+)", invoke([each, "--help"]).stdout, flags=re.MULTILINE))
        for each in ("density", "distinct", "consume")
    )
    assert (density | distinct) - consume == {"--separator", "--no-header", "--missing", "--shards"}
