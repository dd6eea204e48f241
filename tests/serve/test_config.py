"""The file of a service is checked whole, and every error names its key."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from service_for_tests import FLU, settings_for

from panprivacy.serve import memory, server
from panprivacy.serve.config import Limits, read_settings, settings_of
from panprivacy.serve.service import Service
from panprivacy.serve.tokens import hash_of, new_token, written_hash
from panprivacy.settings import InvalidSettings
from panprivacy.testing import refused


def problems_of(folder: Path, values: dict[str, Any]) -> tuple[str, ...]:
    with pytest.raises(InvalidSettings) as caught:
        settings_of(values, folder)
    return caught.value.problems


@pytest.mark.parametrize(
    ("key", "wrong", "said"),
    [
        ("kind", "densty", "counters.flu.kind: must be one of density"),
        ("epsilon", "one", "counters.flu.epsilon: must be a number, got 'one'"),
        ("epsilon", -1.0, "counters.flu.epsilon: must be above 0, got -1.0"),
        ("epsilon", float("inf"), "counters.flu.epsilon: must be a finite number, got inf"),
        ("delta", 0.5, "counters.flu.delta: "),
        ("releases", 0, "counters.flu.releases: "),
        ("universe", 0, "counters.flu.universe: must be at least 1, got 0"),
        ("sample", 2000, "counters.flu.sample: "),
        ("relases", 3, "counters.flu.relases: there is no such key; is it releases?"),
        ("column", 7, "counters.flu.column: must be a text, got 7"),
        ("by", "clinic", "counters.flu.by: "),
        ("level", 1.5, "counters.flu.level: must be below 1, got 1.5"),
        ("schedule", {"every": "1M"}, "counters.flu.schedule.every: period '1M': is that minutes or months?"),
        ("schedule", {"every": "1d", "ahead": 1}, "counters.flu.schedule.ahead: is about the times of events"),
        ("schedule", {"every": "1d", "early": "skip"}, "counters.flu.schedule.early: is about the times of events"),
        ("unlisted", "count", "counters.flu.unlisted: must be skip or refuse, got 'count'"),
        ("schedule", {"start": "2026-01-05"}, "counters.flu.schedule.every: is missing: the length of a period"),
        ("universe_file", "users.csv:id", "counters.flu.universe: which users could appear? Give one of"),
        ("source", 3, "counters.flu.source: must be a table"),
    ],
)
def test_an_error_names_its_key(key: str, wrong: Any, said: str, tmp_path: Path) -> None:
    values = {"service": {"anonymous": ["read"]}, "counters": {"flu": FLU | {key: wrong}}}
    assert any(problem.startswith(said) for problem in problems_of(tmp_path, values)), said


def test_all_errors_are_said_at_once(tmp_path: Path) -> None:
    values = {
        "servce": {},
        "counters": {"flu": FLU | {"epsilon": "x"}, "Bad Name": FLU},
        "limits": {"body": "1 elephant"},
        "tokens": {"a": {"hash": "secret", "roles": ["rule"], "counters": ["cold"]}},
    }
    keys = {problem.partition(":")[0] for problem in problems_of(tmp_path, values)}
    expected = "servce, counters.flu.epsilon, counters.Bad Name, limits.body, tokens.a.hash, tokens.a.roles, "
    assert keys == {*(expected + "tokens.a.counters").split(", ")}


@pytest.mark.parametrize("junk", [-1, float("nan"), 10**30, "", "pp_secret", [], ["a", 1], [[]], {}, {"a": 1}, True])
def test_whatever_a_key_holds_is_taken_or_refused_by_its_name(junk: Any, tmp_path: Path) -> None:
    """And what could be a token, or a password of a broker, is never repeated."""
    source: dict[str, Any] = {"kind": "redis", "servers": "h:1", "stream": "s", "options": {"password": "x"}}
    full = FLU | {"level": 0.9, "schedule": {"every": "1d", "start": "2026-01-05"}, "source": source}
    token: dict[str, Any] = {"hash": written_hash("pp_x"), "roles": ["read"], "counters": ["flu"]}
    tables: dict[str, Any] = {
        "service": {"port": 1, "folder": "f"},
        "limits": {"body": 1},
        "tokens": {"a": token},
        "counters": {"flu": full},
    }
    inside: list[tuple[dict[str, Any], str]] = [(token, "hash"), (token, "roles"), (token, "counters")]
    inside += [(holder, key) for holder in (tables, full, source, full["schedule"]) for key in list(holder)]
    for holder, key in inside:
        before, holder[key] = holder[key], junk
        lines: tuple[str, ...] = ()
        with suppress(InvalidSettings):
            settings_of(tables, tmp_path)
            lines = ("taken: all of it",)
        lines = lines or problems_of(tmp_path, tables)
        assert all(": " in line for line in lines), key
        assert key not in ("hash", "options") or "secret" not in str(lines)
        holder[key] = before


def test_without_tls_only_loopback_is_listened_to_unless_told_otherwise(tmp_path: Path) -> None:
    service = {"anonymous": ["read"], "host": "0.0.0.0"}
    (problem,) = problems_of(tmp_path, {"service": service, "counters": {"flu": FLU}})
    assert problem.startswith("service.host: 0.0.0.0 is reached from other machines")
    assert settings_for(tmp_path, {"host": "0.0.0.0", "without_tls": True}).service.host == "0.0.0.0"


def test_a_service_that_nobody_could_use_is_refused(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, {"counters": {"flu": FLU}})
    assert problem.startswith("service.anonymous: no sender could do anything: make a token")


def test_a_token_itself_is_no_hash(tmp_path: Path) -> None:
    token = new_token()
    values = {"counters": {"flu": FLU}, "tokens": {"a": {"roles": ["read"], "hash": token}}}
    (problem,) = problems_of(tmp_path, values)
    assert problem.startswith("tokens.a.hash: ")
    assert token not in problem
    values["tokens"]["a"]["hash"] = written_hash(token)
    assert settings_of(values, tmp_path).tokens[0].name == "a"


def test_a_promise_cannot_change_while_its_counter_lives(tmp_path: Path) -> None:
    with Service(settings_for(tmp_path)):
        pass
    changed = settings_for(tmp_path, flu=FLU | {"epsilon": 2.0, "releases": 4})
    with refused("invalid-settings", "counters.flu.epsilon", "1.0", "2.0"):
        Service(changed).__enter__()
    with refused("invalid-settings", "counters.flu.releases", "3", "4"):
        server.check(changed)
    with Service(settings_for(tmp_path, flu=FLU | {"title": "Flu", "level": 0.9})) as service:
        assert service.counter("flu").status["title"] == "Flu"


def test_counters_are_added_and_left_out_by_a_restart_that_loses_nothing(tmp_path: Path) -> None:
    with Service(settings_for(tmp_path)) as service:
        first = service.counter("flu").release().result()
    with Service(settings_for(tmp_path, cold=FLU)) as service:
        assert set(service.counters) == {"cold"}
    with Service(settings_for(tmp_path, cold=FLU, flu=FLU)) as service:
        assert service.counter("flu").release_log.records == [first]
        assert service.counter("flu").status["budget"]["releases_left"] == 2


def test_a_state_of_another_list_of_users_is_refused(tmp_path: Path) -> None:
    users = tmp_path / "users.csv"
    users.write_text("id\na\nb\nc\n")
    listed = {"kind": "density", "universe_file": "users.csv:id", "epsilon": 1.0, "column": "user"}
    with Service(settings_for(tmp_path, flu=listed)):
        pass
    users.write_text("id\na\nb\nd\n")
    with refused("invalid-settings", "users"):
        Service(settings_for(tmp_path, flu=listed)).__enter__()


def test_a_file_is_read_and_other_files_are_named_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "users.txt").write_text("a\nb\n")
    file = tmp_path / "counters.toml"
    file.write_text(
        '[service]\nanonymous = ["read"]\nfolder = "kept"\n[counters.flu]\nkind = "density"\nepsilon = 1\n'
        'universe_file = "users.txt"\ncolumn = "user"\n[counters.flu.schedule]\nevery = "7d"\nstart = 2026-01-05\n'
    )
    settings = read_settings(file)
    assert settings.folder == tmp_path / "kept"
    assert settings.counters[0].make().universe.size == 2
    file.write_text("[counters\n")
    with refused("invalid-settings", "counters.toml", "TOML"):
        read_settings(file)


def test_what_would_keep_the_service_from_starting_is_found_before(tmp_path: Path) -> None:
    (tmp_path / "states").write_text("")
    (tmp_path / "bad.pem").write_text("no certificate")
    one = {"hash": written_hash("pp_x"), "roles": ["read"]}
    values = {
        "service": {"tls": {"certificate": "bad.pem", "key": "bad.pem"}},
        "limits": {"seconds": float("nan")},
        "tokens": {"a": one, "b": one},
        "counters": {"flu": FLU},
    }
    keys = {problem.partition(":")[0] for problem in problems_of(tmp_path, values)}
    assert keys == {"service.tls.certificate", "service.folder", "limits.seconds", "tokens.b.hash"}


@pytest.mark.parametrize("name", ["flu.pp", "flu.json", "flu.releases.ndjson"])
def test_a_file_that_is_damaged_is_named_with_its_counter(name: str, tmp_path: Path) -> None:
    with Service(settings_for(tmp_path)) as service:
        service.counter("flu").release().result()
    damaged = tmp_path / "states" / name
    damaged.write_bytes(damaged.read_bytes()[: len(damaged.read_bytes()) // 2] + b"\n")
    with refused("invalid-settings", name):
        Service(settings_for(tmp_path)).__enter__()
    with refused("invalid-settings", name):
        server.check_all(settings_for(tmp_path))


def test_a_state_whose_promise_is_lost_is_not_served_with_another(tmp_path: Path) -> None:
    with Service(settings_for(tmp_path)):
        pass
    (tmp_path / "states" / "flu.json").unlink()
    for start in (server.check, lambda settings: Service(settings).__enter__()):
        with refused("invalid-settings", "flu.json", "missing"):
            start(settings_for(tmp_path, flu=FLU | {"epsilon": 2.0}))


def test_a_secret_may_be_in_a_file_or_among_credentials_of_systemd(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    (credentials / "clinic").write_text(written_hash("pp_a") + "\n")
    (tmp_path / "analyst").write_text(written_hash("pp_b"))
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(credentials))
    tokens = {name: {"hash": {"file": name}, "roles": ["read"]} for name in ("clinic", "analyst")}
    found = settings_for(tmp_path, {"tokens": tokens}).tokens
    assert [each.hash for each in found] == [hash_of("pp_a"), hash_of("pp_b")]
    wrong = {"tokens": {"other": {"hash": {"file": "missing"}, "roles": ["read"]}}}
    with pytest.raises(InvalidSettings) as caught:
        settings_for(tmp_path, wrong)
    assert caught.value.problems[0].startswith("tokens.other.hash: ")


def test_a_proxy_is_an_address_or_a_network(tmp_path: Path) -> None:
    assert len(settings_for(tmp_path, {"proxies": ["10.0.0.0/8", "::1"]}).service.proxies) == 2
    with pytest.raises(InvalidSettings) as caught:
        settings_for(tmp_path, {"proxies": ["proxy.example.org"]})
    assert caught.value.problems[0].startswith("service.proxies: ")


def test_without_a_limit_of_memory_it_is_a_share_of_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 8 * 2**30)
    monkeypatch.setattr(memory, "resident", lambda: 3)
    assert memory.chosen_limit(Limits(body=1, waiting=2**30)) == 6 * 2**30
    assert memory.chosen_limit(Limits(body=1, waiting=7 * 2**30)) == 7 * 2**30 + 16 + 3
    assert memory.chosen_limit(Limits(body=1, waiting=2, memory=21)) == 21
    with refused("invalid-settings", "limits.memory: must be at least 21 bytes"):
        memory.chosen_limit(Limits(body=1, waiting=2, memory=20))


def test_a_control_group_says_how_much_memory_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slice" / "unit").mkdir(parents=True)
    (tmp_path / "slice" / "memory.max").write_text("1000000\n")
    (tmp_path / "slice" / "unit" / "memory.max").write_text("max\n")
    (tmp_path / "self").write_text("0::/slice/unit\n")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    monkeypatch.setattr(memory, "_CGROUP", tmp_path / "self")
    assert memory.available() == 1_000_000
