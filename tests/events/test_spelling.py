"""Ids that differ only in their spelling: a list says 00001, and a file that went through a spreadsheet says 1."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from event_files import fed, revealing, seen

import panprivacy as pp
from feeding import refused, touched
from panprivacy import testing
from panprivacy.errors import OutsideUniverse, PanPrivacyError
from panprivacy.ingest import BadInput, Columns, Kind, read
from panprivacy.ingest.feed import BatchFeeder

PADDED = [f"{user:05}" for user in range(1, 21)]


@pytest.mark.parametrize(
    ("listed", "stranger", "spelled", "how"),
    [
        (PADDED, "1", "00001", "zeros"),
        (PADDED, 1, "00001", "zeros"),
        (PADDED, "1.0", "00001", "zeros"),
        (["1", "2"], "001", "1", "zeros"),
        (["1", "2"], 2, "2", ""),
        (["ada", "grace"], "ADA", "ada", "case"),
        (["ADA", "GRACE"], "ada", "ADA", "case"),
        (["ada", "grace"], " ada ", "ada", "strip"),
        (["\u00e9milie"], "e\u0301milie", "\u00e9milie", "nfc"),
        (PADDED, " 1 ", "00001", "strip,zeros"),
    ],
)
def test_a_stranger_whom_the_list_spells_otherwise_is_refused_with_the_remedy(
    listed: list[str], stranger: Any, spelled: str, how: str
) -> None:
    users = pp.Users([*listed, "v", "w", "x", "y", "z"])
    if how:
        for ids in ([stranger], pl.Series([stranger]), np.array([stranger])):
            refused(users, ids, OutsideUniverse, f"is spelled '{spelled}'; pp.Users.*normalize='{how}'")
        with testing.refused("outside-universe", f"normalize={how!r}"):
            users.index(stranger)
        alike = pp.Users(listed, normalize=how)
        assert alike.index(stranger) == alike.index(spelled)
    else:
        refused(users, [stranger], OutsideUniverse, "which are text: pass ids as text, such as '2'")


def test_normalizing_reads_events_as_the_list_whatever_holds_them() -> None:
    users = pp.Users(PADDED, normalize="zeros")
    expected = sorted(users.index(user) for user in ("00007", "00012"))
    for ids in (
        ["7", "012"],
        [7, 12],
        [7, "12.0"],
        np.array([7, 12]),
        np.array(["7", "12"]),
        pl.Series(["07", "12"]),
        pl.Series([7, 12]),
        pl.Series(["7", "12"], dtype=pl.Categorical),
        pd.Series([7, 12]),
        pd.Series(["7", "12"]),
        iter(["7", "12"]),
    ):
        assert touched(users, lambda est, ids=ids: est.update_many(ids)) == expected  # type: ignore[misc]
    for user in ("7", 12):
        assert touched(users, lambda est, user=user: est.update(user)) == [users.index(user)]  # type: ignore[misc]
    for wrong in ([True], [b"7"], [None], [("7",)], ["seven"]):
        refused(users, wrong, ValueError, "outside the listed users")
    refused(users, [7.0], TypeError, "floats")


def test_a_normalized_list_is_the_list_of_what_it_became() -> None:
    assert pp.Users(PADDED, normalize="zeros").fingerprint == pp.Users([str(int(user)) for user in PADDED]).fingerprint
    assert pp.Users([7, 8], normalize="zeros").fingerprint == pp.Users(["007", "8.0"], normalize=["zeros"]).fingerprint
    grouped = pp.Users(["02", "01"], groups=["b", "a"], normalize="zeros")
    assert list(grouped) == ["1", "2"]
    larger = pp.Users(["01", "02"], normalize="zeros").grown(["2", "03"])
    assert list(larger) == ["1", "2", "3"]


def test_two_listed_users_who_become_one_are_refused() -> None:
    for ids, how in ((["007", "7", "8"], "zeros"), (["ada", "Ada"], "all"), (["a", "a "], "strip")):
        with pytest.raises(PanPrivacyError) as error:
            pp.Users(ids, normalize=how)
        assert error.value.code == "users-become-one"
        assert getattr(error.value, "code", "") == "users-become-one"
        assert len(pp.Users(ids)) == len(ids)
    assert len(pp.Users(["7", "7", "8"], normalize="zeros")) == 2


def test_what_normalize_takes_is_told() -> None:
    with testing.refused("normalize-unknown", "'lower'"):
        pp.Users(["a"], normalize="lower")
    with testing.refused("normalize-type", "strip"):
        pp.Users(["a"], normalize=3)
    with testing.refused("normalize-type", "integers"):
        pp.Users([b"a"], normalize="case")


def test_a_list_has_a_length_members_and_an_order() -> None:
    users = pp.Users(["b", "a", "b"])
    assert (len(users), "a" in users, "c" in users, 1.0 in users, [1] in users, list(users)) == (
        2,
        True,
        False,
        False,
        False,
        ["a", "b"],
    )
    assert list(pp.Users(np.array([3, 1]))) == [1, 3]
    assert all(type(user) is int for user in pp.Users([3, 1]))


TEXT = Columns(("user",), Kind.text)


def skipping(est: pp.Density, file: Path) -> set[int]:
    """Feed a file without its strangers; who is seen."""
    feed = BatchFeeder(est, TEXT, skip_outside=True)
    for batch in read([str(file)], TEXT):
        feed.take(batch)
    return seen(est)


@pytest.mark.parametrize(
    ("listed", "rows", "how"),
    [
        (PADDED, [*PADDED[:9], *map(str, range(10, 21))], "zeros"),
        (["McKay", "Lee"], ["Lee", "mckay"], "case"),
        (["ada ", "lee"], ["lee", "ada"], "strip"),
    ],
)
def test_strangers_of_a_file_whom_the_list_spells_otherwise_are_not_left_out(
    listed: list[str], rows: list[str], how: str, tmp_path: Path
) -> None:
    """Left out, they would make .5 of 1.0."""
    file = tmp_path / "f.csv"
    file.write_text("user\n" + "\n".join(rows) + "\n")
    est = revealing(pp.Users(listed))
    before = est.to_bytes(insecure=True)
    with pytest.raises(BadInput) as error:
        skipping(est, file)
    assert error.value.code == "spelled-otherwise"
    assert (error.value.code, error.value.hints[0]) == ("spelled-otherwise", ("normalize", how))
    assert est.to_bytes(insecure=True) == before
    assert len(skipping(revealing(pp.Users(listed, normalize=how)), file)) == len(listed)
    assert len(skipping(revealing(pp.Users(listed, normalize="none")), file)) < len(listed)


def test_one_user_is_one_however_an_action_spells_the_id(tmp_path: Path) -> None:
    file = tmp_path / "f.csv"
    file.write_text("user,do\n1,insert\n00001,delete\n00002,delete\n2,insert\n")
    est = revealing(pp.Users(PADDED, normalize="zeros"))
    fed(est, file, Columns(("user",), Kind.text, action="do"))
    assert seen(est) == {est.universe.index("2")}
