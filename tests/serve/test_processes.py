"""The service as it is deployed: a process that hardens itself, listens, drains on SIGTERM, and outlives kills."""

import json
import signal
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
from processes import ANYBODY, FLU_TABLE, ask, begin, started

from benchmark_modules import benchmark
from command_line import Result, invoke
from panprivacy.serve.logs import COMPILING
from panprivacy.serve.tokens import written_hash
from panprivacy.serve.worker import Worker

pytestmark = pytest.mark.slow


def run(*arguments: str | Path) -> Result:
    """Run a command here."""
    return invoke(arguments)


def test_without_a_file_there_is_a_counter_with_data() -> None:
    with started("--port", "0") as (process, port), closing(HTTPConnection("127.0.0.1", port)) as connection:
        releases: list[Any] = []
        end = time.monotonic() + 240
        while len(releases) < 50 and time.monotonic() < end:
            releases = json.loads(ask(connection, "GET", "/counters/demo/releases")[1])["releases"]
            time.sleep(0.2)
        assert len(releases) >= 50
        assert {each["group"] for each in releases[-1]["groups"]} == {"north", "south", "west", "east"}
        assert ask(connection, "GET", "/")[0] == 200
        connection.request("GET", "/stream")
        for _ in range(2):  # whoever is impatient says it twice
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, b"")
    lines = [line for line in err.splitlines() if COMPILING.encode() not in line]
    assert {json.loads(line)["event"] for line in lines} <= {"a measure is not in force"}


def test_a_deployed_service_is_hardened_speaks_tls_logs_no_id_and_drains(tmp_path: Path) -> None:
    command = "openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 1 -subj /CN=localhost"
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    tls = '[service.tls]\ncertificate = "cert.pem"\nkey = "key.pem"\n[limits]\nseconds = 4\n'
    (tmp_path / "counters.toml").write_text(ANYBODY + tls + FLU_TABLE)
    trusted = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    trusted.check_hostname = False
    with started(tmp_path / "counters.toml") as (process, port), ExitStack() as open_:

        def connected() -> HTTPSConnection:
            connection = HTTPSConnection("127.0.0.1", port, context=trusted, timeout=120)
            return open_.enter_context(closing(connection))

        missing = _missing_measures(connected())
        _send_what_is_refused(connected())
        _send_long_bodies(connected())
        slow, sender, reader = connected(), connected(), connected()
        begin(slow, b"[1, 2", 9)
        assert slow.getresponse().status == 408
        reader.request("GET", "/stream")
        stream = reader.getresponse()
        begin(sender, b"[1, 2", 9)
        time.sleep(0.3)
        process.terminate()
        time.sleep(0.3)
        sender.send(b", 3]")
        assert sender.getresponse().status == 204, "what is under way when the service is told to stop is counted"
        assert stream.read().startswith(b"retry: 3000")
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert b"7654321" not in out + err
    said = [json.loads(line) for line in err.splitlines()]
    events = [each["event"] for each in said]
    assert [each for each in events if each.startswith("st")] == ["starting", "started", "stopping", "stopped"]
    assert missing == {each["measure"] for each in said if each["event"] == "a measure is not in force"}


def _missing_measures(connection: HTTPConnection) -> set[str]:
    """What is not in force; what can be everywhere is."""
    measures = json.loads(ask(connection, "GET", "/health")[1])["hardening"]
    in_force = {each["measure"] for each in measures if each["in_force"]}
    assert {"the C library overwrites what is freed", "no core dumps"} <= in_force
    return {each["measure"] for each in measures} - in_force


def _send_what_is_refused(connection: HTTPConnection) -> None:
    for path in ("/counters/flu/events?user=7654321", "/counters/7654321/events", "/7654321"):
        assert b"7654321" not in ask(connection, "POST", path, b"[7654321]")[1]
    connection.sock.sendall(b"7654321 HTTP/7654321\r\n\r\n")
    assert b"7654321" not in connection.sock.recv(1000)


def _send_long_bodies(connection: HTTPConnection) -> None:
    body = b"user\n" + b"1234\n" * 100_000
    for _ in range(2):
        connection.request("POST", "/counters/flu/events", body, {"content-type": "text/csv"})
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (204, b"")


def test_check_starts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "counters.toml"
    file.write_text(ANYBODY + FLU_TABLE)
    assert run("serve", file, "--initialize", "--check").stdout.endswith("1 counter, and nothing wrong\n")
    assert not (tmp_path / "states").exists()
    file.write_text(ANYBODY + FLU_TABLE.replace("epsilon", "epsilom"))
    refused = run("serve", file, "--initialize", "--check")
    assert refused.exit_code == 2
    assert "counters.flu.epsilom: there is no such key; is it epsilon?" in refused.stderr


def test_check_says_which_counters_will_be_mostly_noise(tmp_path: Path) -> None:
    file = tmp_path / "counters.toml"
    people = '[counters.people]\nkind = "distinct"\nids = "text"\nepsilon = 0.2\nreleases = 100\ncolumn = "user"\n'
    file.write_text(ANYBODY + FLU_TABLE + people)
    checked = run("serve", file, "--initialize", "--check")
    assert checked.exit_code == 0
    assert checked.stdout.endswith("2 counters, and nothing wrong\n")
    (note,) = checked.stderr.splitlines()
    assert note.startswith("panprivacy: counters.people: releases will be mostly noise: each has a standard error of ")
    assert "of the count; what helps: more epsilon, fewer releases, delta 1e-09, more than " in note


def test_check_says_where_no_delta_is_used_and_suggests_none(tmp_path: Path) -> None:
    file = tmp_path / "counters.toml"
    people = (
        '[counters.people]\nkind = "distinct"\nids = "text"\nepsilon = 0.02\ncolumn = "user"\ndelta = 1e-9\nreleases = '
    )
    file.write_text(ANYBODY + people + "4\n")
    unused, noisy = run("serve", file, "--initialize", "--check").stderr.splitlines()
    assert unused == "panprivacy: counters.people: Laplace noise errs less here, so no delta is used"
    assert "what helps: more epsilon, fewer releases, more than " in noisy
    file.write_text(ANYBODY + people + "40\n")
    assert "no delta is used" not in run("serve", file, "--initialize", "--check").stderr


def test_a_measure_that_is_missing_at_the_start_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "counters.toml").write_text(ANYBODY + FLU_TABLE)
    keep = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import unhardened"
    code = f"{keep}; unhardened.keep_as_it_is(); from panprivacy.cli import main; main()"
    command = [sys.executable, "-c", code, "serve", str(tmp_path / "counters.toml"), "--initialize"]
    with subprocess.Popen(
        command, cwd=Path(__file__).parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        lines = [json.loads(line) for line in process.communicate(timeout=120)[1].splitlines()]
    warned = [each for each in lines if each["event"] == "a measure is not in force"]
    assert "the C library overwrites what is freed" in {each["measure"] for each in warned}
    assert {each["level"] for each in warned} == {"warning"}


def test_a_token_is_shown_once_with_the_line_that_the_file_needs() -> None:
    made = run("token")
    assert made.stderr == f'hash = "{written_hash(made.stdout.strip())}"\n'


@pytest.fixture(scope="module")
def crashes() -> Any:
    """The command that counts, which takes 1,000 kills where it is not a test."""
    return benchmark("serve_crashes")


def test_thirty_kills_lose_nothing(crashes: Any) -> None:
    tally = crashes.run(kills=30, seed=5)
    assert (tally.lost, tally.spent_twice, tally.spent_unseen, tally.not_started) == (0, 0, 0, 0)
    assert tally.acknowledged > 20
    assert tally.shown


def test_a_service_that_acknowledges_before_it_writes_would_lose_batches(
    crashes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hasty(_self: Worker, job: Any) -> None:
        job.done.set_result(job.do())
        time.sleep(0.02)

    monkeypatch.setattr(Worker, "_work", hasty)
    assert crashes.run(kills=30, seed=5).lost > 0
