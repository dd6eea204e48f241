"""A state folder is one estimator: whoever feeds it, in however many processes, and whatever breaks off."""

import pickle
from multiprocessing import get_context
from os import utime
from pathlib import Path
from shutil import rmtree
from typing import Any

import fsspec
import numpy as np
import pytest

import panprivacy as pp
from panprivacy.folder.shards import BatchId, Shard, ShardedBits
from panprivacy.folder.stores import Files
from panprivacy.privacy.budget import Ledger
from panprivacy.state import StateFile
from panprivacy.testing import CertainCoins, estimator_of, folder_table, ledger_of, refused, split_of

NAMES = [f"person {i}" for i in range(300)]


def made(place: Path, *, shards: int = 4, **options: Any) -> pp.StateFolder:
    """A folder of 1,000 users whose bits are a plain list of who came."""
    return pp.StateFolder.create(
        place / "folder", universe=1000, epsilon=2.0, shards=shards, coins=CertainCoins(), **options
    )


def present(folder: pp.StateFolder) -> set[int]:
    """Who came."""
    table = folder_table(folder)
    return set(np.flatnonzero(table.bits(0, table.size)).tolist())


def test_events_of_several_openers_are_in_one_release(tmp_path: Path) -> None:
    one = made(tmp_path, releases=2)
    other = pp.StateFolder(tmp_path / "folder", coins=CertainCoins())
    one.update_many(range(0, 500, 2))
    other.update_many(np.arange(1, 500, 2))
    one.update(999)
    other.remove(998)
    one.remove_many([0])
    assert present(one) == present(other) == {*range(1, 500), 999}
    assert one.release().raw_density == pytest.approx(other.release().raw_density)
    assert other.budget.remaining == one.budget.remaining == 0.0
    with pytest.raises(pp.BudgetExhausted):
        one.release()


@pytest.mark.parametrize("shards", [1, 3, *(pytest.param(many, marks=pytest.mark.slow) for many in (64, 300))])
def test_every_number_of_shards_holds_every_slot_once(tmp_path: Path, shards: int) -> None:
    folder = made(tmp_path, shards=shards)
    folder.update_many([0, 17, 63, 64, 500, 999])
    assert present(folder) == {0, 17, 63, 64, 500, 999}


def test_the_bits_of_a_new_folder_are_drawn_like_those_of_an_estimator(tmp_path: Path) -> None:
    folder = pp.StateFolder.create(tmp_path / "folder", universe=200_000, epsilon=1.0, shards=5)
    table = folder_table(folder)
    expected = 200_000 * float(ledger_of(folder).pair.p0)
    assert table.ones() == pytest.approx(expected, abs=5 * expected**0.5)
    assert folder.secure
    folder.update_many(range(100_000))
    assert folder.release().density == pytest.approx(0.5, abs=0.03)


def test_a_batch_with_a_stranger_changes_nothing(tmp_path: Path) -> None:
    folder = made(tmp_path)
    with refused("outside-universe", "1000"):
        folder.update_many([5, 1000])
    assert present(folder) == set()


@pytest.mark.slow
def test_an_open_universe_and_a_list_are_kept_in_folders_too(tmp_path: Path) -> None:
    visitors = pp.StateFolder.create(tmp_path / "visitors", epsilon=2.0, shards=8, buckets=256)
    visitors.update_many([f"visitor {i}" for i in range(5000)])
    assert pp.StateFolder(tmp_path / "visitors").release().count == pytest.approx(5000, rel=0.9)
    clinic = pp.StateFolder.create(tmp_path / "clinic", universe=pp.Users(NAMES), epsilon=9.0, shards=2)
    clinic.update_many(NAMES[:100])
    again = pp.StateFolder(tmp_path / "clinic", universe=pp.Users(NAMES))
    again.update("person 200")
    assert again.release().count == pytest.approx(101, abs=60)
    with refused("users-not-loaded"):
        pp.StateFolder(tmp_path / "clinic").update("person 1")
    with pytest.raises(pp.OtherUniverse):
        pp.StateFolder(tmp_path / "clinic", universe=pp.Users(NAMES[1:]))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [pp.Density, pp.Counts], ids=["Density", "Counts"])
def test_groups_of_users_and_categories_of_events_are_released(tmp_path: Path, estimator: Any) -> None:
    plan = {"epsilon": 30.0, "estimator": estimator, "shards": 3}
    regions = pp.StateFolder.create(tmp_path / "a", universe=36_000, groups=["north", "south", "west"] * 12_000, **plan)
    regions.update_many(range(0, 36_000, 3), batch=("w", 1))
    assert estimator_of(regions).groups == ("north", "south", "west")
    named = pp.Users(range(36_000), groups=["north", "south", "west"] * 12_000)
    again = pp.StateFolder(tmp_path / "a", universe=named)  # whose groups do not stand together: they are a list
    again.update_many(range(1, 18_000, 3), batch=("w", 2))
    assert shares(again.release()) == [pytest.approx(share, abs=0.3) for share in (1.0, 0.5, 0.0)]
    clinics = pp.StateFolder.create(tmp_path / "b", universe=36_000, categories=["flu", "cold"], **plan)
    clinics.update_many(range(36_000), "flu", batch=("w", 1))
    clinics.update_many([5, 6], ["flu", "cold"], batch=("w", 2))
    clinics.update(7, "cold", batch=("w", 3))
    assert shares(clinics.release()) == [pytest.approx(share, abs=0.3) for share in (1.0, 0.0)]
    with refused("category-needed"):
        clinics.update_many([1], batch=("w", 4))


def shares(release: Any) -> list[float]:
    """For every group its density, or how often its users came."""
    return [row.mean if hasattr(row, "mean") else row.density for row in release.groups]


def test_visitors_in_categories_are_counted(tmp_path: Path) -> None:
    pages = pp.StateFolder.create(tmp_path / "a", epsilon=9.0, buckets=256, categories=["a", "b"], shards=3)
    pages.update_many([f"visitor {i}" for i in range(4000)], "b")
    few, many = pages.release().groups
    assert few.count < 1000 < many.count


def test_an_estimator_goes_on_in_a_folder_and_holds_nothing_any_more(tmp_path: Path) -> None:
    est = pp.Density(1000, 9.0, releases=2, intrusions=1)
    est.update_many(range(500))
    est.release()
    est.rerandomize()
    folder = pp.StateFolder.holding(est, tmp_path / "a", shards=3)
    assert est.emptied == "its bits are in a state folder"
    folder.update_many(range(500, 600))
    assert folder.budget.releases_made == 1
    assert folder.release().density == pytest.approx(0.6, abs=0.4)
    with refused("not-in-folder", "Retention"):
        pp.StateFolder.holding(pp.Retention(1000, 1.0), tmp_path / "b")


@pytest.mark.parametrize("fails_at", ["shard-00000", "shard-00002", "ledger"])
def test_an_estimator_whose_folder_could_not_be_made_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    est = pp.Density(1000, 9.0, coins=CertainCoins())
    est.update_many(range(500))
    create = Files.create_one

    def failing(store: Files, name: str, parts: Any) -> None:
        if name == fails_at:
            raise OSError(28, "no space left on device")
        create(store, name, parts)

    with monkeypatch.context() as patch:
        patch.setattr(Files, "create_one", failing)
        with pytest.raises(OSError, match="no space"):
            pp.StateFolder.holding(est, tmp_path / "a", shards=4)
    assert not (tmp_path / "a").exists() or not list((tmp_path / "a").iterdir())
    (tmp_path / "file").write_text("of somebody")
    with pytest.raises((OSError, pp.PanPrivacyError)):
        pp.StateFolder.holding(est, tmp_path / "file" / "a", shards=4)
    made(tmp_path)
    with pytest.raises(FileExistsError):
        pp.StateFolder.holding(est, tmp_path / "folder", shards=4)
    est.update(999)
    assert present(pp.StateFolder.holding(est, tmp_path / "a", shards=4)) == {*range(500), 999}


def test_a_union_is_kept_out_of_folders(tmp_path: Path) -> None:
    parts = [pp.DistinctCount(1.0, 64, key=bytes(16)) for _ in range(2)]
    union = pp.merge(parts, overlapping=True)
    with refused("not-in-folder", "union"):
        pp.StateFolder.holding(union, tmp_path / "a")


def test_only_bits_ledger_and_parameters_are_on_disk(tmp_path: Path) -> None:
    folder = made(tmp_path)
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "folder").iterdir()}
    folder.update_many(range(700))
    folder.release()
    after = {path.name: path.stat().st_size for path in (tmp_path / "folder").iterdir()}
    assert after == sizes
    assert sorted(sizes) == ["ledger.pp", *(f"shard-{i:05d}.pp" for i in range(4))]


def test_which_files_are_new_does_not_tell_who_came(tmp_path: Path) -> None:
    folder = made(tmp_path, shards=4)
    paths = sorted((tmp_path / "folder").glob("shard-*"))
    for ids in ([0], [999], [], range(1000), [0]):  # also where no bit is changed
        for path in paths:
            utime(path, (1, 1))
        folder.update_many(ids)
        assert all(path.stat().st_mtime > 1 for path in paths)


def test_rerandomising_redraws_every_shard_once(tmp_path: Path) -> None:
    folder = pp.StateFolder.create(tmp_path / "folder", universe=60_000, epsilon=4.0, shards=3, intrusions=1)
    before = folder_table(folder)
    folder.rerandomize()
    after = folder_table(pp.StateFolder(tmp_path / "folder"))
    changed = sum(int(word).bit_count() for word in before.words ^ after.words)
    flip = split_of(folder).flip / 2**32
    assert changed == pytest.approx(60_000 * flip, abs=6 * (60_000 * flip) ** 0.5)
    with pytest.raises(pp.BudgetExhausted):
        folder.rerandomize()


def broken_off(place: Path, monkeypatch: pytest.MonkeyPatch) -> pp.StateFolder:
    """A folder whose only rerandomisation broke off after the first of three shards."""
    folder = pp.StateFolder.create(
        place / "folder", universe=6000, epsilon=4.0, shards=3, intrusions=1, coins=CertainCoins()
    )
    change, changed = Files.change_one, []

    def breaking_off(store: Files, name: str, edit: object) -> None:
        changed.append(name)
        if name == "shard-00001":
            raise KeyboardInterrupt
        change(store, name, edit)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Files, "change_one", breaking_off)
        with pytest.raises(KeyboardInterrupt):
            folder.rerandomize()
    assert changed == ["ledger", "shard-00000", "shard-00001"]
    assert redraws(place) == [1, 0, 0]
    assert folder.shards_behind == 2
    return folder


def redraws(place: Path) -> list[int]:
    """How often each shard was rerandomised."""
    shards = [StateFile(place / "folder" / f"shard-{i:05d}.pp").read() for i in range(3)]
    return [Shard.of(shard).redraws for shard in shards]


@pytest.mark.parametrize(
    "finish",
    [
        lambda folder: folder.rerandomize(),
        lambda folder: folder.release(),
        lambda folder: folder.update_many([0, 5999]),
        lambda folder: [folder.take(number, []) for number in range(3)],
        lambda folder: folder.update_many([], batch=("w", 1)),
    ],
    ids=["rerandomize", "release", "update_many", "take", "a batch"],
)
def test_a_rerandomisation_that_broke_off_is_finished_by_whoever_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finish: Any
) -> None:
    broken_off(tmp_path, monkeypatch)
    folder = pp.StateFolder(tmp_path / "folder", coins=CertainCoins())
    finish(folder)
    assert redraws(tmp_path) == [1, 1, 1]
    assert (folder.budget.redraws_made, folder.shards_behind) == (1, 0)
    with pytest.raises(pp.BudgetExhausted):
        folder.rerandomize()


def test_whoever_opened_a_folder_before_it_was_rerandomised_finishes_that_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = broken_off(tmp_path, monkeypatch)
    with folder.pending() as pending:
        estimator_of(folder).update_many([5999])
        pending.write()
    assert redraws(tmp_path) == [1, 1, 1]
    assert 5999 in present(folder)


@pytest.mark.parametrize("deletions", [[], [7], [7, 8, 999]])
def test_deletions_among_insertions_take_no_further_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deletions: list[int]
) -> None:
    writes: list[str] = []
    folder, write = made(tmp_path), StateFile.write

    def noted(self: StateFile, parts: Any) -> None:
        writes.append(self.path.name)
        write(self, parts)

    monkeypatch.setattr(StateFile, "write", noted)
    with folder.pending() as pending:
        for number in range(10):
            pending.estimator.update_many([number, 999])
        pending.estimator.remove_many(deletions)
        pending.estimator.update_many([8])
        pending.write()
    assert writes == [f"shard-{number:05}.pp" for number in range(folder.shards)]
    assert present(folder) == {*range(10), 999} - set(deletions) | {8}


@pytest.mark.parametrize("deletions", [[], [7], [7, 8, 999, 999, 999, 5, 5]])
def test_deletions_of_counters_among_insertions_take_no_further_write(tmp_path: Path, deletions: list[int]) -> None:
    """In a store of objects a further write is a number in the names of objects."""
    folder = pp.StateFolder.create(f"memory:/{tmp_path}", universe=1000, epsilon=60.0, shards=3, up_to=4)
    with folder.pending() as pending:
        pending.estimator.update_many([*range(10), *[999] * 4])
        pending.estimator.remove_many(deletions)
        pending.estimator.update_many([5, 8])
        pending.write(BatchId("till", 1))
        names = fsspec.filesystem("memory").find(str(tmp_path))
        fsspec.filesystem("memory").rm(str(tmp_path), recursive=True)
    assert sorted(name.rsplit(".", 2)[1] for name in names if "shard" in name) == [f"{2:012}"] * 3


@pytest.mark.slow
def test_counters_have_what_insertions_and_deletions_in_any_order_leave(tmp_path: Path) -> None:
    """User u is inserted and deleted as `moves[u % 6]` says, with a write in the middle or without."""
    moves = ("+++", "++-", "-+", "+-+-", "+" * 40 + "-" * 38, "-" * 3 + "++")
    left, users = (3, 1, 1, 0, 2, 2), np.arange(6000)
    folder = pp.StateFolder.create(tmp_path / "folder", universe=6000, epsilon=60.0, shards=2, up_to=4)
    with folder.pending() as pending:
        for step in range(max(map(len, moves))):
            for sign, feed in (("+", pending.estimator.update_many), ("-", pending.estimator.remove_many)):
                feed(users[[moves[user % 6][step : step + 1] == sign for user in users]])
        pending.write()
    shares = [sum(each >= least for each in left) / 6 for least in (1, 2, 3, 4)]
    assert folder.release().at_least == pytest.approx(shares, abs=0.08)


def test_a_release_that_was_not_shown_is_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(pp.StateFolder, "_read", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            folder.release()
    found = pp.StateFolder(tmp_path / "folder", coins=CertainCoins()).last
    assert found is not None
    assert found.number == 1


def test_nothing_is_spent_by_a_release_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(ShardedBits, "gathered", lambda *_: (_ for _ in ()).throw(OSError("gone")))
        with pytest.raises(OSError, match="gone"):
            folder.release()
    with refused("level-range"):
        folder.release(level=2)
    assert folder.budget.releases_made == 0


def feed(url: str, first: int) -> None:
    """Feed a tenth of the users, a few at a time."""
    folder = pp.StateFolder(url, coins=CertainCoins())
    for user in range(first, 1000, 50):
        folder.update_many(range(user, user + 50, 10))


@pytest.mark.slow
def test_ten_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    folder = made(tmp_path)
    context = get_context("fork")
    workers = [context.Process(target=feed, args=(str(tmp_path / "folder"), first)) for first in range(10)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert present(folder) == set(range(1000))


def test_an_object_that_outlives_its_folder_spends_nothing_of_the_next(tmp_path: Path) -> None:
    folder = made(tmp_path, intrusions=1)
    rmtree(tmp_path / "folder")
    following = made(tmp_path, intrusions=1)
    verbs: list[Any] = [folder.release, folder.rerandomize, lambda: folder.update_many([1]), lambda: folder.take(0, [])]
    for verb in (*verbs, lambda: folder.budget, lambda: folder.last):
        with refused("folder-replaced"):
            verb()
    assert (following.budget.releases_made, following.budget.redraws_made, present(following)) == (0, 0, set())


def test_the_estimator_of_a_folder_is_nobody_elses(tmp_path: Path) -> None:
    folder = made(tmp_path)
    assert not hasattr(folder, "estimator")
    with refused("in-folder-already"):
        pp.StateFolder.holding(estimator_of(folder), tmp_path / "b")
    folder.update(5)
    assert present(folder) == {5}


def test_shards_of_another_folder_and_foreign_files_are_refused(tmp_path: Path) -> None:
    folder, other = made(tmp_path / "a"), made(tmp_path / "b")
    shard = "folder/shard-00002.pp"
    (tmp_path / "a" / shard).write_bytes((tmp_path / "b" / shard).read_bytes())
    with refused("other-shard", "shard-00002.pp"):
        folder.update_many(range(1000))
    (tmp_path / "b" / "folder" / "ledger.pp").write_bytes(b"nonsense")
    with refused("state-truncated", "b/folder/ledger.pp"):
        _ = other.budget
    with pytest.raises(FileNotFoundError, match="no state folder here"):
        pp.StateFolder(tmp_path / "c")
    with pytest.raises(FileExistsError):
        made(tmp_path / "a")
    with refused("part-of-folder"):
        pp.load(tmp_path / "a" / "folder" / "ledger.pp")


@pytest.mark.slow
def test_a_folder_that_was_not_made_to_its_end_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("panprivacy.folder.folder._IN_MAKING", 0.1)
    made(tmp_path)
    (tmp_path / "folder" / "ledger.pp").unlink()
    with pytest.raises(FileNotFoundError, match="shards and no ledger"):
        pp.StateFolder(tmp_path / "folder")
    with pytest.raises(FileExistsError, match="shards and no ledger"):
        made(tmp_path)
    (tmp_path / "file").write_text("of somebody")
    with pytest.raises(NotADirectoryError, match="is a file"):
        pp.StateFolder.create(tmp_path / "file", universe=10, epsilon=1.0)


def test_a_folder_is_where_it_was_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = pp.StateFolder.create("folder", universe=1000, epsilon=2.0, shards=2, coins=CertainCoins())
    monkeypatch.chdir("/")
    folder.update(5)
    assert present(pickle.loads(pickle.dumps(folder))) == {5}


@pytest.mark.slow
def test_a_forked_process_is_told_to_open_the_folder(tmp_path: Path) -> None:
    folder, context = made(tmp_path), get_context("fork")
    hears, says = context.Pipe(duplex=False)

    def work() -> None:
        verbs: list[Any] = [lambda: folder.update(1), folder.release, lambda: folder.take(0, [])]
        for verb in verbs:
            try:
                verb()
            except pp.PanPrivacyError as error:
                says.send(str(error))

    child = context.Process(target=work)
    child.start()
    child.join()
    assert all("forked after the folder was opened: open it here" in hears.recv() for _ in range(3))


def test_bad_wishes_are_refused(tmp_path: Path) -> None:
    with refused("epsilon-missing"):
        pp.StateFolder.create(tmp_path / "x", universe=10)
    with refused("shards-range", "10"):
        pp.StateFolder.create(tmp_path / "x", universe=10, epsilon=1.0, shards=11)
    assert not (tmp_path / "x").exists()


def test_seeded_coins_are_kept_away_from_a_private_folder(tmp_path: Path) -> None:
    pp.StateFolder.create(tmp_path / "x", universe=1000, epsilon=1.0, shards=2)
    with pytest.raises(pp.NotPrivate):
        pp.StateFolder(tmp_path / "x", coins=CertainCoins())


def test_displays_name_folder_shards_and_budget(tmp_path: Path) -> None:
    folder = made(tmp_path, releases=3)
    assert "of 4 shards: <Density of 1,000 users" in repr(folder)
    assert ("shards", "4") in folder.card().rows
    assert "0 of 3 made" in str(folder.budget)
    assert (folder.epsilon, folder.delta, folder.universe.size, folder.shards) == (2.0, 0.0, 1000, 4)


# --- bugs that have to be found -------------------------------------------------------------------------------------


def test_a_ledger_that_is_not_written_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path)
    monkeypatch.setattr(Ledger, "spend_release", lambda _: None)
    folder.release()
    assert folder.budget.releases_made == 0
