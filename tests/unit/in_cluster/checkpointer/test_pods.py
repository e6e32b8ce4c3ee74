"""Whose a pod is."""

from __future__ import annotations

import pytest

from tests.unit.in_cluster.checkpointer.builders import API, pod
from upgrader.in_cluster.checkpointer.checkpointer_errors import Refused
from upgrader.in_cluster.checkpointer.static_pods.pods import asks, belongs, predates, workload_of
from upgrader.onhost.node.workload_policy import Workload

TEMPLATE = {"pod-template-hash": "abc"}
REVISION = {"controller-revision-hash": "abc"}


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (("ReplicaSet", "kube-apiserver-abc"), "kube-apiserver"),
        (("DaemonSet", "kube-apiserver"), "kube-apiserver"),
        (("StatefulSet", "etcd"), "etcd"),
    ],
)
def test_a_workload_is_its_owner(owner: tuple[str, str], name: str) -> None:
    """A Deployment is found through its ReplicaSet; a DaemonSet and a Deployment of one name are one workload."""
    assert workload_of(pod(owner=owner)) == Workload("kube-system", name)


@pytest.mark.parametrize("owner", [("Job", "x"), ("ReplicaSet", "bare"), ("Node", "controller-1")])
def test_other_owners_are_refused(owner: tuple[str, str]) -> None:
    """A bare ReplicaSet, a Job or a mirror pod has no identity that lasts."""
    with pytest.raises(Refused, match=owner[1]):
        workload_of(pod(owner=owner))


def test_no_owner_and_long_names_are_refused() -> None:
    """Without an owner there is no identity, and a name that doesn't fit our label can't be distinguished."""
    orphan = pod()
    del orphan["metadata"]["ownerReferences"]
    with pytest.raises(Refused, match="belongs to no"):
        workload_of(orphan)
    with pytest.raises(Refused, match="63"):
        workload_of(pod(owner=("DaemonSet", "a" * 64)))


def test_only_annotated_pods_of_workloads_ask() -> None:
    """Neither mirror pods nor our own standby pods ask, whatever their annotations."""
    assert asks(pod())
    assert not asks(pod(annotations={"checkpointer.upgrader.io/checkpoint": "false"}))
    assert not asks(pod(annotations={"kubernetes.io/config.mirror": "x"}))
    assert not asks(pod(labels={"checkpointer.upgrader.io/checkpoint-of": "kube-apiserver"}))


@pytest.mark.parametrize(
    ("name", "labels", "expected"),
    [
        ("kube-apiserver-abc-x1", TEMPLATE, True),
        ("kube-apiserver-abd-x1", TEMPLATE, False),
        ("kube-apiserver-x1y2z", REVISION, True),
        ("kube-apiserver-0", REVISION, True),
        ("kube-apiserver-proxy-x1y2z", REVISION, False),
        ("kube-apiserver-controller-1", {}, False),
        ("kube-apiserver-abc-x1", {**TEMPLATE, "checkpointer.upgrader.io/checkpoint-of": "kube-apiserver"}, False),
    ],
)
def test_a_pod_is_recognised_by_name_and_labels(name: str, labels: dict[str, str], expected: bool) -> None:
    """The runtime knows no owners: the names that Kubernetes generates show them."""
    assert belongs(API, "kube-system", name, labels) is expected
    assert not belongs(API, "default", name, labels)


@pytest.mark.parametrize(
    ("changed", "since", "expected"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", True),
        ("2026-01-01T00:00:02Z", "2026-01-01T00:00:01Z", False),
        ("2026-01-01T01:00:00Z", "2026-01-01T01:01:00Z", False),
        ("2026-01-01T01:00:00Z", "2026-01-01T01:02:00Z", True),
        ("2026-01-01T01:00:00Z", None, False),
    ],
)
def test_what_a_pod_was_started_with(changed: str, since: str | None, expected: bool) -> None:
    """Content counts when it is older than the pod, or than every container's start by the kubelet's delay."""
    source = pod()
    source["status"]["containerStatuses"][0]["state"] = {"running": {"startedAt": since}} if since else {"waiting": {}}
    assert predates(changed, source) is expected
