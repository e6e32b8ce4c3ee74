"""The UIDs that static pods keep under another kubelet."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from ansible.module_utils import static_pods
from ansible.module_utils.static_pods import identity, live_uids, pinned, running_uid

from tests.unit.playbooks.node_role import module

UID, OTHER = "7cd2c42eb09c0a7b72988425348bb27c", "07d16b031ff70f2a59aede81924c6790"
ETCD = """apiVersion: v1
kind: Pod
metadata:
  annotations:
    name: not-this
  labels:
    component: etcd
  name: etcd
  namespace: kube-system
spec:
  containers:
  - name: etcd
"""


@pytest.mark.parametrize("text", [ETCD, '{"kind": "Pod", "metadata": {"name": "etcd", "namespace": "kube-system"}}'])
def test_a_manifest_says_its_uid(text: str) -> None:
    """Everything else stays; a manifest that has one is known by it."""
    assert identity(text) == ("kube-system", "etcd", "")
    changed = pinned(text, UID)
    assert identity(changed) == ("kube-system", "etcd", UID)
    if text == ETCD:
        left = [line for line in changed.splitlines() if "uid:" not in line and not line.startswith("  # So that")]
        assert left == ETCD.splitlines()


def test_a_uid_is_never_a_number() -> None:
    """One in a million has no letter but an `e`: the kubelet would refuse a number as a pod's UID."""
    uid = "12345678901234567890123456789012"
    assert yaml.safe_load(pinned(ETCD, uid))["metadata"]["uid"] == uid
    assert identity(pinned(ETCD, uid)) == ("kube-system", "etcd", uid)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "metadata: {name: etcd}\n",
        ETCD + "---\n" + ETCD,
        "kind: Pod\nspec: {}\n",
        '{"metadata": []}',
        "metadata:\n  labels:\n    a: b\nspec: {}\n",
    ],
)
def test_other_forms_are_left_alone(text: str) -> None:
    """What can't be changed for certain isn't changed."""
    assert identity(text) is None


def test_the_uid_is_that_of_the_pod_that_runs(tmp_path: Path) -> None:
    """Logs of a pod that has ended don't count; of two that run, neither does."""
    for uid in (UID, OTHER):
        (tmp_path / f"kube-system_etcd-controller-1_{uid}").mkdir()
    (tmp_path / "kube-system_etcd-events-x_not-a-static-pod").mkdir()
    assert running_uid("kube-system", "etcd", str(tmp_path), {UID}) == UID
    assert running_uid("kube-system", "etcd", str(tmp_path), {UID, OTHER}) == ""
    assert running_uid("kube-system", "etcd", str(tmp_path), set()) == ""
    assert running_uid("default", "etcd", str(tmp_path), {UID}) == ""


@pytest.mark.parametrize(
    "path", [f"/kubepods/burstable/pod{UID}/abc", f"/kubepods.slice/kubepods-pod{UID}.slice/cri-a"]
)
def test_pods_that_run_have_processes(tmp_path: Path, path: str) -> None:
    """With either cgroup driver."""
    (tmp_path / "15780").mkdir()
    (tmp_path / "15780/cgroup").write_text(f"5:memory:{path}\n")
    assert live_uids(str(tmp_path)) == {UID}


def test_bytes_that_are_no_text_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kubelet takes a comment in any encoding, and somebody's archive in that folder is none of our business."""
    manifests, logs = tmp_path / "manifests", tmp_path / "logs"
    manifests.mkdir()
    (logs / f"kube-system_etcd-controller-1_{UID}").mkdir(parents=True)
    comment = "# geändert\n".encode("latin-1")
    (manifests / "etcd.yaml").write_bytes(comment + ETCD.encode())
    (manifests / "etcd.yaml.gz").write_bytes(b"\x1f\x8b\x08\x00\xff\xfe")
    monkeypatch.setattr(static_pods, "live_uids", lambda: {UID})
    answer = module("static_pods_kept", folder=str(manifests), logs=str(logs))
    assert answer.get("changed") is True, answer
    kept = (manifests / "etcd.yaml").read_bytes()
    assert kept.startswith(comment) and f"  uid: '{UID}'\n".encode() in kept
    assert (manifests / "etcd.yaml.gz").read_bytes() == b"\x1f\x8b\x08\x00\xff\xfe"
