"""`panprivacy grow`: more users for a state."""

from pathlib import Path

import pytest

import panprivacy as pp
from commands import answer, refused, run


@pytest.fixture
def lists(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A list of users, a longer one, and a state of the first whose users have all appeared."""
    old, new, state = tmp_path / "old.csv", tmp_path / "new.txt", tmp_path / "flu.pp"
    old.write_text("id\n" + "\n".join(f"user {i}" for i in range(0, 2000, 2)))
    new.write_text("\n".join(f"user {i}" for i in range(4000)))
    feed = ("density", old, "-c", "id", "--universe-file", f"{old}:id", "-e", 20, "-s", state, "--no-release")
    assert run(*feed).exit_code == 0
    return old, new, state


@pytest.mark.slow
def test_a_state_grows_with_its_list_and_is_fed_with_the_new_one(lists: tuple[Path, Path, Path]) -> None:
    old, new, state = lists
    result = run("grow", state, "--from", f"{old}:id", "--to", new)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"panprivacy: {state}: the universe now is 4,000 listed users\n"
    assert "another list of users" in refused("density", old, "-c", "id", "--universe-file", f"{old}:id", "-s", state)
    more = old.with_name("more.csv")
    more.write_text("id\nuser 1\nuser 3999\n")
    assert run("density", more, "-c", "id", "--universe-file", new, "-s", state, "--no-release").exit_code == 0
    assert answer("release", state)["density"] == pytest.approx(1002 / 4000, abs=0.01)


def test_a_state_of_numbered_users_grows_to_a_number(tmp_path: Path) -> None:
    state = tmp_path / "flu.pp"
    pp.Density(1000, 1.0).save(state)
    assert run("grow", state, "-n", 3000).stderr == f"panprivacy: {state}: the universe now is 3,000 users\n"
    assert "only grows" in refused("grow", state, "-n", 2000)
    assert pp.load(state).users == 3000


@pytest.mark.slow
def test_a_state_that_cannot_grow_stays_as_it_is(lists: tuple[Path, Path, Path], tmp_path: Path) -> None:
    old, new, state = lists
    before = state.read_bytes()
    fewer = tmp_path / "fewer.txt"
    fewer.write_text("\n".join(f"user {i}" for i in range(0, 1996, 2)))
    listed = f"{old}:id"
    assert "user 'user 1996' and 1 more of the old list are missing" in refused(
        "grow", state, "--from", listed, "--to", fewer
    )
    assert "another list of users" in refused("grow", state, "--from", new, "--to", new)
    assert "--from OLD --to NEW" in refused("grow", state, "--to", new)
    assert "one or the other" in refused("grow", state, "--to", new, "-n", 5)
    assert "list not loaded" in refused("grow", state, "-n", 5000)
    assert state.read_bytes() == before
    pp.DistinctCount(1.0).save(tmp_path / "d.pp")
    assert "a DistinctCount has no list" in refused("grow", tmp_path / "d.pp", "-n", 5)
