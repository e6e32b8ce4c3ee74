"""The alerts that we ship, and those of the documentation, judged by Prometheus' own tool."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from testkit.checkpointer_series import BAD, GOOD, series_of
from testkit.promtool import firing, promtool

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


def test_alerts_of_the_documentation(tmp_path: Path) -> None:
    """What docs/observability.md offers to copy can be read."""
    text = (ROOT / "docs/observability.md").read_text()
    rules = [
        rule for block in re.findall(r"```yaml\n(- alert:.*?)```", text, re.DOTALL) for rule in yaml.safe_load(block)
    ]
    assert {"UpgradeNeedsAPerson", "UpgradeIsBlocked"} <= {rule["alert"] for rule in rules}
    (tmp_path / "rules.yaml").write_text(json.dumps({"groups": [{"name": "runs", "rules": rules}]}))
    assert f"SUCCESS: {len(rules)} rules found" in promtool("check", "rules", tmp_path / "rules.yaml")
