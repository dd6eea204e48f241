"""Files behind URLs: every format, directories and partitions, nothing on disk, one line if something is wrong."""

import io
import json
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from event_files import SUFFIXES, arrow_stream, write

import panprivacy as pp
from buckets import new_bucket, s3_server
from command_line import invoke
from http_servers import serving
from panprivacy.ingest import BadInput, Columns, expand, read, remote
from panprivacy.testing import refused

fsspec = pytest.importorskip("fsspec")
EVENTS = pl.DataFrame({"user": range(1000), "ward": [f"ward {i % 7}" for i in range(1000)], "flu": [True] * 1000})


@pytest.fixture
def memory() -> Iterator[Any]:
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()


class Pages(SimpleHTTPRequestHandler):
    """A web server that answers with whole files, or with parts of them if `ranges` says so."""

    ranges = False
    status: int | None = None
    cut = False

    def send_head(self) -> Any:
        if self.status:
            self.send_error(self.status)
            return None
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            return super().send_head()
        data = path.read_bytes()
        start, end = 0, len(data)
        if self.ranges and (wanted := self.headers.get("range")):
            first, last = wanted.removeprefix("bytes=").split("-")
            start, end = (int(first), int(last) + 1) if first else (len(data) - int(last), len(data))
        self.send_response(206 if (start, end) != (0, len(data)) else 200)
        if self.ranges:
            self.send_header("accept-ranges", "bytes")
        self.send_header("content-length", str(end - start))
        self.end_headers()
        return io.BytesIO(data[start : end - 100 if self.cut and self.command == "GET" else end])

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[tuple[str, type[Pages]]]:
    pytest.importorskip("aiohttp")
    own = type("Own", (Pages,), {})
    with serving(partial(own, directory=str(tmp_path))) as address:
        yield address, own


def users_in(*given: str, **options: Any) -> list[int]:
    """The users of some files, in order."""
    return [user for batch in read(expand(given), Columns(("user",)), **options) for user in batch.rows["user"]]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_is_read_from_a_store(suffix: str, tmp_path: Path, memory: Any) -> None:
    memory.pipe_file("/clinic/visits" + suffix, write(EVENTS, tmp_path / f"visits{suffix}").read_bytes())
    url = f"memory://clinic/visits{suffix}"
    assert users_in(url) == list(range(1000))
    assert len(pp.Users(url, "user")) == 1000


@pytest.mark.slow
@pytest.mark.parametrize("ranges", [False, True])
@pytest.mark.parametrize("suffix", [".csv.gz", ".ndjson", ".parquet", ".arrow"])
def test_every_format_is_read_from_a_web_server(
    suffix: str, ranges: bool, tmp_path: Path, pages: tuple[str, type[Pages]]
) -> None:
    url, served = pages
    served.ranges = ranges
    write(EVENTS, tmp_path / f"visits{suffix}")
    assert users_in(f"{url}/visits{suffix}?signature=1") == list(range(1000))


def test_an_arrow_stream_is_read_from_a_store(memory: Any) -> None:
    memory.pipe_file("/visits.arrow", arrow_stream(EVENTS[:400], EVENTS[400:]))
    assert users_in("memory://visits.arrow") == list(range(1000))
    assert len(pp.Users("memory://visits.arrow", "user")) == 1000


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_long_files_are_fetched_some_rows_at_a_time(suffix: str, memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_STRETCH", 5_000)
    monkeypatch.setattr(remote, "_TAIL", 100)  # less than the index
    frame = EVENTS.with_columns(ward=pl.col("ward").cast(pl.Categorical), nested=pl.struct(id=pl.col("user") * 2))
    data = io.BytesIO()
    if suffix == ".parquet":
        frame.write_parquet(data, row_group_size=90, compression="uncompressed")
    else:
        frame.write_ipc(data, record_batch_size=90, compression="uncompressed")
    memory.pipe_file(f"/visits{suffix}", data.getvalue())
    fetched: list[int] = []
    ranges = remote.RemoteFile.ranges

    def watched(self: Any, wanted: Any) -> Any:
        fetched.append(sum(end - start for start, end in wanted))
        return ranges(self, wanted)

    monkeypatch.setattr(remote.RemoteFile, "ranges", watched)
    columns = Columns(("nested.id",), category="ward")
    found = pl.concat([batch.rows for batch in read(expand([f"memory://visits{suffix}"]), columns)])
    assert found["nested.id"].to_list() == list(range(0, 2000, 2))
    assert found["ward"].to_list() == EVENTS["ward"].to_list()
    _tail, _index, *stretches = fetched
    assert len(stretches) > 2
    assert max(stretches) < len(data.getvalue()) / 2


def test_only_the_wanted_columns_of_parquet_are_fetched(memory: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = io.BytesIO()
    noise = random.Random(1)
    EVENTS.with_columns(note=pl.Series([noise.randbytes(1000) for _ in range(1000)])).write_parquet(data)
    memory.pipe_file("/visits.parquet", data.getvalue())
    fetched = []
    ranges = remote.RemoteFile.ranges

    def counted(self: Any, wanted: Any) -> Any:
        found = ranges(self, wanted)
        fetched.append(sum(map(len, found)))
        return found

    monkeypatch.setattr(remote.RemoteFile, "ranges", counted)
    assert users_in("memory://visits.parquet") == list(range(1000))
    assert sum(fetched) < 100_000 < len(data.getvalue())


def test_directories_patterns_and_partitions_behind_a_url_are_those_of_a_disk(tmp_path: Path, memory: Any) -> None:
    for day in ("2026-01-05", "2026-01-06"):
        (tmp_path / f"day={day}").mkdir()
        write(EVENTS[: 10 if day.endswith("5") else 20], tmp_path / f"day={day}" / "part-0.parquet")
    (tmp_path / "_SUCCESS").write_text("")
    memory.put(str(tmp_path), "/visits", recursive=True)
    columns = Columns(("user",), time="day")
    local, stored = (
        [(batch.rows["user"].to_list(), batch.rows["day"].to_list()) for batch in read(expand([place]), columns)]
        for place in (str(tmp_path), "memory://visits")
    )
    assert local == stored
    assert expand(["memory://visits/*/part-*.parquet"]) == expand(["memory://visits/"])
    assert expand(["memory://visits/"])[0] == "memory://visits/day=2026-01-05/part-0.parquet"
    assert expand([f"file://{tmp_path}"]) == expand([str(tmp_path)])


def test_nothing_of_a_remote_file_is_written_to_a_disk(
    tmp_path: Path, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.pipe_file("/visits.parquet", write(EVENTS, tmp_path / "visits.parquet").read_bytes())
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    opened: list[int] = []
    made = os.memfd_create

    def noted(*given: Any) -> int:
        opened.append(made(*given))
        return opened[-1]

    monkeypatch.setattr(os, "memfd_create", noted)
    assert len(users_in("memory://visits.parquet")) == 1000
    assert len(opened) == 2  # its index, and its rows
    for each in opened:  # closed, or taken by another file
        with suppress(OSError):
            assert "panprivacy" not in str(Path(f"/proc/self/fd/{each}").readlink())


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("memory://clinic/none.csv", "there is no such file"),
        ("memory://clinic/*.csv", "no file matches"),
        ("memory://empty.csv", "the file is empty"),
        ("gs://clinic/visits.csv", "gs:// needs gcsfs: pip install gcsfs"),
        ("nothing://clinic/visits.csv", "Protocol not known: nothing"),
        ("dbfs:/visits.csv", "a URL has two slashes"),
        ("simplecache::s3://clinic/visits.csv", "a URL has two slashes"),  # which would keep a copy on disk
        ("http://127.0.0.1:1/visits.csv", "the server cannot be reached"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(url: str, says: str, memory: Any) -> None:
    memory.pipe_file("/empty.csv", b"")
    told = invoke(("distinct", url, "-c", "user", "-e", 1))
    assert (told.exit_code, told.stdout) == (2, "")
    (line,) = told.stderr.splitlines()
    assert says in line


@pytest.mark.slow
@pytest.mark.parametrize(("status", "says"), [(403, "permission denied"), (404, "there is no such file"), (500, "500")])
def test_what_a_web_server_refuses_is_told_without_its_secrets(
    status: int, says: str, pages: tuple[str, type[Pages]]
) -> None:
    url, served = pages
    served.status = status
    with pytest.raises(BadInput) as raised:
        expand([f"{url.replace('//', '//ada:hidden@')}/visits.csv?signature=hidden"])
    assert says in str(raised.value)
    assert "hidden" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_that_breaks_off_is_refused(suffix: str, tmp_path: Path, pages: tuple[str, type[Pages]]) -> None:
    url, served = pages
    served.cut = True
    write(EVENTS, tmp_path / f"visits{suffix}")
    with pytest.raises(BadInput) as raised:
        users_in(f"{url}/visits{suffix}")
    assert "broke" in str(raised.value)


@pytest.mark.parametrize(("suffix", "ending"), [(".parquet", 8), (".arrow", 10)])
@pytest.mark.parametrize("damage", [b"", b"\xff", b"\x1c", b"\0"], ids=["cut", "ones", "structs", "zeros"])
def test_a_damaged_index_is_refused(damage: bytes, suffix: str, ending: int, tmp_path: Path, memory: Any) -> None:
    data = write(EVENTS, tmp_path / f"visits{suffix}").read_bytes()
    start = len(data) - ending - int.from_bytes(data[-ending : 4 - ending], "little")
    memory.pipe_file(f"/visits{suffix}", data[:start] + damage * 40 + data[start + 40 :] if damage else data[:-1])
    with pytest.raises(BadInput):
        users_in(f"memory://visits{suffix}")


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with refused("missing-extra"):
        expand(["s3://clinic/visits.csv"])


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("s3fs")
    with s3_server() as url:
        yield url


@pytest.mark.slow
def test_a_command_reads_and_keeps_its_state_in_one_bucket(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = new_bucket(server, monkeypatch)
    files = fsspec.filesystem("s3")
    for day in (5, 6):
        path = f"{bucket}/visits/day=2026-01-0{day}/part-0.parquet"
        files.pipe_file(path, write(EVENTS, tmp_path / "visits.parquet").read_bytes())
    files.pipe_file(f"{bucket}/users.csv", EVENTS.write_csv().encode())
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    monkeypatch.setitem(fsspec.config.conf, "s3", {"endpoint_url": server})  # as FSSPEC_S3_ENDPOINT_URL sets it
    listed = ("--universe-file", f"{bucket}/users.csv:user")
    kept = ("--state", f"{bucket}/state", "--shards", 1)
    told = invoke(("density", f"{bucket}/visits/", "-c", "user", *listed, "-e", 9, *kept, "--release", "--json"))
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout.splitlines()[-1])["count"] == pytest.approx(1000, abs=60)
    monkeypatch.delitem(fsspec.config.conf, "s3")
    options = {"endpoint_url": server}
    assert len(pp.Users(f"{bucket}/users.csv", "user", storage_options=options)) == 1000
    assert pp.StateFolder(f"{bucket}/state", pp.Users(range(1000)), storage_options=options).budget.releases_made == 1
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    assert "there is no such file" in invoke(("distinct", f"{bucket}/none.csv", "-c", "user", "-e", 1)).stderr
