"""`upgrader config show`: what applies, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from upgrader.cli.main import cli
from upgrader.config.effective import effective_settings
from upgrader.errors import ConfigError
from upgrader.model.settings import BUILT_IN_CHARTS

YAML = """\
kubernetesVersion: v1.37.1
through: [v1.36.3]
gates:
  deadline: 5m
  unhealthyWorkers: 5%
checks:
  severities: {webhooks.slow: error}
pipeline:
  - release: kube-apiserver
  - playbook: reboot.yml
    gates:
      - daemonset: kube-system/cilium
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cluster's folder."""
    (tmp_path / "upgrader.yaml").write_text(YAML)
    (tmp_path / "reboot.yml").write_text("[]\n")
    return tmp_path


def found(folder: Path, **environ: str) -> dict[str, tuple[object, str]]:
    """Value and source of each key; of a source only the end."""
    return {each.key: (each.value, each.source.rpartition("/")[2]) for each in effective_settings(folder, environ)}


def test_where_a_setting_comes_from(folder: Path) -> None:
    """What the file has is as it was written there, with its line; the rest are defaults, written in the same way."""
    settings = found(folder)
    assert settings["kubernetesVersion"] == ("v1.37.1", "upgrader.yaml:1")
    assert settings["through[0]"] == ("v1.36.3", "upgrader.yaml:2")
    assert settings["gates.deadline"] == ("5m", "upgrader.yaml:4")
    assert settings["gates.unhealthyWorkers"] == ("5%", "upgrader.yaml:5")
    assert settings["checks.severities.webhooks.slow"] == ("error", "upgrader.yaml:7")
    assert settings["pipeline[1].gates[0].daemonset"] == ("kube-system/cilium", "upgrader.yaml:12")
    assert settings["gates.interval"] == ("1s", "default") and settings["policy.keepRuns"] == (20, "default")
    assert settings["policy.bake"] == (None, "default") and settings["cluster.kubeconfig"] == ("kubeconfig", "default")
    assert "pipeline[0].namespace" not in settings, "of a step, only what it says"


def test_default_pipeline(folder: Path) -> None:
    """Without one, it is that of the built-in charts."""
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n")
    settings = found(folder)
    assert [settings[f"pipeline[{index}].release"] for index in range(3)] == [
        (each, "default") for each in BUILT_IN_CHARTS
    ]


def test_environment_comes_before_the_file(folder: Path) -> None:
    """The variables, which the options set as well; and kubectl's, where nobody names a kubeconfig."""
    settings = found(folder, UPGRADER_CONTEXT="prod", UPGRADER_KUBECONFIG="/k")
    assert settings["cluster.context"] == ("prod", "UPGRADER_CONTEXT, or the option")
    assert settings["cluster.kubeconfig"] == ("/k", "UPGRADER_KUBECONFIG, or the option")
    assert found(folder, KUBECONFIG="/a:/b")["cluster.kubeconfig"] == ("/a, /b", "KUBECONFIG")
    (folder / "kubeconfig").write_text("")
    assert found(folder, KUBECONFIG="/a")["cluster.kubeconfig"] == ("kubeconfig", "default")


def test_wrong_file(folder: Path) -> None:
    """It is the error of every other command: nothing is shown of what nobody understands."""
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\ngates: {deadlin: 5m}\n")
    with pytest.raises(ConfigError, match="deadlin"):
        effective_settings(folder, {})


def test_command(folder: Path) -> None:
    """As a table and for scripts; what has the form of a secret is masked."""
    text = YAML + "backup:\n  folder: Bearer-token=abcdef0123456789abcdef\n"
    (folder / "upgrader.yaml").write_text(text)
    runner = CliRunner()
    table = runner.invoke(cli, ["-C", str(folder), "config", "show"])
    assert table.exit_code == 0 and "gates.deadline" in table.output and "upgrader.yaml:4" in table.output
    described = runner.invoke(cli, ["-C", str(folder), "config", "show", "-o", "json"])
    assert {"key", "value", "source"} == set(json.loads(described.output)[0])
    listed = runner.invoke(cli, ["-C", str(folder), "config", "show", "-o", "yaml"])
    assert not any("abcdef0123456789" in each.output for each in (table, described, listed))
