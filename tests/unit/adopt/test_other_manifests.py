"""Copies of manifests in the kubelet's folder: it runs them too, whatever their names end with."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

import pytest

from testkit.fakes.hosts import FakeHosts
from tests.unit.adopt.kubeadm_pods import kubeadm_pod
from upgrader.adopt.facts import MANIFESTS
from upgrader.adopt.other_manifests import check_other_manifests
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
