"""The first command of a new user, in a folder that isn't a cluster's yet."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from upgrader.cli.main import cli
from upgrader.config.load import load_settings
from upgrader.errors import ConfigError


@pytest.fixture(autouse=True)
def _no_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBECONFIG", "UPGRADER_KUBECONFIG", "UPGRADER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("command", ["plan", "run", "check", "resume"])
def test_empty_folder(tmp_path: Path, command: str) -> None:
    """All that is missing is named at once, and the command that writes it."""
    error = CliRunner().invoke(cli, ["-C", str(tmp_path), command]).exception
    assert isinstance(error, ConfigError)
    assert all(name in error.message for name in ("upgrader.yaml: no such file", "hosts.yml", "kubeconfig"))
    assert f"`upgrader -C {tmp_path} init`" in error.remedy


def test_folder_with_a_typing_error(tmp_path: Path) -> None:
    """The cluster's folder beside it that has nearly the name is asked for; any other one isn't."""
    (tmp_path / "nova").mkdir()
    (tmp_path / "nova/upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n")
    with pytest.raises(ConfigError) as caught:
        load_settings(tmp_path / "nvoa", {})
    assert caught.value.remedy.startswith(f"Did you mean `-C {tmp_path / 'nova'}`? If not: ")
    with pytest.raises(ConfigError) as caught:
        load_settings(tmp_path / "berlin", {})
    assert "Did you mean" not in caught.value.remedy


def test_only_what_is_missing(tmp_path: Path) -> None:
    """What is there, or named elsewhere, isn't asked for."""
    (tmp_path / "hosts.yml").write_text("")
    with pytest.raises(ConfigError) as caught:
        load_settings(tmp_path, {"UPGRADER_KUBECONFIG": "/k"})
    assert "missing, too" not in caught.value.message and "hosts.yml" not in caught.value.message


def test_folder_with_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inventory and kubeconfig are missed together; of the latter alone, its reader says which would count."""
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n")
    error = CliRunner().invoke(cli, ["-C", str(tmp_path), "plan"]).exception
    assert isinstance(error, ConfigError) and "hosts.yml" in error.message and "kubeconfig" in error.message
    (tmp_path / "hosts.yml").write_text("controllers: {hosts: {a: }}\n")
    error = CliRunner().invoke(cli, ["-C", str(tmp_path), "plan"]).exception
    assert isinstance(error, ConfigError) and "hosts.yml" not in error.message
    assert "cluster.kubeconfig" in error.remedy


def test_in_the_folder_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without -C, the remedy has none either."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        load_settings(tmp_path, {})
    assert "`upgrader init`" in caught.value.remedy
