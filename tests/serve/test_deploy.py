"""Files of `deploy/` name only metrics that the service has, and say what the documentation promises."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from service_for_tests import client_of, settings_for

DEPLOY = Path(__file__).parents[2] / "deploy"


def _known(folder: Path) -> set[str]:
    settings = settings_for(folder, {"limits": {"memory": "64 GiB"}})
    with client_of(settings) as client:
        lines = client.get("/metrics").text.splitlines()
    return {line.split()[2] for line in lines if line.startswith("# TYPE")}


def test_alerts_and_dashboard_use_metrics_that_there_are(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    rules = [each for group in yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"] for each in group["rules"]]
    dashboard: Any = json.loads((DEPLOY / "grafana.json").read_text())
    used = [rule["expr"] for rule in rules]
    used += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    names = {name for each in used for name in re.findall(r"panprivacy_\w+", each)}
    assert names <= _known(tmp_path)
    assert len(names) > 8
    assert all(set(rule) >= {"alert", "expr", "labels", "annotations"} for rule in rules)
    assert len({rule["alert"] for rule in rules}) == len(rules)
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


@pytest.mark.parametrize("line", ["Type=notify", "WatchdogSec=60", "MemoryMax=4G", "MemorySwapMax=0", "LimitCORE=0"])
def test_the_unit_of_systemd_limits_and_watches_the_service(line: str) -> None:
    assert line in (DEPLOY / "panprivacy.service").read_text().splitlines()


def test_a_broker_that_is_down_does_not_keep_the_unit_from_starting() -> None:
    run = re.findall(r"(?m)^Exec.*", (DEPLOY / "panprivacy.service").read_text())
    assert len(run) == 2
    assert not any("--check" in line for line in run)


@pytest.mark.parametrize("name", ["nginx.conf", "Caddyfile"])
def test_samples_of_proxies_say_what_the_file_of_the_service_needs(name: str) -> None:
    text = (DEPLOY / name).read_text()
    assert 'proxies = ["127.0.0.1"]' in text
    assert 'hosts = ["counts.example.org"]' in text
