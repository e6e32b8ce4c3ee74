"""Nodes that are upgraded: their source of programs, and a workload that must keep its minimum of pods meanwhile."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Self

from testkit.lab_cluster import until
from testkit.waiting import stretched
from upgrader.errors import ApiError
from upgrader.lab.image_catalog import IMAGE_VERSIONS
from upgrader.lab.node_source import node_source
from upgrader.lab.progress_port import Silent
from upgrader.ports import Kind, Kube

__all__ = ["FLOOR", "Floor", "full_pool", "kubelet_settings", "kubelets", "node_sources", "three_replicas"]

FLOOR = 2
"""How many pods of the workload its budget requires at any time."""
_NODES = Kind("v1", "nodes", namespaced=False)
_PODS = Kind("v1", "pods")
_DEPLOYMENTS = Kind("apps/v1", "deployments")
_BUDGETS = Kind("policy/v1", "poddisruptionbudgets")


class Floor:
    """The smallest number of pods of a workload that were Ready at once, while it is watched."""

    def __init__(self, kube: Kube, app: str = "web") -> None:
        self.kube = kube
        self.app = app
        self.lowest = 99
        self.unanswered = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(stretched(30))

    def _watch(self) -> None:
        while not self._stop.wait(0.25):
            try:
                self.lowest = min(self.lowest, _ready(self.kube, self.app))
            except ApiError:
                self.unanswered += 1


def node_sources(versions: Iterable[str]) -> dict[str, Any]:
    """`nodes.source` of upgrader.yaml, for these versions, which the lab has built."""
    found = {version: node_source(version, Silent()) for version in versions}
    (path,) = {str(source.folder).replace(version, "{version}") for version, source in found.items()}
    return {"kind": "folder", "path": path, "sha256": {version: source.sha256 for version, source in found.items()}}


def kubelets(kube: Kube) -> Mapping[str, str]:
    """Node → the version that its kubelet reports."""
    return {node["metadata"]["name"]: node["status"]["nodeInfo"]["kubeletVersion"] for node in kube.list(_NODES)}


def kubelet_settings(kube: Kube, field: str) -> Mapping[str, Any]:
    """Node → the value of a field of the configuration that its kubelet runs with."""
    names = [node["metadata"]["name"] for node in kube.list(_NODES)]
    found = {name: json.loads(kube.raw(f"/api/v1/nodes/{name}/proxy/configz")) for name in names}
    return {name: each["kubeletconfig"].get(field) for name, each in found.items()}


def three_replicas(kube: Kube) -> None:
    """Three replicas, of which two must be available at any time."""
    _workload(kube, "web", {})
    until("three pods of the workload to be Ready", lambda: _ready(kube, "web") == 3, timeout_seconds=60)


def full_pool(kube: Kube, app: str) -> None:
    """Three replicas, each on a node of its own, on two workers: its budget allows no eviction until there is a third
    worker.

    Only more nodes help: the two running pods are the required minimum.
    """
    apart = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    anti_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
    _workload(kube, app, {"affinity": {"podAntiAffinity": anti_affinity}})
    until("two pods of the workload to be Ready", lambda: _ready(kube, app) == FLOOR, timeout_seconds=60)
    until("its budget to allow no eviction", lambda: _allowed(kube, app) == 0, timeout_seconds=30)


def _workload(kube: Kube, app: str, spec: Mapping[str, Any]) -> None:
    labels = {"app": app}
    container = {
        "name": app,
        "image": f"upgrader.lab/tools:{IMAGE_VERSIONS['tools']}",
        "command": ["sleep", "86400"],
    }
    pod = {
        "metadata": {"labels": labels},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }
    selector = {"matchLabels": labels}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"replicas": 3, "selector": selector, "template": pod},
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"minAvailable": FLOOR, "selector": selector},
    }
    kube.apply(_DEPLOYMENTS, deployment, "default")
    kube.apply(_BUDGETS, budget, "default")


def _allowed(kube: Kube, app: str) -> int:
    """The evictions that its budget allows now; -1 if it isn't counted yet."""
    status = (kube.get(_BUDGETS, app, "default") or {}).get("status") or {}
    counted = status.get("currentHealthy") == FLOOR and status.get("expectedPods") == 3
    return int(status.get("disruptionsAllowed", 0)) if counted else -1


def _ready(kube: Kube, app: str) -> int:
    pods = kube.list(_PODS, "default", labels=f"app={app}")
    return sum(
        condition["type"] == "Ready" and condition["status"] == "True"
        for pod in pods
        for condition in pod.get("status", {}).get("conditions", [])
    )
