"""What is read of a cluster before a plan."""

from __future__ import annotations

import json
from typing import Any

import pytest

from testkit.fakes.helm import FakeHelm
from testkit.fakes.kube import FakeKube
from upgrader.app.observe_cluster import NODES, observe
from upgrader.errors import ApiError
from upgrader.model.kubeadm_config import KubeadmConfig
from upgrader.model.kubelet_config import KubeletConfig
from upgrader.model.node_configuration import CONFIGURED
from upgrader.model.observed import ObservedNode
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind, KubeObject


@pytest.mark.parametrize(
    "status",
    [{}, {"nodeInfo": None}, {"nodeInfo": {"kubeletVersion": ""}}, {"nodeInfo": {"kubeletVersion": "kwok-v0.6.0"}}],
    ids=["nothing", "null", "empty", "KWOK"],
)
def test_node_that_never_reported_a_version_is_left_out(status: dict[str, Any]) -> None:
    """It has no version to compare, and no plan can upgrade it; that it isn't healthy, or no kubelet, a check says."""
    kube = FakeKube()
    kube.raw_answers["/version"] = json.dumps({"gitVersion": "v1.36.3"})
    kube.put(NODES, {"metadata": {"name": "new"}, "status": status})
    info = {"kubeletVersion": "v1.36.3", "architecture": "arm64"}
    kube.put(
        NODES,
        {
            "metadata": {"name": "old", "labels": {"a": "b"}, "annotations": {CONFIGURED: "abc"}},
            "status": {"nodeInfo": info},
        },
    )
    observed = observe(kube, FakeHelm(), ())
    assert observed.kubeadm is None
    assert observed.kubelets == {"old": KubernetesVersion(1, 36, 3)}
    assert observed.nodes == {"old": ObservedNode({"a": "b"}, configured="abc", architecture="arm64")}


def test_what_kubeadm_keeps_of_its_cluster_is_read() -> None:
    """A run has to keep it true."""
    kube = FakeKube()
    kube.raw_answers["/version"] = json.dumps({"gitVersion": "v1.36.3"})
    metadata = {"name": "kubeadm-config", "namespace": "kube-system"}
    kube.put(Kind("v1", "configmaps"), {"metadata": metadata, "data": {"ClusterConfiguration": "a: 1"}})
    metadata = {**metadata, "name": "kubelet-config"}
    kube.put(Kind("v1", "configmaps"), {"metadata": metadata, "data": {"kubelet": "b: 2"}})
    observed = observe(kube, FakeHelm(), ())
    assert (observed.kubeadm, observed.kubelet) == (KubeadmConfig("a: 1"), KubeletConfig("b: 2"))


def test_right_that_is_missing_ends_no_plan() -> None:
    """The checks say which rights a run lacks, all at once; any other failure is one of the plan."""
    assert observe(RefusingKube(403), FakeHelm(), ()).kubeadm is None
    with pytest.raises(ApiError):
        observe(RefusingKube(500), FakeHelm(), ())


class RefusingKube(FakeKube):
    """Answers with that status where a ConfigMap is read."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self._status = status
        self.raw_answers["/version"] = json.dumps({"gitVersion": "v1.36.3"})

    def get(self, kind: Kind, name: str, namespace: str = "") -> KubeObject | None:
        """Refuses it."""
        if kind.plural != "configmaps":
            return super().get(kind, name, namespace)
        error = ApiError("get configmaps: refused")
        error.status = self._status
        raise error
