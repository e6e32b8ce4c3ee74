"""The pod-checkpointer on a node: where Secrets are stored, and its commands for an operator."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from testkit.lab_cluster import OLD, LabCluster, until
from upgrader.ports import Kind

_DEPLOYMENTS, _SECRETS = Kind("apps/v1", "deployments"), Kind("v1", "secrets")
_FOLDER = "/etc/kubernetes/checkpointer/workloads/kube-system.canary"
_MANIFEST = "/etc/kubernetes/manifests/checkpoint-kube-system.canary.json"
_RECORDS = "/var/lib/kubelet/image_manager/pulled"
_USER = 12345
_KUBECTL = ("kubectl", "--kubeconfig", "/etc/kubernetes/admin.conf", "-n", "kube-system")


@pytest.fixture
def canary(cluster: LabCluster) -> Iterator[str]:
    """The Secret's value, of a workload that is checkpointed and reads the Secret."""
    value = secrets.token_hex(16)
    meta = {"name": "canary", "namespace": "kube-system"}
    cluster.kube.apply(
        _SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": {"key": value}}, "kube-system"
    )
    cluster.kube.apply(_DEPLOYMENTS, _deployment(meta, cluster), "kube-system")
    try:
        yield value
    finally:
        cluster.kube.delete(_DEPLOYMENTS, "canary", "kube-system")
        cluster.kube.delete(_SECRETS, "canary", "kube-system")
        until("the pod's end", lambda: not _pod(cluster), timeout_seconds=120)
        # The generations of a removed workload stay until an operator removes them.
        cluster.on_controller("rm", "-rf", _MANIFEST, _FOLDER)
        until("the end of its standby pod", lambda: "canary" not in _containers(cluster), timeout_seconds=120)


def test_a_secret_stays_private_and_an_operator_can_start_the_standby_pod(cluster: LabCluster, canary: str) -> None:
    """Only the pod's user can read the Secret's files, no log or run folder has its value, and `restore` starts the
    standby pod after the workload's own pod is gone.
    """
    until("a generation of the canary", lambda: _rows(cluster, "generations") != [], timeout_seconds=90)
    (row,) = _rows(cluster, "generations")
    assert (row["generation"], row["state"], row["images"], row["active"]) == (1, "intact", "here", False)

    path = f"{_FOLDER}/generations/1/volumes/secret"
    assert cluster.on_controller("stat", "-c", "%a %u", path, f"{path}/key").split() == [
        "700",
        str(_USER),
        "600",
        str(_USER),
    ]
    assert cluster.on_controller("cat", f"{path}/key").strip() == canary

    cluster.on_controller(*_KUBECTL, "scale", "deployment", "canary", "--replicas=0")
    until("no pod of its own", lambda: not _pod(cluster), timeout_seconds=120)
    restored = _checkpointer(cluster, "restore", "canary", "--generation", "1")
    assert "generation 1 is put in place" in restored
    assert "was already in place" in _checkpointer(cluster, "restore", "kube-system/canary")
    until("the standby pod's container", lambda: "canary" in _containers(cluster), timeout_seconds=120)
    (status,) = _rows(cluster, "status")
    assert (status["active"], status["active_generation"]) == (True, 1)

    assert cluster.upgrader("plan", "--to", OLD).exit_code == 0
    assert _places_that_show(cluster, canary) == []


def test_an_image_that_a_static_pod_may_not_use_is_no_checkpoint(cluster: LabCluster, canary: str) -> None:
    """The kubelet lets a static pod use no image that it pulled with a pod's credentials, whatever the pull policy is:
    such a pod is refused with the reason, and is fine as soon as the image was pulled with the node's.
    """
    until("a generation of the canary", lambda: _rows(cluster, "generations") != [], timeout_seconds=90)
    image = _image(cluster)
    secret = {"uid": "u", "namespace": "kube-system", "name": "login", "credentialHash": "x"}
    try:
        _pulled(cluster, image, {"kubernetesSecrets": [secret]})
        until("the canary to be refused", lambda: _reason(cluster) == "ImageNeedsCredentials", timeout_seconds=90)
        for policy in ("IfNotPresent", "Never"):
            assert _refusal(cluster, image, policy) in ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull")
        _pulled(cluster, image, {"nodePodsAccessible": True})
        until("the canary to be kept again", lambda: _reason(cluster) == "Current", timeout_seconds=90)
    finally:
        cluster.on_controller("rm", "-rf", _RECORDS)
        cluster.on_controller("systemctl", "restart", "kubelet")


def _image(cluster: LabCluster) -> str:
    listed = cluster.on_controller("sh", "-c", "ctr -n k8s.io images ls -q | grep /tools:")
    return listed.split()[0]


def _pulled(cluster: LabCluster, image: str, credentials: dict[str, Any]) -> None:
    """Have the kubelet believe that it pulled the image with these."""
    (digest,) = (
        line.split()[2]
        for line in cluster.on_controller("ctr", "-n", "k8s.io", "images", "ls").splitlines()
        if line.split()[0] == image
    )
    found = json.loads(cluster.on_controller("ctr", "-n", "k8s.io", "content", "get", digest))
    if "manifests" in found:
        digest = found["manifests"][0]["digest"]
        found = json.loads(cluster.on_controller("ctr", "-n", "k8s.io", "content", "get", digest))
    identity = found["config"]["digest"]
    record = {
        "kind": "ImagePulledRecord",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "lastUpdatedTime": "2026-01-01T00:00:00Z",
        "imageRef": identity,
        "credentialMapping": {image.rpartition(":")[0]: credentials},
    }
    path = f"{_RECORDS}/sha256-{hashlib.sha256(identity.encode()).hexdigest()}"
    encoded = base64.b64encode(json.dumps(record).encode()).decode()
    cluster.on_controller("sh", "-c", f"mkdir -p {_RECORDS} && echo {encoded} | base64 -d > {path}")
    cluster.on_controller("systemctl", "restart", "kubelet")


def _reason(cluster: LabCluster) -> str:
    """The reason of the checkpointer's condition on the canary's pod."""
    for pod in cluster.kube.list(Kind("v1", "pods"), "kube-system", labels="app=canary"):
        for condition in pod["status"].get("conditions", []):
            if condition["type"] == "checkpointer.upgrader.io/Checkpointed":
                return str(condition.get("reason", ""))
    return ""


def _refusal(cluster: LabCluster, image: str, policy: str) -> str:
    """Why the kubelet doesn't start a static pod of that image."""
    name, path = f"static-{policy.lower()}", f"/etc/kubernetes/manifests/static-{policy.lower()}.json"
    container = {"name": "main", "image": image, "command": ["sleep", "1000"], "imagePullPolicy": policy}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
    encoded = base64.b64encode(json.dumps({**pod, "spec": {"containers": [container]}}).encode()).decode()
    seen: list[str] = []

    def refused() -> bool:
        for found in cluster.kube.list(Kind("v1", "pods"), "default"):
            if found["metadata"]["name"].startswith(name):
                states = [s["state"] for s in found["status"].get("containerStatuses", [])]
                assert not any("running" in state for state in states)
                seen.extend(
                    s["waiting"]["reason"] for s in states if s.get("waiting", {}).get("reason", "")[:3] != "Con"
                )
        return bool(seen)

    cluster.on_controller("sh", "-c", f"echo {encoded} | base64 -d > {path}")
    try:
        until(f"the kubelet's word on a static pod with {policy}", refused, timeout_seconds=120)
    finally:
        cluster.on_controller("rm", "-f", path)
    return seen[0]


def _places_that_show(cluster: LabCluster, value: str) -> list[str]:
    """Files and logs that hold the value: on the node all logs, command lines and environments, here the run
    folders.
    """
    script = (
        "grep -rlF -f /run/canary /var/log/pods /etc/kubernetes/manifests; "
        "journalctl --no-pager -q | grep -qF -f /run/canary && echo journal; "
        "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | grep -aqF -f /run/canary && echo processes; "
        "rm /run/canary"
    )
    # Through a file, so that the search itself leaves no trace; the first value found proves that the search works.
    cluster.on_controller("cp", f"{_FOLDER}/generations/1/volumes/secret/key", "/run/canary")
    assert cluster.on_controller("grep", "-rlF", "-f", "/run/canary", _FOLDER).strip()
    found = cluster.on_controller("sh", "-c", script).split()
    return found + [str(p) for p in cluster.folder.rglob("*") if p.is_file() and value.encode() in p.read_bytes()]


def _deployment(meta: dict[str, str], cluster: LabCluster) -> dict[str, Any]:
    container = {
        "name": "canary",
        "image": _image(cluster),
        "command": ["sleep", "infinity"],
        "securityContext": {"runAsUser": _USER},
        "volumeMounts": [{"name": "secret", "mountPath": "/secret", "readOnly": True}],
    }
    spec = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [{"name": "secret", "secret": {"secretName": "canary"}}],
    }
    template = {
        "metadata": {"labels": {"app": "canary"}, "annotations": {"checkpointer.upgrader.io/checkpoint": "true"}},
        "spec": spec,
    }
    selector = {"matchLabels": {"app": "canary"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta,
        "spec": {"selector": selector, "template": template},
    }


def _pod(cluster: LabCluster) -> bool:
    return bool(cluster.kube.list(Kind("v1", "pods"), "kube-system", labels="app=canary"))


def _rows(cluster: LabCluster, command: str) -> list[dict[str, Any]]:
    """The canary's rows of `status` or `generations`."""
    rows: list[dict[str, Any]] = json.loads(_checkpointer(cluster, command, "--json"))
    return [row for row in rows if row["workload"] == "kube-system/canary"]


def _checkpointer(cluster: LabCluster, *arguments: str) -> str:
    """Run a command of the pod-checkpointer in its container on the node, as an operator does without an API."""
    listed = cluster.on_controller("ctr", "-n", "k8s.io", "containers", "ls")
    running = cluster.on_controller("ctr", "-n", "k8s.io", "tasks", "ls", "-q").split()
    container = next(c.split()[0] for c in listed.splitlines() if "/pod-checkpointer:" in c and c.split()[0] in running)
    identity = f"test-{secrets.token_hex(4)}"
    command = ("ctr", "-n", "k8s.io", "tasks", "exec", "--exec-id", identity, container, "python3", "-m")
    return cluster.on_controller(*command, "upgrader.in_cluster.checkpointer", *arguments)


def _containers(cluster: LabCluster) -> list[str]:
    """Names of the running containers on the node; the canary's and its standby pod's are equal."""
    found = cluster.on_controller(
        "sh", "-c", "for t in $(ctr -n k8s.io tasks ls -q); do ctr -n k8s.io containers info $t; done"
    )
    return [line.split('"')[3] for line in found.splitlines() if '"io.kubernetes.container.name":' in line]
