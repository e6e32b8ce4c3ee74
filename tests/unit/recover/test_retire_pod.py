"""A wrong pod that is deleted doesn't come again, once its Deployment has another template."""

from __future__ import annotations

from typing import Any

import pytest

from testkit.fakes.kube import FakeKube
from upgrader.gates.kubernetes_kinds import PODS, REPLICA_SETS, WORKLOADS
from upgrader.recover.restoring.retire_pod import retire

POD, SET = "kube-apiserver-5c-x", "kube-apiserver-5c"


def template(flag: str, **labels: str) -> dict[str, Any]:
    """A pod template with this flag."""
    containers = [{"name": "kube-apiserver", "args": [flag]}]
    return {"metadata": {"labels": {"app": "kube-apiserver", **labels}}, "spec": {"containers": containers}}


def cluster(deployments_flag: str) -> FakeKube:
    """A wrong pod of a ReplicaSet of two, and its Deployment, with the template that it has by now."""
    kube = FakeKube()
    owned = {"ownerReferences": [{"kind": "ReplicaSet", "name": SET}]}
    kube.put(PODS, {"metadata": {"name": POD, **owned}}, "kube-system")
    owned = {"ownerReferences": [{"kind": "Deployment", "name": "kube-apiserver"}]}
    spec = {"replicas": 2, "template": template("--wrong", **{"pod-template-hash": "5c"})}
    kube.put(REPLICA_SETS, {"metadata": {"name": SET, **owned}, "spec": spec}, "kube-system")
    deployment = {"metadata": {"name": "kube-apiserver"}, "spec": {"template": template(deployments_flag)}}
    kube.put(WORKLOADS["Deployment"], deployment, "kube-system")
    return kube


@pytest.mark.parametrize(("flag", "replicas"), [("--right", 1), ("--wrong", 2)])
def test_wrong_pod_gets_no_successor_once_the_deployment_is_rolled_back(flag: str, replicas: int) -> None:
    """Before that, its Deployment would only set the number back."""
    kube = cluster(flag)
    retire(kube, POD)
    found = kube.get(REPLICA_SETS, SET, "kube-system")
    assert found is not None and found["spec"]["replicas"] == replicas
    assert kube.get(PODS, POD, "kube-system") is None


@pytest.mark.parametrize("missing", ["pod", "set", "deployment"])
def test_pod_without_owners_is_deleted_all_the_same(missing: str) -> None:
    """Whatever has gone by then."""
    kube = cluster("--right")
    kind, name = {
        "pod": (PODS, POD),
        "set": (REPLICA_SETS, SET),
        "deployment": (WORKLOADS["Deployment"], "kube-apiserver"),
    }[missing]
    kube.delete(kind, name, "kube-system")
    retire(kube, POD)
    assert kube.get(PODS, POD, "kube-system") is None
