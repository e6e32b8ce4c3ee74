"""Copies of manifests in the kubelet's folder: it runs them too, whatever their names end with."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from testkit.fakes.hosts import FakeHosts
from tests.unit.adopt.kubeadm_pods import kubeadm_pod
from upgrader.adopt.facts import ADOPTED, MANIFESTS
from upgrader.adopt.other_manifests import _LIST, check_other_manifests
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult

_HOST = Host("controller-1", "10.0.0.1")
_API = kubeadm_pod("kube-apiserver").manifest
_OWN = {"kube-apiserver.yaml": _API, "kube-scheduler.yaml": kubeadm_pod("kube-scheduler").manifest}
_VIP = b"kind: Pod\nmetadata: {name: kube-vip, namespace: kube-system}\nspec: {}\n"


def _with(files: Mapping[str, bytes]) -> FakeHosts:
    """A controller whose kubelet's folder has these files."""
    hosts = FakeHosts()
    hosts.files = {(_HOST.name, f"{MANIFESTS}/{name}"): content for name, content in files.items()}
    hosts.commands["sh"] = CommandResult(0, "".join(f"{MANIFESTS}/{name}\n" for name in sorted(files)), "")
    return hosts


@pytest.mark.parametrize("name", ["kube-apiserver.yaml.bak", "kube-apiserver.yaml~", "backup-2024", "apiserver.yml"])
def test_a_copy_is_refused(name: str) -> None:
    """Once its manifest was moved, kubeadm's kube-apiserver would run on, from the copy."""
    with pytest.raises(
        Blocked, match=f"controller-1: {MANIFESTS}/{name} is a second manifest of kube-apiserver"
    ) as caught:
        check_other_manifests(_with({**_OWN, name: _API}), [_HOST])
    assert "nothing was changed" in caught.value.message
    assert f"mv {shlex.quote(f'{MANIFESTS}/{name}')} /etc/kubernetes" in caught.value.remedy


@pytest.mark.parametrize("name", ["kube-apiserver.json", "kube-apiserver.manifest", "apiserver.yml"])
def test_the_only_manifest_under_another_name_is_not_to_be_moved_away(name: str) -> None:
    """kops and the first kubeadms named them so: it is what runs, and without it there is no API."""
    hosts = _with({"kube-scheduler.yaml": _OWN["kube-scheduler.yaml"], name: _API})
    with pytest.raises(Blocked, match=f"controller-1: {MANIFESTS}/{name} is the manifest of kube-apiserver") as caught:
        check_other_manifests(hosts, [_HOST])
    assert f"mv {MANIFESTS}/{name} {MANIFESTS}/kube-apiserver.yaml" in caught.value.remedy


def test_a_copy_beside_a_release_is_to_be_moved_away() -> None:
    """kubeadm's own manifest was retired, and the copy would run instead of it."""
    hosts = _with({"kube-apiserver.yaml.bak": _API})
    hosts.files[_HOST.name, f"{ADOPTED}/kube-apiserver.yaml"] = _API
    with pytest.raises(Blocked, match="is a second manifest of kube-apiserver"):
        check_other_manifests(hosts, [_HOST])


def test_a_manifest_that_is_a_symbolic_link_is_refused() -> None:
    """Moved to another folder, a relative one leads nowhere: an undo would find no manifest to restore."""
    hosts = _with(_OWN)
    listed = f"{MANIFESTS}/kube-apiserver.yaml -> /srv/manifests/api.yaml\n{MANIFESTS}/kube-scheduler.yaml\n"
    hosts.commands["sh"] = CommandResult(0, listed, "")
    with pytest.raises(Blocked, match=r"kube-apiserver\.yaml is a symbolic link to /srv/manifests/api\.yaml") as caught:
        check_other_manifests(hosts, [_HOST])
    assert "cp /srv/manifests/api.yaml /etc/kubernetes/kube-apiserver.yaml && mv" in caught.value.remedy
    hosts.commands["sh"] = CommandResult(0, f"{MANIFESTS}/kube-vip.yaml -> /srv/kube-vip.yaml\n", "")
    check_other_manifests(hosts, [_HOST])


def test_the_command_that_lists_manifests(tmp_path: Path) -> None:
    """Run by a shell: files and links to files, with where these lead, but neither folders nor dangling links."""
    for name in ("a.yaml", "with space"):
        (tmp_path / name).write_text("x")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("a.yaml")
    (tmp_path / "nowhere").symlink_to("missing")
    script = _LIST.replace(MANIFESTS, str(tmp_path))
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    listed = [f"{tmp_path}/{name}" for name in ("a.yaml", f"link -> {tmp_path}/a.yaml", "with space")]
    assert done.stdout.splitlines() == listed


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"etcd.yaml": _VIP.replace(b"kube-vip", b"etcd"), "kube-vip.yaml": _VIP},
        {
            "notes.txt": b"a: [",
            "empty": b"",
            "list.json": b"[1]",
            "binary": b"\xff\xfe",
            "odd": b"metadata: kube-apiserver",
        },
        {"other.yaml": _API.replace(b"namespace: kube-system", b"namespace: edge")},
    ],
    ids=["none", "other pods", "no pods", "another namespace"],
)
def test_what_else_may_be_there(files: dict[str, bytes]) -> None:
    """Each component's own manifest, other programs', and what the kubelet can't read either."""
    check_other_manifests(_with({**_OWN, **files}), [_HOST])
