"""What a message can be: objects, bare ids, Arrow streams."""

import io
import json

import numpy as np
import polars as pl
import pytest

from panprivacy.brokers import Block, payloads
from panprivacy.brokers.payloads import Payload, bodies_of, ids_to_ndjson, payload_kind
from panprivacy.ingest import Columns, Kind
from panprivacy.ingest.bodies import ContentType
from panprivacy.testing import refused

NUMBERS, NAMES = Columns(("user",), Kind.integers), Columns(("user",), Kind.text)


def _rows(given: list[bytes], columns: Columns, form: Payload | None = None) -> list[object]:
    (body,) = bodies_of(Block.of(given), columns, form)
    assert body.content_type is ContentType.ndjson
    return [json.loads(line) for line in body.octets.tobytes().splitlines() if line.strip()]


def _arrow(ids: list[int]) -> bytes:
    out = io.BytesIO()
    pl.DataFrame({"user": ids}).write_ipc_stream(out)
    return out.getvalue()


def test_objects_are_lines_of_one_body() -> None:
    assert _rows([b'{"user": 1}', b'{"user": 2, "at": 3}'], NUMBERS) == [{"user": 1}, {"user": 2, "at": 3}]


def test_a_message_may_be_several_objects_or_one_in_several_lines() -> None:
    assert _rows([b'{"user": 1}\n{"user": 2}\n', b'{\n "user": 3\n}\n'], NUMBERS) == [{"user": i} for i in (1, 2, 3)]


@pytest.mark.parametrize("given", [[b"1", b"-2"], [b"1\n", b" -2\r\n"]])
def test_bare_integers(given: list[bytes]) -> None:
    assert _rows(given, NUMBERS) == [{"user": 1}, {"user": -2}]


def test_bare_texts_with_all_that_json_would_write_otherwise() -> None:
    names = ["alice", 'a"b', "c\\d", "ärzte", "two\nlines", "{guid}"]
    assert _rows([name.encode() for name in names], NAMES) == [{"user": name} for name in names]


def test_a_bare_text_may_be_written_as_json() -> None:
    assert _rows([b'"alice"', b"bob"], NAMES) == [{"user": "alice"}, {"user": "bob"}]


def test_what_is_no_utf8_is_refused_without_being_quoted() -> None:
    with refused("unreadable", "UTF-8"):
        list(bodies_of(Block.of([b"\xff\xfe"]), NAMES))


def test_an_edge_is_no_bare_id() -> None:
    with refused("unreadable", "edge"):
        list(bodies_of(Block.of([b"7"]), Columns(("a", "b"), Kind.integers)))


def test_each_arrow_stream_is_a_body_of_its_own_in_memory_that_can_be_wiped() -> None:
    one, two = bodies_of(Block.of([_arrow([1, 2]), _arrow([3])]), NUMBERS)
    assert one.content_type is two.content_type is ContentType.arrow
    assert pl.read_ipc_stream(one.octets.tobytes())["user"].to_list() == [1, 2]
    one.wipe()
    assert not one.octets.any()


def test_bodies_of_text_can_be_wiped() -> None:
    (body,) = bodies_of(Block.of([b"17"]), NUMBERS)
    body.wipe()
    assert not np.any(body.octets)


def test_very_much_becomes_several_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payloads, "_MOST", 100)
    bodies = list(bodies_of(Block.of([b"%d" % i for i in range(100)]), NUMBERS))
    assert len(bodies) > 1
    lines = b"".join(body.octets.tobytes() for body in bodies).splitlines()
    assert [json.loads(line)["user"] for line in lines] == list(range(100))


def test_what_a_message_is_can_be_said() -> None:
    assert payload_kind(b"{1234-abcd}") is Payload.json
    assert _rows([b"{1234-abcd}"], NAMES, Payload.id) == [{"user": "{1234-abcd}"}]


PLAIN = [b"17", b"alice", b"new york", b"a", b"~"]
OTHERS = [b" 17", b"17 ", b'a"b', b"c\\d", "ä".encode(), b"a\nb", b"a\tb", b"\x7f", b" "]


def test_plain_ids_are_woven_and_others_take_the_long_way_to_the_same_lines() -> None:
    assert ids_to_ndjson(Block.of(PLAIN), b'{"user":"', b'"}') is not None
    for other in OTHERS:
        assert ids_to_ndjson(Block.of([*PLAIN, other]), b'{"user":"', b'"}') is None
        assert _rows([*PLAIN, other], NAMES)[:-1] == _rows(PLAIN, NAMES)
    assert _rows(PLAIN, NAMES) == [{"user": each.decode()} for each in PLAIN]


def test_a_part_of_a_part_has_the_same_memory_and_no_copy_of_lengths() -> None:
    block = Block.of([b"alice", b"bob", b"carol", b"dave"])
    part = block.part(1, 4).part(1, 3)
    assert list(part) == [b"carol", b"dave"]
    lines = ids_to_ndjson(part, b"<", b">")
    assert lines is not None
    assert lines.tobytes() == b"<carol>\n<dave>\n"
    block.wipe()
    assert not part.octets.any()
    assert not part.starts.any()
