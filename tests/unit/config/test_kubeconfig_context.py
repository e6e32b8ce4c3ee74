"""A kubeconfig that points at another cluster stops everything."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from upgrader.config.kubeconfig_context import check_context, find_context, server_addresses
from upgrader.errors import ConfigError, UsageError
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.model.settings import Settings
from upgrader.model.version import KubernetesVersion


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
    """The message names both contexts, and the remedy is the command that repairs it, if there is one."""
    with pytest.raises(UsageError, match="points at context 'demo', but this cluster's is 'production'") as caught:
        check_context(kubeconfig, "production")
    assert caught.value.remedy.startswith(
        "Correct `cluster.context` in upgrader.yaml (contexts of the kubeconfig: none)"
    )
    with kubeconfig.open("a") as file:
        file.write("contexts: [{name: demo, context: {}}, {name: production, context: {}}]\n")
    with pytest.raises(UsageError) as caught:
        check_context(kubeconfig, "production")
    assert "kubectl config use-context production" in caught.value.remedy
    with pytest.raises(UsageError) as caught:
        check_context(kubeconfig, "prod")
    assert (
        "Correct `cluster.context` in upgrader.yaml (contexts of the kubeconfig: demo, production)"
        in caught.value.remedy
    )


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


def test_secrets_of_every_user_are_masked(kubeconfig: Path) -> None:
    """Also of one that no context of ours names: whoever prints the file prints all of them."""
    token = "kqzwvbnmtrlpds"
    with kubeconfig.open("a") as file:
        file.write(f"users: [{{name: robot, user: {{token: {token}}}}}]\n")
    check_context(kubeconfig, "")
    assert KNOWN.mask(f"robot has {token}") == "robot has [masked]"


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


def entries(contexts: Sequence[str], clusters: Sequence[str], users: Sequence[str], current: str = "") -> str:
    """A kubeconfig with these; each context has the cluster and the user of its name."""
    document: dict[str, Any] = {
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in contexts],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}"}} for name in clusters],
        "users": [{"name": name, "user": {}} for name in users],
        "current-context": current,
    }
    return yaml.safe_dump(document)


def settings(folder: Path, context: str = "", *, chosen: bool = False, named: bool = False) -> Settings:
    """Those of a folder whose kubeconfig has the usual name."""
    return Settings(
        folder,
        KubernetesVersion(1, 37, 1),
        folder / "kubeconfig",
        folder / "hosts.yml",
        (),
        context=context,
        context_chosen=chosen,
        kubeconfig_named=named,
    )


def test_chosen_context_need_not_be_the_current_one(tmp_path: Path) -> None:
    """As with kubectl's option; nothing is written. One that isn't there is refused, with those that are."""
    path = tmp_path / "kubeconfig"
    path.write_text(entries(["demo", "prod"], ["demo", "prod"], ["demo", "prod"], "demo"))
    assert find_context(settings(tmp_path, "prod", chosen=True), {}) == (path, "prod")
    assert find_context(settings(tmp_path), {}) == (path, "demo")
    with pytest.raises(UsageError, match="points at context 'demo'"):
        find_context(settings(tmp_path, "prod"), {})
    with pytest.raises(UsageError, match="has no context 'test'") as caught:
        find_context(settings(tmp_path, "test", chosen=True), {})
    assert "demo, prod" in caught.value.remedy


def test_the_folders_own_kubeconfig_comes_before_kubectls(tmp_path: Path) -> None:
    """A shell's variable takes a folder that has one to no other cluster; nor does it where the file is named."""
    (tmp_path / "mine").write_text(entries(["mine"], ["mine"], ["mine"], "mine"))
    environ = {"KUBECONFIG": str(tmp_path / "mine")}
    with pytest.raises(ConfigError, match="kubeconfig: no such file"):
        find_context(settings(tmp_path, "mine", named=True), environ)
    (tmp_path / "kubeconfig").write_text(entries(["demo"], ["demo"], ["demo"], "demo"))
    assert find_context(settings(tmp_path), environ) == (tmp_path / "kubeconfig", "demo")


def test_several_files_of_kubectl(tmp_path: Path) -> None:
    """The one with the named context is used, current or not; missing files are passed over, as kubectl does."""
    (tmp_path / "one").write_text(entries(["demo"], ["demo"], ["demo"], "demo"))
    (tmp_path / "two").write_text(entries(["prod"], ["prod"], ["prod"]))
    environ = {"KUBECONFIG": os.pathsep.join(str(tmp_path / name) for name in ("gone", "one", "two"))}
    assert find_context(settings(tmp_path, "prod"), environ) == (tmp_path / "two", "prod")
    with pytest.raises(UsageError, match="KUBECONFIG may point at any cluster") as caught:
        find_context(settings(tmp_path), environ)
    assert "cluster.context" in caught.value.remedy
    with pytest.raises(UsageError, match="there is no context 'test' in") as caught:
        find_context(settings(tmp_path, "test"), environ)
    assert "demo, prod" in caught.value.remedy


@pytest.mark.parametrize("kind", ["cluster", "user"])
def test_context_whose_parts_are_in_another_file(tmp_path: Path, kind: str) -> None:
    """kubectl would take the first entry of the name: another server, or another user, is never used by mistake."""
    names: dict[str, Sequence[str]] = {"cluster": [], "user": [], kind: ["prod"]}
    (tmp_path / "one").write_text(entries([], names["cluster"], names["user"]))
    (tmp_path / "two").write_text(entries(["prod"], ["prod"], ["prod"]))
    environ = {"KUBECONFIG": f"{tmp_path / 'one'}{os.pathsep}{tmp_path / 'two'}"}
    with pytest.raises(UsageError, match=f"its {kind} 'prod' is in .*one") as caught:
        find_context(settings(tmp_path, "prod"), environ)
    assert "kubectl config view --minify --flatten --context prod" in caught.value.remedy


@pytest.mark.parametrize("text", ["contexts: 7", "contexts: [7, {}]", "{}"])
def test_file_that_is_no_kubeconfig(tmp_path: Path, text: str) -> None:
    """It has no context, and is no traceback."""
    (tmp_path / "odd").write_text(text + "\nkind: Config\n" if text != "{}" else "kind: Config\n")
    with pytest.raises(UsageError, match="there is no context"):
        find_context(settings(tmp_path, "prod"), {"KUBECONFIG": str(tmp_path / "odd")})
