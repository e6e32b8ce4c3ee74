"""Prometheus' own tool for rules: checks their syntax, and which alerts fire."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from testkit.debian_programs import debian_program
from testkit.waiting import stretched

__all__ = ["firing", "promtool"]


def promtool(*arguments: str | Path) -> str:
    """The output of `promtool`; fails with it if it reports an error."""
    command = [str(debian_program("prometheus", "promtool")), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=stretched(60), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def firing(folder: Path, series: Mapping[str, float], rules: Path) -> set[str]:
    """The alerts that fire after these series have had these values for half an hour, by promtool's own evaluation."""
    names = [rule["alert"] for group in yaml.safe_load(rules.read_text())["groups"] for rule in group["rules"]]
    inputs = [{"series": name, "values": f"{value:g}x40"} for name, value in series.items()]
    found = set()
    for name in names:
        # A test without expected alerts passes where the alert does not fire.
        test: dict[str, Any] = {
            "rule_files": [str(rules)],
            "evaluation_interval": "1m",
            "tests": [
                {
                    "interval": "1m",
                    "input_series": inputs,
                    "alert_rule_test": [{"eval_time": "30m", "alertname": name, "exp_alerts": []}],
                }
            ],
        }
        (folder / "test.yaml").write_text(json.dumps(test))
        command = [str(debian_program("prometheus", "promtool")), "test", "rules", str(folder / "test.yaml")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=stretched(60), check=False)
        output = done.stdout + done.stderr
        if done.returncode:
            assert f"alertname: {name}" in output, output
            assert "error" not in output.lower(), output
            found.add(name)
    return found
