"""Readers: every format, the same events; anything wrong is named by file and row."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from event_files import SUFFIXES, fed, revealing, seen, write

import panprivacy as pp
from panprivacy.cli.output import cause_of
from panprivacy.ingest import BadInput, Columns, Format, Kind, Layout, expand, read, read_ids
from panprivacy.ingest import delimited as blocks_module
from panprivacy.ingest import files as sources_module
from panprivacy.ingest.batch import Hint
from panprivacy.testing import refused

IDS = [5, 0, 7, 7, 3, 99]
USER = Columns(("user",), Kind.integers)


def _bytes(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_the_same_users(suffix: str, tmp_path: Path) -> None:
    file = write(pl.DataFrame({"other": list("abcdef"), "user": IDS}), tmp_path / f"f{suffix}")
    est = revealing(100)
    fed(est, file)
    assert seen(est) == set(IDS)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_text_ids_are_found_in_a_listed_universe(suffix: str, tmp_path: Path) -> None:
    file = write(pl.DataFrame({"user": ["ada", "mary", "ada"]}), tmp_path / f"f{suffix}")
    est = revealing(pp.Users(["ada", "grace", "mary"]))
    fed(est, file, Columns(("user",), Kind.text))
    assert seen(est) == {0, 2}


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".csv", ".ndjson", ".csv.gz", ".parquet", ".arrow"])
def test_a_file_of_many_blocks_is_read_whole_and_in_order(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources_module, "BLOCK", 1000)
    ids = list(range(20_000))
    file = write(pl.DataFrame({"note": [f'a "{i}"\n,' for i in ids], "user": ids}), tmp_path / f"f{suffix}")
    batches = list(read([str(file)], USER))
    assert pl.concat([batch.rows["user"] for batch in batches]).to_list() == ids
    assert [batch.before for batch in batches] == [0, *pl.Series([len(b.rows) for b in batches]).cum_sum()[:-1]]
    positions = [batch.position for batch in batches]
    assert positions == sorted(positions)
    assert positions[-1] == file.stat().st_size


def test_quoted_newlines_and_separators_belong_to_their_field(tmp_path: Path) -> None:
    file = _bytes(tmp_path / "f.csv", b'note,user\n"a\n1,2",3\n"say ""no""",4\n')
    est = revealing(10)
    fed(est, file)
    assert seen(est) == {3, 4}


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfuser\n3\n", b"user\r\n3\r\n", b"user\n3", b'"user"\n"3"\n'])
def test_csv_as_other_programs_write_it_is_read(data: bytes, tmp_path: Path) -> None:
    est = revealing(10)
    fed(est, _bytes(tmp_path / "f.csv", data))
    assert seen(est) == {3}


def test_a_file_without_header_has_numbered_columns(tmp_path: Path) -> None:
    est = revealing(10)
    file = _bytes(tmp_path / "f.csv", b"a;3\nb;4\n")
    fed(est, file, Columns(("2",), Kind.integers), layout=Layout(";", header=False))
    assert seen(est) == {3, 4}


def test_missing_ids_may_have_a_name(tmp_path: Path) -> None:
    est = revealing(10)
    file = _bytes(tmp_path / "f.csv", b"user,x\n3,NA\nNA,a\n,b\n4,c\n")
    with refused("unreadable", "row 2", "'NA'"):
        fed(est, file)
    with refused("missing-value", "row 2"):
        fed(est, file, layout=Layout(missing=("NA",)))
    fed(est, file, layout=Layout(missing=("NA",)), skip_missing=True)
    assert seen(est) == {3, 4}
    (batch,) = read([str(file)], Columns(("user",)), layout=Layout(missing=("NA",)))
    assert batch.rows["user"].to_list() == [3, None, None, 4]


def test_missing_ids_may_have_several_names(tmp_path: Path) -> None:
    est = revealing(10)
    file = _bytes(tmp_path / "f.csv", b"user\n3\nNA\n-\n4\n")
    fed(est, file, layout=Layout(missing=("NA", "-")), skip_missing=True)
    assert seen(est) == {3, 4}


@pytest.mark.parametrize("spelled", ["NA", "NULL", "nan", "-"])
def test_an_id_that_looks_like_none_hints_at_what_leaves_it_out(spelled: str, tmp_path: Path) -> None:
    file = _bytes(tmp_path / "f.csv", f"user\n3\n{spelled}\n".encode())
    with pytest.raises(BadInput) as error:
        fed(revealing(10), file)
    assert error.value.code == "unreadable"
    assert f"row 2: user '{spelled}'" in str(error.value)
    assert error.value.hints == (Hint("missing", spelled),)
    assert f"if the id is missing there, --missing {spelled} --skip-missing leaves" in cause_of(error.value)


def test_a_row_that_repeats_the_header_is_called_that(tmp_path: Path) -> None:
    file = _bytes(tmp_path / "f.csv", b"user,at\n3,x\nuser,at\n4,y\n")
    with refused("unreadable", "row 2", "header"):
        fed(revealing(10), file)
    with refused("outside-universe", "row 2", "header"):
        fed(revealing(pp.Users(["3", "4"])), file, Columns(("user",), Kind.text))


def test_a_header_alone_is_a_file_without_events(tmp_path: Path) -> None:
    est = revealing(10)
    fed(
        est, [_bytes(tmp_path / "f.csv", b"user\n"), write(pl.DataFrame({"user": [1]}).head(0), tmp_path / "f.parquet")]
    )
    assert seen(est) == set()


def test_small_and_unsigned_integers_and_categories_are_ids(tmp_path: Path) -> None:
    for type_ in (pl.Int8, pl.UInt64, pl.UInt32):
        est = revealing(10)
        fed(est, write(pl.DataFrame({"user": pl.Series([3], dtype=type_)}), tmp_path / "f.parquet"))
        assert seen(est) == {3}
    est = revealing(pp.Users(["ada", "mary"]))
    frame = pl.DataFrame({"user": pl.Series(["mary"], dtype=pl.Categorical)})
    fed(est, write(frame, tmp_path / "f.parquet"), Columns(("user",), Kind.text))
    assert seen(est) == {1}


def test_integers_are_spelled_out_where_users_are_known_by_text(tmp_path: Path) -> None:
    est = revealing(pp.Users(["12", "x"]))
    fed(est, write(pl.DataFrame({"user": [12]}), tmp_path / "f.parquet"), Columns(("user",), Kind.text))
    assert seen(est) == {0}


@pytest.mark.parametrize(
    ("first", "kind"),
    [("1\n2\n", pl.Int64), ("1\nx\n", pl.String), ("007\n", pl.String), ("\n99999999999999999999\n", pl.String)],
)
def test_without_a_universe_the_first_rows_tell_integers_from_text(
    first: str, kind: type[pl.DataType], tmp_path: Path
) -> None:
    file = _bytes(tmp_path / "f.csv", f"user\n{first}".encode())
    assert next(read([str(file)], Columns(("user",)))).rows["user"].dtype == kind


def test_what_ids_are_in_the_first_file_they_are_in_all(tmp_path: Path) -> None:
    number = write(pl.DataFrame({"user": [1]}), tmp_path / "a.parquet")
    text = write(pl.DataFrame({"user": ["x"]}), tmp_path / "b.parquet")
    with refused("id-type", "'user'"):
        list(read([str(number), str(text)], Columns(("user",))))
    later = list(read([str(text), str(number)], Columns(("user",))))
    assert later[1].rows["user"].to_list() == ["1"]


@pytest.mark.parametrize("block", [1, 1000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n\r\n", b"\n\n\n"])
@pytest.mark.parametrize("data", [b"user\n3\n\n4\n", b"user,x\n3,a\n\n4,b\n", b'user,x\n3,a\n\n4,"b\n"\n'])
def test_blank_lines_are_rows_within_a_file_and_nothing_at_its_end(
    data: bytes, end: bytes, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources_module, "BLOCK", block)
    batches = read([str(_bytes(tmp_path / "f.csv", data + end))], USER)
    assert pl.concat([batch.rows["user"] for batch in batches]).to_list() == [3, None, 4]


def test_a_header_with_blank_lines_is_a_file_without_events(tmp_path: Path) -> None:
    est = revealing(10)
    fed(est, _bytes(tmp_path / "f.csv", b"user\n\n\n"))
    assert seen(est) == set()


def test_a_quoted_name_may_hold_a_line_break(tmp_path: Path) -> None:
    est = revealing(10)
    fed(est, _bytes(tmp_path / "f.csv", b'user,"a\r\nb"\r\n3,x\r\n'))
    assert seen(est) == {3}


# --- what can be wrong ------------------------------------------------------------------------------------------------

BAD = {
    "f.csv: no column 'user'; it has 'usr', 'x'": b"usr,x\n1,2\n",
    "f.csv: row 2: user 'x' is not a whole number of 64 bits": b"user\n1\nx\n3\n",
    "f.csv: row 2: user '1.5' is not a whole number of 64 bits": b"user\n1\n1.5\n",
    "f.csv: row 1: user '99999999999999999999' is not a whole": b"user\n99999999999999999999\n",
    "f.csv: row 3: 1 field where the header has 2": b"user,x\n1,a\n2,b\n3\n4,d\n",
    "f.csv: row 1: 3 fields where the header has 2": b"user,x\n1,a,b\n",
    "f.csv: row 2: a row does not end within 16,777,216 bytes, or not at all": b'user,x\n1,a\n2,"b\n3,c\n',
    "f.csv: 2 columns are called 'user'": b"user,user\n1,2\n",
    "f.csv: row 2: user 100 is outside the universe 0..99": b"user\n1\n100\n3\n",
    "f.csv: row 1: user -1 is outside the universe 0..99": b"user\n-1\n",
    "f.csv: row 2: the id is missing; --skip-missing leaves such rows out": b"user,x\n1,a\n,b\n",
    "f.csv: row 3: the id is missing": b"user\n1\n2\n\n4\n",
    "f.ndjson: row 2: not a JSON object: ": b'{"user":1}\n{"user":\n',
    "f.ndjson: row 2: not a JSON object: '7'": b'{"user":1}\n7\n',
    'f.ndjson: row 2: user "x" is not a whole number of 64 bits': b'{"user":1}\n{"user":"x"}\n',
    "f.ndjson: row 1: user 1.5 is not a whole number of 64 bits": b'{"user":1.5}\n',
    "f.ndjson: row 3: the id is missing": b'{"user":1}\n{"user":2}\n{"usr":3}\n',
    "f.ndjson: no column 'user'; it has 'usr'": b'{"usr":1}\n',
    "f.parquet: not a whole Parquet file": b"PAR1 and nothing else",
    "f.arrow: not a whole Arrow file": b"ARROW1 and nothing else",
    "f.csv.gz: its compressed bytes are damaged": b"\x1f\x8b\x08\x00no gzip at all",
    "f.csv: there is nothing in it": b"\n\n",
    "f.csv: no column 'user'; it has 'user;x'; is ';' its separator? Say --separator ';'": b"user;x\n1;2\n",
    "f.csv: no column 'user'; it has 'user\\tx'; is '\\t' its separator? Say --format tsv": b"user\tx\n1\t2\n",
    "f.tsv: no column 'user'; it has 'user|x'; is '|' its separator? Say --format csv --sep": b"user|x\n1|2\n",
    "f.csv: row 2: not UTF-8; convert it, for example with iconv -f latin1 -t utf-8": b"user,x\n1,a\n2,\xe9\n",
    "f.csv: not UTF-8; convert it": b"user,\xe9\n1,a\n",
    "f.ndjson: row 2: not UTF-8; convert it": b'{"user":1}\n{"user":2,"x":"\xe9"}\n',
    "f.csv: this is UTF-16, not UTF-8; convert it": "user\n1\n".encode("utf-16"),
    "f.csv: its lines end in CR alone, as on old Macs; convert it": b"user,x\r1,2\r3,4\r",
    "f.csv: this is a Parquet file; say --format parquet": b"PAR1 and so on",
    "f.csv: this is an Arrow file; say --format arrow": b"ARROW1 and so on",
    "f.csv.xz: its compressed bytes are damaged": b"\xfd7zXZ\0 no xz at all",
    "f.csv.bz2: its compressed bytes are damaged": b"BZh no bzip2 at all",
    "f.csv.xz: its compressed bytes are cut off": lzma.compress(b"user\n1\n")[:-20],
    "f.csv.gz: this is a zip archive or a spreadsheet": gzip.compress(b"PK\x03\x04 and so on"),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_files_are_named_with_row_and_cause(message: str, tmp_path: Path) -> None:
    file = _bytes(tmp_path / message.partition(":")[0], BAD[message])
    with pytest.raises(BadInput) as error:
        fed(revealing(100), file)
    assert cause_of(error.value).removeprefix(f"{tmp_path}/").startswith(message)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv.gz", ".csv.zst"])
def test_a_file_that_was_cut_off_is_refused(suffix: str, tmp_path: Path) -> None:
    file = write(pl.DataFrame({"user": range(10_000)}), tmp_path / f"f{suffix}")
    whole = file.read_bytes()
    for length in (len(whole) // 2, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(BadInput) as caught:
            fed(revealing(10_000), file)
        assert caught.value.code in {"cut-off", "unreadable"}


def test_the_row_of_a_bad_id_is_counted_over_all_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_module, "BLOCK", 1000)
    ids = [str(i % 50) for i in range(5000)]
    ids[4321] = "x"
    file = _bytes(tmp_path / "f.csv", ("user\n" + "\n".join(ids)).encode())
    with refused("unreadable", "row 4322", "'x'"):
        fed(revealing(50), file)
    ids[4321] = "50"
    file.write_text("user\n" + "\n".join(ids))
    with refused("outside-universe", "row 4322", "50"):
        fed(revealing(50), file)


def test_the_row_of_a_bad_id_is_counted_past_missing_ones(tmp_path: Path) -> None:
    frame = pl.DataFrame({"user": [1, None, None, 4, 100, None, 7]})
    file = write(frame, tmp_path / "f.parquet")
    with refused("outside-universe", "row 5", "100"):
        fed(revealing(10), file, skip_missing=True)


def test_a_record_that_never_ends_is_refused_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_module, "BLOCK", 1000)
    monkeypatch.setattr(blocks_module, "LONGEST", 5000)
    file = _bytes(tmp_path / "f.csv", b'user,x\n1,a\n2,"' + b"b\n" * 50_000)
    with refused("endless-row", "row 2"):
        fed(revealing(50), file)


def test_ids_that_are_no_ids_are_refused_by_their_type(tmp_path: Path) -> None:
    for column in ([True], [[1]]):
        file = write(pl.DataFrame({"user": column}), tmp_path / "f.parquet")
        with refused("id-type", "'user'"):
            fed(revealing(10), file)


@pytest.mark.parametrize("suffix", [".csv", ".ndjson"])
def test_in_text_12_0_is_another_spelling_of_12_and_other_floats_are_an_error(suffix: str, tmp_path: Path) -> None:
    whole = write(pl.DataFrame({"user": [3.0, None, 7.0, 0.0]}), tmp_path / f"whole{suffix}")
    for columns, ids in ((Columns(("user",)), [3, None, 7, 0]), (USER, [3, None, 7, 0])):
        assert [user for batch in read([str(whole)], columns) for user in batch.rows["user"]] == ids
    broken = write(pl.DataFrame({"user": [3.0, 7.0, 7.5]}), tmp_path / f"broken{suffix}")
    with refused("unreadable", "row 3", "7.5"):
        list(read([str(broken)], USER))


@pytest.mark.parametrize("other", ["ada", "a.b", "v1.0b", "a.0"])
def test_a_whole_float_is_the_integer_in_a_column_of_text_too(other: str, tmp_path: Path) -> None:
    """Whether or not other ids have points, which is what such a block is told by."""
    file = _bytes(tmp_path / "f.csv", f"user\n{other}\n12.0\n12\n".encode())
    (batch,) = read([str(file)], Columns(("user",), Kind.text))
    assert batch.rows["user"].to_list() == [other, "12", "12"]


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("type_", [pl.Float64, pl.Float32])
def test_a_column_of_floats_is_refused_by_its_type(type_: pl.DataType, suffix: str, tmp_path: Path) -> None:
    file = write(pl.DataFrame({"user": pl.Series([1, 2], dtype=type_)}), tmp_path / f"f{suffix}")
    for kind in (None, Kind.integers, Kind.text):
        with pytest.raises(BadInput) as error:
            list(read([str(file)], Columns(("user",), kind)))
        assert error.value.code == "float-column"
        assert error.value.code == "float-column"


@pytest.mark.parametrize("kind", [Kind.integers, Kind.text, None])
@pytest.mark.parametrize("merged", ["9007199254740993.0", "1.23457E+11", "1e+17"])
def test_a_text_that_was_a_float_which_may_stand_for_several_ids_is_refused(
    merged: str, kind: Kind | None, tmp_path: Path
) -> None:
    """As spreadsheets write long numbers."""
    files = [_bytes(tmp_path / "f.csv", f"user\n1\n{merged}\n".encode())]
    if kind is not Kind.text:
        files.append(_bytes(tmp_path / "f.ndjson", f'{{"user":1}}\n{{"user":{merged}}}\n'.encode()))
    for file in files if merged != "1.23457E+11" else files[:1]:
        with refused("unreadable", "row 2", "large ids"):
            list(read([str(file)], Columns(("user",), kind)))


def test_whole_numbers_and_large_ones_stand_beside_each_other(tmp_path: Path) -> None:
    file = _bytes(tmp_path / "f.ndjson", b'{"user": 1.0}\n{"user": 9007199254740993}\n{"user": null}\n')
    assert next(read([str(file)], Columns(("user",)))).rows["user"].to_list() == [1, 2**53 + 1, None]


def test_a_name_that_does_not_tell_the_format_asks_for_it(tmp_path: Path) -> None:
    file = _bytes(tmp_path / "events.log", b"user\n1\n")
    with pytest.raises(BadInput) as error:
        fed(revealing(10), file)
    assert error.value.code == "unknown-format"
    assert cause_of(error.value).endswith("say --format csv or tsv or ndjson or parquet or arrow")
    est = revealing(10)
    fed(est, file, format_=Format.csv)
    assert seen(est) == {1}
    parquet = write(pl.DataFrame({"user": [1]}), tmp_path / "x.parquet").rename(tmp_path / "events")
    fed(est, parquet)


def test_a_parquet_file_that_was_packed_as_a_whole_is_explained(tmp_path: Path) -> None:
    with refused("compressed-twice"):
        fed(revealing(10), _bytes(tmp_path / "f.parquet.gz", b"\x1f\x8b"))


@pytest.mark.parametrize("pack", [bz2.compress, lzma.compress, gzip.compress])
def test_packed_files_are_told_by_their_first_bytes(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    file = _bytes(tmp_path / "f.csv", pack(b"user\n" + b"".join(b"%d\n" % user for user in range(50))))
    assert [user for batch in read([str(file)], USER) for user in batch.rows["user"]] == list(range(50))


def test_a_directory_is_its_files_in_order_and_its_partitions_are_columns(tmp_path: Path) -> None:
    for day, ids in (("2026-01-06", [3]), ("2026-01-05", [1, 2])):
        for clinic in ("St%20Mary", "Lee"):
            (tmp_path / f"day={day}" / f"clinic={clinic}").mkdir(parents=True)
            frame = pl.DataFrame({"user": ids})
            frame.write_parquet(tmp_path / f"day={day}" / f"clinic={clinic}" / "part-0.parquet")
    _bytes(tmp_path / "_SUCCESS", b"")
    _bytes(tmp_path / "day=2026-01-05" / ".part-0.crc", b"crc")
    files = expand([str(tmp_path)])
    assert len(files) == 4
    asked = Columns(("user",), Kind.integers, time="day", category="clinic")
    rows = [row for batch in read(files, asked) for row in batch.rows.select("user", "day", "clinic").rows()]
    assert rows[:4] == [(user, "2026-01-05", clinic) for clinic in ("Lee", "St Mary") for user in (1, 2)]
    assert len(rows) == 6
    (tmp_path / "empty").mkdir()
    with refused("no-file", "directory"):
        expand([str(tmp_path / "empty")])


def test_globs_are_sorted_and_what_is_not_there_is_named(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "[x].csv"):
        _bytes(tmp_path / name, b"user\n")
    assert expand([f"{tmp_path}/[ab].csv"]) == [f"{tmp_path}/a.csv", f"{tmp_path}/b.csv"]
    assert expand([f"{tmp_path}/[x].csv"]) == [f"{tmp_path}/[x].csv"]
    for given, code in (
        (f"{tmp_path}/*.parquet", "no-file"),
        (f"{tmp_path}/c.csv", "cannot-be-opened"),
    ):
        with refused(code):
            expand([given])
    with refused("empty-file"):
        expand([str(_bytes(tmp_path / "empty.csv", b""))])
    with refused("input-alone"):
        expand(["-", str(tmp_path / "a.csv")])


# --- the list of a universe -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_universe_is_read_from_any_format(suffix: str, tmp_path: Path) -> None:
    file = write(pl.DataFrame({"id": [3, 1, 2], "name": ["x", "y", "z"]}), tmp_path / f"u{suffix}")
    assert read_ids(str(file), "id").to_list() == [3, 1, 2]
    assert read_ids(str(file), "name").to_list() == ["x", "y", "z"]
    with refused("which-column"):
        read_ids(str(file))
    with refused("no-column", "'nope'", "'id'", "'name'"):
        read_ids(str(file), "nope")


def test_a_list_of_ids_keeps_leading_zeros(tmp_path: Path) -> None:
    assert read_ids(str(_bytes(tmp_path / "u.csv", b"id\n7\n007\n"))).to_list() == ["7", "007"]
    assert read_ids(str(_bytes(tmp_path / "u.txt", b"7\n8\n"))).to_list() == [7, 8]
    assert read_ids(str(_bytes(tmp_path / "u.txt", b"7.0\n8\n"))).to_list() == [7, 8]


def test_a_list_of_lines_may_end_in_blank_ones_and_is_utf8(tmp_path: Path) -> None:
    assert read_ids(str(_bytes(tmp_path / "u.txt", b"7\r\n8\r\n\r\n"))).to_list() == [7, 8]
    with refused("not-utf8", "u.txt"):
        read_ids(str(_bytes(tmp_path / "u.txt", b"caf\xe9\n")))


def test_the_list_of_a_universe_may_have_semicolons(tmp_path: Path) -> None:
    assert list(read_ids(str(_bytes(tmp_path / "u.csv", b"id;x\n7;8\n")), "id")) == [7]


def test_a_missing_id_in_a_universe_is_named_by_its_row(tmp_path: Path) -> None:
    with refused("missing-id", "row 2"):
        read_ids(str(write(pl.DataFrame({"id": [1, None]}), tmp_path / "u.parquet")))
