"""Which Helm processes of this machine work on a release."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from upgrader.adapters.helm_processes import helm_at_work
from upgrader.config.kubeconfig import ClusterAddress

OURS = ClusterAddress("https://ours:6443", b"ours")

UPGRADE = "/usr/bin/helm upgrade app chart --install --namespace kube-system --kubeconfig /c/kubeconfig"


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (UPGRADE, 42),
        ("helm rollback app 3 --namespace=kube-system", 42),
        ("helm history app --namespace kube-system", 0),
        ("helm upgrade app chart --namespace other", 0),
        ("helm upgrade other chart --namespace kube-system", 0),
        ("vi helm upgrade app --namespace kube-system", 0),
        ("", 0),
    ],
)
def test_helm_is_found_by_its_command_line(tmp_path: Path, command: str, found: int) -> None:
    """Only a Helm that changes this release counts."""
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "cmdline").write_text("\0".join([*command.split(), ""]))
    (tmp_path / "43").mkdir()  # it has just ended
    assert helm_at_work("app", "kube-system", OURS, tmp_path) == found


@pytest.mark.parametrize(
    ("server", "authority", "option", "found"),
    [
        ("https://other:6443", b"other", "--kubeconfig {}", 0),
        ("https://other:6443", b"other", "--kubeconfig={}", 0),
        ("https://other:6443", b"ours", "--kubeconfig {}", 42),  # the same cluster at another address
        ("https://ours:6443", b"other", "--kubeconfig {}", 42),  # its CA may just be replaced
        ("https://other:6443", b"", "--kubeconfig {}", 42),  # a public CA says nothing
        ("https://other:6443", b"other", "--kubeconfig {} --kube-context missing", 42),
        ("https://other:6443", b"other", "--kubeconfig {}x", 42),  # it can't be read
        ("https://other:6443", b"other", "", 42),  # KUBECONFIG, or the default, of whoever started it
    ],
)
def test_helm_of_another_cluster_is_none_of_ours(
    tmp_path: Path, server: str, authority: bytes, option: str, found: int
) -> None:
    """Waves and labs have releases of the same name in many clusters; what isn't certain counts as ours."""
    kubeconfig = tmp_path / "config"
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    content = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it"}}],
        "clusters": [{"name": "it", "cluster": cluster}],
    }
    kubeconfig.write_text(json.dumps(content))
    command = f"helm upgrade app chart --namespace kube-system {option.format(kubeconfig)}"
    (tmp_path / "42").mkdir()
    (tmp_path / "42" / "cmdline").write_text("\0".join([*command.split(), ""]))
    assert helm_at_work("app", "kube-system", OURS, tmp_path) == found
