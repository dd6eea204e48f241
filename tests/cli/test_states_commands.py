"""`panprivacy show`, `release`, `merge`, `rerandomize`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import panprivacy as pp
from commands import answer, refused, run
from panprivacy.state import StateFile


def _shard(tmp_path: Path, i: int, of: int = 2) -> Path:
    events, state = tmp_path / "f.csv", tmp_path / f"{i}.pp"
    events.write_text("user\n" + "\n".join(map(str, range(600))))
    command = ("density", events, "-c", "user", "-n", 1000, "-e", 20, "--shard", f"{i}/{of}", "-s", state)
    assert run(*command).exit_code == 0
    return state


@pytest.mark.slow
def test_shards_are_merged_into_the_whole(tmp_path: Path) -> None:
    north, south, whole = _shard(tmp_path, 0), _shard(tmp_path, 1), tmp_path / "all.pp"
    result = run("merge", north, south, "-o", whole)
    assert (result.exit_code, result.stdout) == (0, "")
    assert answer("release", whole)["density"] == pytest.approx(0.6, abs=0.02)
    assert "shards hold" not in result.stderr
    assert "<" not in result.stderr
    assert f"{north} and {south} are overwritten and deleted: {whole} has taken over" in result.stderr
    assert not north.exists()
    assert not south.exists()
    north, south = _shard(tmp_path, 0), _shard(tmp_path, 1)
    assert "there is a file already" in refused("merge", north, south, "-o", whole)


@pytest.mark.slow
def test_the_parts_of_a_merge_are_overwritten_where_they_were(tmp_path: Path) -> None:
    parts = [_shard(tmp_path, 0), _shard(tmp_path, 1)]
    for i, part in enumerate(parts):
        (tmp_path / f"link{i}").hardlink_to(part)
    assert run("merge", *parts, "-o", tmp_path / "all.pp").exit_code == 0
    for i in range(2):
        assert set((tmp_path / f"link{i}").read_bytes()) == {0}


@pytest.mark.slow
def test_parts_are_kept_if_asked_for_and_it_says_what_that_means(tmp_path: Path) -> None:
    north, south, whole = _shard(tmp_path, 0), _shard(tmp_path, 1), tmp_path / "all.pp"
    before = north.read_bytes()
    result = run("merge", north, south, "-o", whole, "--keep-parts")
    assert result.exit_code == 0
    assert f"are kept: reading them beside {whole} is a second reading of their users" in result.stderr
    assert north.read_bytes() == before


def test_the_same_part_twice_is_refused_by_whatever_name(tmp_path: Path) -> None:
    north, soft, hard = _shard(tmp_path, 0), tmp_path / "soft.pp", tmp_path / "hard.pp"
    soft.symlink_to(north)
    hard.hardlink_to(north)
    before = north.read_bytes()
    for other in (north, soft, hard):
        line = refused("merge", north, other, "-o", tmp_path / "x.pp")
        assert f"{north} and {other} are one file: name each part once" in line
    assert north.read_bytes() == before
    assert not (tmp_path / "x.pp").exists()


@pytest.mark.slow
def test_a_part_that_is_in_use_is_not_merged(tmp_path: Path) -> None:
    north, south = _shard(tmp_path, 0), _shard(tmp_path, 1)
    with StateFile(south).locked():
        assert "1.pp: another process is using this state" in refused("merge", north, south, "-o", tmp_path / "x.pp")
    assert north.exists()
    assert not (tmp_path / "x.pp").exists()


@pytest.mark.slow
def test_a_merge_tells_of_shards_that_are_not_there(tmp_path: Path) -> None:
    parts = [_shard(tmp_path, i, of=3) for i in range(3)]
    assert "0.pp alone is nothing to merge" in refused("merge", parts[0], "-o", tmp_path / "one.pp")
    result = run("merge", *parts[:2], "-o", tmp_path / "two.pp")
    assert "two.pp: its 2 shards hold 666 of 1,000 users; the others are not counted" in result.stderr
    assert "shards hold" not in run("merge", tmp_path / "two.pp", parts[2], "-o", tmp_path / "all.pp").stderr


@pytest.mark.slow
def test_sampled_shards_share_a_key(tmp_path: Path) -> None:
    events = tmp_path / "f.csv"
    events.write_text("user\n1\n")
    command = ("density", events, "-c", "user", "-n", 1000, "-e", 1, "--sample", 100)
    for i in range(2):
        shard = f"{i}/2:00112233445566778899aabbccddeeff"
        assert run(*command, "--shard", shard, "-s", tmp_path / f"{i}.pp").exit_code == 0
    assert run("merge", tmp_path / "0.pp", tmp_path / "1.pp", "-o", tmp_path / "all.pp").exit_code == 0
    line = refused(*command, "--shard", "0/2")
    assert "sampled shards must share a key" in line
    assert "--shard I/N:KEY" in line


@pytest.mark.slow
def test_counts_of_different_and_of_the_same_users_are_merged(tmp_path: Path) -> None:
    events = tmp_path / "f.csv"
    key = "00112233445566778899aabbccddeeff"
    for i in range(2):
        events.write_text("user\n" + "\n".join(map(str, range(5000 * i, 5000 * i + 10_000))))
        command = ("distinct", events, "-c", "user", "-e", 20, "--buckets", 1024, "--key", key)
        assert run(*command, "-s", tmp_path / f"{i}.pp").exit_code == 0
    parts = (tmp_path / "0.pp", tmp_path / "1.pp")
    for options, count in (((), 20_000), (("--overlapping",), 15_000)):
        whole = tmp_path / f"{count}.pp"
        assert run("merge", *parts, "-o", whole, "--keep-parts", *options).exit_code == 0
        assert answer("release", whole)["count"] == pytest.approx(count, rel=0.15)
    (tmp_path / "other").mkdir()
    shard = _shard(tmp_path / "other", 0)
    assert "have nothing in common" in refused("merge", parts[1], shard, "-o", tmp_path / "x.pp")


def test_rerandomize_spends_what_was_planned(tmp_path: Path) -> None:
    state = tmp_path / "s.pp"
    pp.Density(1000, epsilon=2.0, intrusions=1).save(state)
    before = state.read_bytes()
    result = run("rerandomize", state)
    assert "every bit is redrawn; 0 more planned" in result.stderr
    assert state.read_bytes() != before
    assert json.loads(run("show", state, "--json").stdout)["rerandomizations_made"] == 1
    assert (
        "the only planned rerandomisation is made; plan them with intrusions=J; --intrusions J plans them"
        in refused("rerandomize", state)
    )


def test_show_costs_nothing_and_changes_nothing(tmp_path: Path) -> None:
    state = tmp_path / "s.pp"
    pp.Density(1000, epsilon=1.0, releases=2).save(state)
    before = state.read_bytes()
    assert run("show", state).stdout.startswith("Density of 1,000 users, all tracked")
    assert "0 of 2 releases made" in run("show", state).stdout
    assert json.loads(run("show", state, "--json").stdout)["last"] is None
    first = answer("release", state)
    shown = run("show", state)
    assert f"density {first['density']:.4f}" in shown.stdout
    assert state.read_bytes() != before
    after = state.read_bytes()
    run("show", state)
    assert state.read_bytes() == after


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirected", "why"), [(">&-", "is closed"), (">/dev/full", "cannot be written: no space left on device")]
)
def test_a_release_that_nobody_could_see_is_saved(redirected: str, why: str, tmp_path: Path) -> None:
    state = tmp_path / "s.pp"
    pp.Density(1000, epsilon=1.0).save(state)
    command = f"exec {sys.executable} -c 'from panprivacy.cli import app; app()' release {state} {redirected}"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    saved = f"the release is spent and saved; panprivacy show {state} has it"
    assert result.stderr == f"panprivacy: standard output {why}; {saved}\n"
    assert run("show", state).stdout.splitlines()[1].startswith("density ")


def test_a_state_in_use_is_refused_but_can_be_shown(tmp_path: Path) -> None:
    state = tmp_path / "s.pp"
    pp.Density(1000, epsilon=1.0).save(state)
    with StateFile(state).locked():
        assert "another process is using this state" in refused("release", state)
        assert run("show", state).exit_code == 0


def test_a_state_on_seeded_coins_cannot_be_passed_off_as_safe(tmp_path: Path) -> None:
    from panprivacy.testing import SeededCoins

    state = tmp_path / "s.pp"
    pp.Density(1000, epsilon=1.0, coins=SeededCoins(1)).save(state, insecure=True)
    assert "NOT SECURE" in run("show", state).stdout
    assert "seeded coins" in refused("release", state)


def test_the_state_of_a_continual_is_shown_and_otherwise_left_to_python(tmp_path: Path) -> None:
    state = tmp_path / "s.pp"
    pp.Continual(1000, epsilon=8.0).save(state)
    assert run("show", state).stdout.startswith("Continual of 1,000 users")
    assert json.loads(run("show", state, "--json").stdout)["moves_left"] == 20
    for command in ("release", "rerandomize"):
        assert "s.pp: this is the state of a Continual: use it in Python" in refused(command, state)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    for command in ("show", "release", "rerandomize"):
        assert "no.pp: cannot be read: no such file" in refused(command, tmp_path / "no.pp")
        assert f"x.pp: there is no folder {tmp_path / 'no'}" in refused("release", tmp_path / "no" / "x.pp")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_counts_with_different_keys_say_how_to_get_one(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("user\n1\n2\n")
    parts = [tmp_path / "north.pp", tmp_path / "south.pp"]
    for part in parts:
        assert run("distinct", tmp_path / "f.csv", "-c", "user", "-e", 1, "--state", part).exit_code == 0
    message = refused("merge", *parts, "-o", tmp_path / "all.pp")
    assert "south.pp have different keys" in message
    assert "with the same --key HEX" in message
    assert all(part.exists() for part in parts)
