"""A kubeconfig that points at another cluster stops everything."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from upgrader.config.kubeconfig_context import check_context, server_addresses
from upgrader.errors import ConfigError, UsageError


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """A kubeconfig whose current context is `demo`."""
    path = tmp_path / "kubeconfig"
    path.write_text("apiVersion: v1\nkind: Config\ncurrent-context: demo\n")
    return path


@pytest.mark.parametrize("wanted", ["", "demo"])
def test_the_current_context_is_taken(kubeconfig: Path, wanted: str) -> None:
    """With no context demanded, or the same one, the kubeconfig's current one is the cluster's."""
    assert check_context(kubeconfig, wanted) == "demo"


def test_another_context_is_refused_with_both_names(kubeconfig: Path) -> None:
    """The message names both contexts, and the remedy is the command that repairs it."""
    with pytest.raises(UsageError, match="points at context 'demo', but this cluster's is 'production'") as caught:
        check_context(kubeconfig, "production")
    assert "kubectl config use-context production" in caught.value.remedy


def test_a_missing_kubeconfig_is_refused(tmp_path: Path) -> None:
    """The message names the kubeconfig and the key that says where it is."""
    with pytest.raises(ConfigError, match="kubeconfig: no such file") as caught:
        check_context(tmp_path / "kubeconfig", "")
    assert "cluster.kubeconfig" in caught.value.remedy


def test_a_kubeconfig_without_current_context_is_refused(kubeconfig: Path) -> None:
    """No current context means that kubectl and Helm would talk to nobody, or to localhost."""
    kubeconfig.write_text("apiVersion: v1\n")
    with pytest.raises(ConfigError, match="no current context"):
        check_context(kubeconfig, "")


def test_the_servers_addresses_are_those_of_the_context(tmp_path: Path) -> None:
    """Other contexts' servers don't count; an address is its own, and what can't be resolved is left as a name."""
    path = tmp_path / "kubeconfig"
    clusters = {"demo": "https://192.0.2.9:6443", "other": "https://192.0.2.1:6443", "name": "https://api.invalid"}
    document = {
        "contexts": [{"name": name, "context": {"cluster": name}} for name in clusters],
        "clusters": [{"name": name, "cluster": {"server": server}} for name, server in clusters.items()],
    }
    path.write_text(yaml.safe_dump(document))
    assert server_addresses(path, "demo") == ("192.0.2.9",)
    assert server_addresses(path, "missing") == ()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("socket.getaddrinfo", _nobody_knows)
        assert server_addresses(path, "name") == ("api.invalid",)


def _nobody_knows(*_: object) -> None:
    raise OSError("Name or service not known")
