"""Connections that are too many are closed as they come, and the log says so once."""

import os
import resource
import socket
import time
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest
from processes import ANYBODY, FLU_TABLE, ask, started
from service_for_tests import settings_for

from panprivacy.audit.memory.services import write_certificate
from panprivacy.serve.http.connections import Listener
from panprivacy.serve.server import _connections_for
from panprivacy.serve.service import Service
from panprivacy.settings import InvalidSettings


def test_no_more_connections_than_a_number_are_open_before_anything_is_read_of_them() -> None:
    with Listener(socket.create_server(("127.0.0.1", 0)), 3) as listener, ExitStack() as stack:
        listener.setblocking(False)
        peers = [stack.enter_context(socket.create_connection(listener.getsockname(), 5)) for _ in range(8)]
        taken = [listener.accept()[0] for _ in range(3)]
        with pytest.raises(BlockingIOError):
            listener.accept()
        assert [peer.recv(1) for peer in peers[3:]] == [b""] * 5
        taken[0].close()
        taken[0].close()
        stack.enter_context(socket.create_connection(listener.getsockname(), 5))
        taken.append(listener.accept()[0])
        with pytest.raises(BlockingIOError):
            listener.accept()
        for connection in taken:
            connection.close()


@pytest.mark.slow
def test_a_process_without_files_closes_connections_and_logs_how_many(tmp_path: Path) -> None:
    path = tmp_path / "counters.toml"
    path.write_text(ANYBODY + FLU_TABLE)
    with started(path) as (process, port), ExitStack() as stack:
        count = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (count + 10, count + 10))
        for _ in range(100):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 5))
        time.sleep(2)
        stack.close()
        end, status = time.monotonic() + 20, 0
        while status != 200 and time.monotonic() < end:
            with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection, suppress(OSError, HTTPException):
                status, _ = ask(connection, "GET", "/health")
            time.sleep(0.1)
        assert status == 200
        process.terminate()
        assert process.stderr is not None
        said = process.stderr.read()
    assert said.count(b"closed unheard") == 2
    assert b'"repeated": ' in said
    assert said.count(b"\n") < 20


def test_the_system_is_asked_for_as_many_files_as_connections_need(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
        most = _connections_for(settings_for(tmp_path, {"limits": {"readers": 700}}))
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= most > 700
        assert _connections_for(settings_for(tmp_path, {"limits": {"readers": hard}})) < hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def problem_of(folder: Path) -> str:
    """The one line that keeps a service from starting."""
    with pytest.raises(InvalidSettings) as refused, Service(settings_for(folder)):
        pass
    (line,) = str(refused.value).splitlines()
    return line


def test_a_folder_that_everybody_may_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "states"
    folder.mkdir()
    folder.chmod(0o777)
    assert "service.folder" in problem_of(tmp_path)
    folder.chmod(0o755)
    with Service(settings_for(tmp_path)):
        pass


@pytest.mark.parametrize("name", ["flu.json.new", "flu.releases.ndjson"])
def test_links_are_not_followed(tmp_path: Path, name: str) -> None:
    folder, other = tmp_path / "states", tmp_path / "other"
    folder.mkdir(mode=0o700)
    other.write_bytes(b"somebody else's")
    (folder / name).symlink_to(other)
    assert "symbolic link" in problem_of(tmp_path)
    assert other.read_bytes() == b"somebody else's"


@pytest.mark.parametrize("content", [b"", b"[]", b'{"promise": 3}', b"[" * 100_000, b'{"promise": {}, "begun": "x"}'])
def test_a_damaged_file_of_settings_is_one_line(tmp_path: Path, content: bytes) -> None:
    with Service(settings_for(tmp_path)):
        pass
    (tmp_path / "states" / "flu.json").write_bytes(content)
    assert "damaged" in problem_of(tmp_path)


@pytest.mark.parametrize("content", [b"[]\n", b"{}\n", b'{"id": 7}\n', b"[" * 100_000 + b"\n"])
def test_a_damaged_list_of_releases_is_one_line(tmp_path: Path, content: bytes) -> None:
    with Service(settings_for(tmp_path)):
        pass
    (tmp_path / "states" / "flu.releases.ndjson").write_bytes(content)
    assert "line 1 is damaged" in problem_of(tmp_path)


def test_a_full_disk_leaves_the_settings_of_a_counter_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Service(settings_for(tmp_path)) as service:
        before = (tmp_path / "states" / "flu.json").read_bytes()
        write = os.pwrite
        with monkeypatch.context() as full:
            # A nearly full disk takes some bytes, and then no more.
            left = [10]

            def pwrite(handle: int, data: bytes, at: int) -> int:
                if not left[0]:
                    raise OSError(28, "No space left on device")
                size, left[0] = min(left[0], len(data)), 0
                return write(handle, bytes(data)[:size], at)

            full.setattr(os, "pwrite", pwrite)
            assert service.counter("flu").release().exception() is not None
        assert (tmp_path / "states" / "flu.json").read_bytes() == before
        assert service.counter("flu").release().result()["id"] == 1
    with Service(settings_for(tmp_path)) as service:
        assert len(service.counter("flu").release_log) == 1


@pytest.mark.slow
def test_systemd_is_told_when_it_listens_lives_and_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "counters.toml"
    path.write_text(ANYBODY + FLU_TABLE)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "200000")
        with started(path) as (process, _):
            assert [told.recv(100) for _ in range(3)] == [b"READY=1", b"WATCHDOG=1", b"WATCHDOG=1"]
            process.terminate()
            while (said := told.recv(100)) == b"WATCHDOG=1":
                pass
            assert said == b"STOPPING=1"


def unsent(port: int) -> int:
    """Bytes that the system holds for readers of a port, most of one connection."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return max(
        int(queues.partition(":")[0], 16) for _, here, _, _, queues, *_ in lines if here.endswith(f":{port:04X}")
    )


@pytest.mark.slow
def test_the_system_holds_little_of_an_answer_that_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "counters.toml"
    path.write_text(ANYBODY + FLU_TABLE)
    with started(path) as (_, port), closing(HTTPConnection("127.0.0.1", port)) as connection:
        status, script = ask(connection, "GET", "/static/plotly.min.js")
        assert (status, len(script) > 3 * 2**20) == (200, True)
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            reader.connect(("127.0.0.1", port))
            reader.sendall(b"GET /static/plotly.min.js HTTP/1.1\r\nhost: localhost\r\n\r\n")
            time.sleep(1)
            assert 0 < unsent(port) < 2**19


@pytest.mark.slow
def test_a_connection_that_does_not_agree_on_tls_is_closed_in_time(tmp_path: Path) -> None:
    certificate, key = write_certificate(tmp_path)
    tls = f'[service.tls]\ncertificate = "{certificate}"\nkey = "{key}"\n[limits]\nseconds = 1\n'
    path = tmp_path / "counters.toml"
    path.write_text(ANYBODY + tls + FLU_TABLE)
    with started(path) as (_, port), ExitStack() as stack:
        for said in (b"", b"\x16\x03\x01\x40\x00" + b"a" * 50):
            stranger = stack.enter_context(socket.create_connection(("127.0.0.1", port), 20))
            stranger.sendall(said)
            with suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
