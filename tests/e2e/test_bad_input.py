"""Wrong input: one clear message, the right exit code, and nothing is changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.command import Ended, upgrader
from testkit.lab_cluster import OLD, LabCluster

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: one, cluster: {server: "https://192.0.2.1:6443"}}]
users: [{name: admin, user: {}}]
contexts: [{name: admin@one, context: {cluster: one, user: admin}}]
current-context: admin@one
"""
HOSTS = "controllers: {hosts: {controller-1: {ansible_host: 192.0.2.11}}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A valid cluster folder for a cluster that doesn't exist."""
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    (tmp_path / "hosts.yml").write_text(HOSTS)
    return tmp_path


def refused(folder: Path, *arguments: str, code: int = 2) -> Ended:
    """Run `upgrader run`, which must exit with this code, without a traceback and without a run folder."""
    ended = upgrader("-C", folder, "run", "--yes", *arguments, timeout_seconds=60)
    assert ended.exit_code == code, ended
    assert "Traceback" not in ended.stderr, ended
    assert list((folder / "runs").glob("*/")) == []
    return ended


def test_no_settings(folder: Path) -> None:
    """A folder without upgrader.yaml is named, with a remedy."""
    (folder / "upgrader.yaml").unlink()
    assert "upgrader.yaml" in refused(folder).stderr


def test_unknown_key(folder: Path) -> None:
    """An unknown key is reported with file, line and the nearest right key."""
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\npolicy:\n  onFailur: stop\n")
    output = refused(folder).stderr
    assert "upgrader.yaml:3" in output
    assert "onFailur" in output
    assert "onFailure" in output


def test_not_yaml(folder: Path) -> None:
    """A file that is not YAML is reported with file and line."""
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\npolicy: {onFailure: [\n")
    assert "upgrader.yaml:" in refused(folder).stderr


def test_inventory_without_controllers(folder: Path) -> None:
    """An inventory without the group of controllers is reported by file and group."""
    (folder / "hosts.yml").write_text("workers: {hosts: {worker-1: {ansible_host: 192.0.2.31}}}\n")
    output = refused(folder).stderr
    assert "hosts.yml" in output
    assert "controllers" in output


def test_wrong_context(folder: Path) -> None:
    """A kubeconfig whose current context is not that of upgrader.yaml is refused before any connection."""
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\ncluster: {context: admin@other}\n")
    output = refused(folder).stderr
    assert "admin@other" in output
    assert "admin@one" in output


def test_not_a_version(folder: Path) -> None:
    """A target that is not a version is refused with the right format."""
    assert "v1.37.1" in refused(folder, "--to", "latest").stderr


def test_kubernetes_api_that_does_not_answer(folder: Path) -> None:
    """An unreachable cluster inhibits the run, with its address in the message."""
    (folder / "kubeconfig").write_text(KUBECONFIG.replace("192.0.2.1:6443", "127.0.0.1:1"))
    assert "127.0.0.1" in refused(folder, code=5).stderr


@pytest.mark.parametrize("target", ["v1.35.4", "v1.38.0"], ids=["downgrade", "two minors"])
def test_versions_that_can_not_be_reached(cluster: LabCluster, target: str) -> None:
    """A downgrade and a jump of two minor versions are inhibited, both versions are named, nothing changes."""
    assert_refused_untouched(cluster, "--to", target, words=[target, "v1.36.3"])


def test_unreachable_host(cluster: LabCluster) -> None:
    """A controller that SSH can't reach inhibits the run, by name; nothing changes."""
    hosts = cluster.folder / "hosts.yml"
    address = cluster.on_controller("hostname", "-I").split()[0]
    hosts.write_text(hosts.read_text().replace(address, "127.0.0.1"))
    assert_refused_untouched(cluster, "--to", "v1.37.1", words=["controller-1"])


def assert_refused_untouched(cluster: LabCluster, *arguments: str, words: list[str]) -> None:
    """Assert that `run` ends with 3 (2 for a wrong command line), with all words in its message and nothing changed."""
    releases, runs = cluster.releases(), cluster.runs()
    ended = cluster.upgrader("run", "--yes", *arguments)
    assert ended.exit_code in (2, 3), ended
    output = ended.stdout + ended.stderr
    assert [word for word in words if word not in output] == [], ended
    assert cluster.releases() == releases
    assert cluster.runs() == runs


def test_flag_that_kube_apiserver_does_not_know(cluster: LabCluster) -> None:
    """It is told before anything changes, with its name; nobody has to watch a new instance crash for that."""
    before = cluster.manifests()
    cluster.change_values("kube-apiserver", {"extraArgs": {"no-such-flag": "1"}})
    ended = cluster.run(OLD)
    assert ended.exit_code == 3 and "--no-such-flag" in ended.stdout + ended.stderr, ended
    assert cluster.manifests() == before
