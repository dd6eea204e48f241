"""What docs/reference/configuration.md says about the file is so."""

import re
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel

from panprivacy.serve.config import (
    KINDS,
    CounterTable,
    Limits,
    ScheduleSettings,
    ServiceSettings,
    TokenTable,
    settings_of,
)
from panprivacy.serve.tokens import new_token, written_hash

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "configuration.md").read_text()


def test_the_file_on_the_page_is_a_good_one(tmp_path: Path) -> None:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    values = tomllib.loads(re.sub(r"sha256:\.\.\.", lambda _: written_hash(new_token()), block))
    settings = settings_of(values, tmp_path)
    assert settings.counters[0].table.schedule is not None
    assert [token.roles for token in settings.tokens] == [{"feed"}, {"read", "release"}]


@pytest.mark.parametrize("kind", KINDS)
def test_the_keys_of_every_kind_are_on_the_page(kind: str) -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{kind}` |"))
    missing = {key for key in KINDS[kind].TRAITS.options if f"`{key}`" not in row} - {"every"}
    assert not missing


@pytest.mark.parametrize("table", [ServiceSettings, Limits, TokenTable, ScheduleSettings, CounterTable])
def test_every_key_of_a_table_is_on_the_page(table: type[BaseModel]) -> None:
    assert [key for key in table.model_fields if f"`{key}" not in PAGE and f"NAME.{key}]" not in PAGE] == []


def test_the_unit_and_the_container_start_what_there_is() -> None:
    unit = (ROOT / "deploy" / "panprivacy.service").read_text()
    container = (ROOT / "deploy" / "Containerfile").read_text()
    assert "panprivacy serve /etc/panprivacy/counters.toml" in unit
    assert '"/opt/panprivacy/bin/panprivacy", "serve"' in container
    assert "LimitCORE=0" in unit
