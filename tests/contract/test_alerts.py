"""The alerts that we ship, and those of the documentation, judged by Prometheus' own tool."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from testkit.checkpointer_series import BAD, GOOD, series_of
from testkit.fleet_campaigns import Shown, campaign_of
from testkit.promtool import firing, promtool
from upgrader.fleet.reports.metrics import fleet_metrics

pytestmark = pytest.mark.contract
ROOT = Path(__file__).parents[2]
RULES = ROOT / "charts/pod-checkpointer/files/rules.yaml"


def test_rules_are_valid() -> None:
    """Every expression and every template of our alerts can be read."""
    assert "SUCCESS: 11 rules found" in promtool("check", "rules", RULES)


def test_nothing_fires_on_a_good_day(tmp_path: Path) -> None:
    """A healthy pod-checkpointer, by what its own code exports, wakes nobody."""
    assert firing(tmp_path, series_of(GOOD), RULES) == set()


def test_a_bad_day(tmp_path: Path) -> None:
    """Each thing that can be wrong, by what its own code exports, fires its alert."""
    series = series_of(BAD)
    for name in ("failures_total", "invariant_violations_total"):
        key = next(key for key in series if f"_{name}{{" in key)
        del series[key]
    assert firing(tmp_path, series, RULES) == {
        "CheckpointDamaged",
        "CheckpointFailedAsStandby",
        "CheckpointLost",
        "PodCheckpointerRuntimeUnknown",
        "PodCheckpointerStuck",
        "PodWithoutCheckpoint",
        "StandbyPodActive",
        "StandbyPodDown",
    }


def test_no_checkpointer_at_all(tmp_path: Path) -> None:
    """Where nothing is scraped, that is the alert."""
    assert firing(tmp_path, {}, RULES) == {"PodCheckpointerAbsent"}


def test_counters(tmp_path: Path) -> None:
    """Passes that go on failing, and a held-back change, are told of by how the counters grow."""
    prefix, labels = "upgrader_checkpointer_", '{instance="10.0.0.1:10280"}'
    rules = yaml.safe_load(RULES.read_text())
    test = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": f"{prefix}failures_total{labels}", "values": "0+1x40"},
                    {"series": f"{prefix}invariant_violations_total{labels}", "values": "0x20 1x20"},
                ],
                "promql_expr_test": [
                    {
                        "expr": f"count({rule['expr']})",
                        "eval_time": "30m",
                        "exp_samples": [{"labels": "{}", "value": 1}],
                    }
                    for group in rules["groups"]
                    for rule in group["rules"]
                    if rule["alert"] in ("PodCheckpointerFails", "PodCheckpointerInvariantViolated")
                ],
            }
        ],
    }
    (tmp_path / "test.yaml").write_text(json.dumps(test))
    assert "SUCCESS" in promtool("test", "rules", tmp_path / "test.yaml")


def documented() -> list[dict[str, str]]:
    """The alerts that docs/observability.md offers to copy."""
    text = (ROOT / "docs/observability.md").read_text()
    blocks = re.findall(r"```yaml\n(- alert:.*?)```", text, re.DOTALL)
    return [rule for block in blocks for rule in yaml.safe_load(block)]


def test_alerts_of_the_documentation(tmp_path: Path) -> None:
    """What docs/observability.md offers to copy can be read."""
    rules = documented()
    assert {"UpgradeNeedsAPerson", "UpgradeIsBlocked", "FleetIsNotRun"} <= {rule["alert"] for rule in rules}
    (tmp_path / "rules.yaml").write_text(json.dumps({"groups": [{"name": "runs", "rules": rules}]}))
    assert f"SUCCESS: {len(rules)} rules found" in promtool("check", "rules", tmp_path / "rules.yaml")


def fleet_series(shown: Shown) -> dict[str, float]:
    """What a campaign's own code exports, by the names that promtool takes."""
    families = fleet_metrics(shown.status, "all", datetime.fromtimestamp(0, UTC))
    series = {}
    for family in families:
        for sample in family.samples:
            labels = ",".join(f"{name}={json.dumps(value)}" for name, value in sample.labels.items())
            series[f"{family.name}{{{labels}}}"] = sample.value
    return series


def test_alerts_of_a_fleet(tmp_path: Path) -> None:
    """By what a campaign's own code exports: one that goes on but was last looked after half an hour ago isn't run; a
    pause of an hour has not lasted yet; a broken cluster is told of; a person is asked for once nothing goes on.
    """
    rules = [rule for rule in documented() if rule["alert"].startswith("Fleet")]
    assert len(rules) == 5
    (tmp_path / "rules.yaml").write_text(json.dumps({"groups": [{"name": "fleet", "rules": rules}]}))
    good = fleet_series(campaign_of(20))
    assert firing(tmp_path, good, tmp_path / "rules.yaml") == {"FleetIsNotRun"}
    looked = {**good, 'upgrader_fleet_look_timestamp_seconds{fleet="all"}': 1800.0}
    assert firing(tmp_path, looked, tmp_path / "rules.yaml") == set()
    bad = {
        **good,
        'upgrader_fleet_state{fleet="all",state="goes-on"}': 0.0,
        'upgrader_fleet_state{fleet="all",state="needs-a-person"}': 1.0,
        'upgrader_fleet_clusters{fleet="all",stage="production",phase="broken"}': 1.0,
        'upgrader_fleet_stopped{fleet="all"}': 1.0,
    }
    assert bad.keys() == good.keys()
    assert firing(tmp_path, bad, tmp_path / "rules.yaml") == {"FleetNeedsAPerson", "FleetClusterIsBroken"}
