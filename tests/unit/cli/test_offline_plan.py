"""A plan for a merge request: no credentials, and nothing of the folder is run."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
from click.testing import CliRunner, Result

from upgrader.cli.main import cli
from upgrader.errors import ConfigError, HelmError, UsageError

PIPELINE = """\
kubernetesVersion: v1.36.3
cluster: {dynamicInventory: true}
pipeline:
  - {release: web, chart: web, namespace: shop}
  - {playbook: checks.yml}
"""
CHART = """\
{{- $found := lookup "v1" "Secret" "kube-system" "x" }}
apiVersion: v1
kind: Secret
metadata: {name: web}
stringData: {password: {{ .Values.password }}, live: "{{ len $found }}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {size: {{ .Values.size | quote }}}
"""


def folder(path: Path, *, size: str = "small") -> Path:
    """A cluster folder whose every program would leave a file `ran`."""
    (path / "web/templates").mkdir(parents=True)
    (path / "values").mkdir()
    (path / "upgrader.yaml").write_text(PIPELINE)
    (path / "checks.yml").write_text("- hosts: all\n")
    (path / "web/Chart.yaml").write_text("{apiVersion: v2, name: web, version: 1.0.0}\n")
    (path / "web/templates/all.yaml").write_text(CHART)
    (path / "values/web.yaml").write_text(f"{{size: {size}, password: s3cret}}\n")
    (path / "hosts.yml").write_text(
        f"controllers: {{hosts: {{a: {{ansible_host: \"{{{{ lookup('pipe', 'touch {path}/ran') }}}}\"}}}}}}\n"
    )
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [f"{path}/ran"]}
    (path / "kubeconfig").write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                "users": [{"name": "u", "user": {"exec": plugin}}],
            }
        )
    )
    return path


def plan(at: Path, *arguments: str) -> Result:
    """The command's result."""
    return CliRunner().invoke(cli, ["-C", str(at), "plan", *arguments])


def test_nothing_of_the_folder_is_run(tmp_path: Path) -> None:
    """Neither lookups nor a kubeconfig's plugin nor a program as an inventory runs, whatever upgrader.yaml allows."""
    at = folder(tmp_path / "c")
    result = plan(at, "--offline")
    assert result.exit_code == 0, result.output
    assert "2 objects of" in result.output and "playbook" in result.output
    assert "1 controller" in result.output and "1 controllers" not in result.output
    assert "what is installed" in result.output and "upgrader check --offline" in result.output
    (at / "hosts.yml").write_text(f"#!/bin/sh\ntouch {at}/ran\n")
    (at / "hosts.yml").chmod(0o700)
    assert isinstance(plan(at, "--offline").exception, ConfigError)
    assert not (at / "ran").exists()


def test_no_kubeconfig_and_no_key_is_needed(tmp_path: Path) -> None:
    """The folder of a merge request has no credentials; a lookup in a chart finds nothing."""
    at = folder(tmp_path / "c")
    (at / "kubeconfig").unlink()
    found = json.loads(plan(at, "--offline", "-o", "json").stdout)
    assert (found["offline"], found["target"], found["hosts"]["controllers"]) == (True, "v1.36.3", ["a"])
    assert [step["name"] for step in found["steps"]] == ["web", "checks"]
    assert len(found["unknown"]) == 3
    schema = json.loads((Path(__file__).parents[3] / "docs/reference/plan.schema.json").read_text())
    assert [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(found)] == []


def test_secrets_are_masked(tmp_path: Path) -> None:
    """What is printed lands in the log of a merge request: Secrets' values don't."""
    at = folder(tmp_path / "c")
    for form in (("--diff",), ("-o", "markdown"), ("-o", "json")):
        result = plan(at, "--offline", *form)
        assert "size: small" in result.output and "s3cret" not in result.output


def test_two_folders_are_compared(tmp_path: Path) -> None:
    """Against the target branch's folder, only what the merge request changes is shown."""
    before, after = folder(tmp_path / "before"), folder(tmp_path / "after", size="large")
    text = (before / "upgrader.yaml").read_text() + "  - {release: old, chart: web}\n"
    (before / "upgrader.yaml").write_text(text)
    (before / "values/old.yaml").write_text("{size: x, password: y}\n")
    result = plan(after, "--offline", "--against", str(before), "--diff", "--to", "v1.37.1")
    assert result.exit_code == 0, result.output
    assert "v1.36.3 → v1.37.1" in result.output
    assert "1 changed" in result.output and "no longer in the pipeline" in result.output
    assert "-  size: small" in result.output and "+  size: large" in result.output
    assert "unchanged" in plan(before, "--offline", "--against", str(before)).output


def test_a_chart_that_does_not_render_is_an_error(tmp_path: Path) -> None:
    """What Helm refuses is Helm's error, before anybody merges it."""
    at = folder(tmp_path / "c")
    (at / "web/templates/all.yaml").write_text('{{ fail "no" }}')
    assert isinstance(plan(at, "--offline").exception, HelmError)


def test_only_folders_are_compared(tmp_path: Path) -> None:
    """A live plan compares with the cluster: the option would have no meaning."""
    at = folder(tmp_path / "c")
    error = plan(at, "--against", str(at)).exception
    assert isinstance(error, UsageError) and error.remedy == "Add --offline."
