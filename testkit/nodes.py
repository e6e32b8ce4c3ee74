"""Nodes that are upgraded: where their programs are, and a workload that must keep its floor meanwhile."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Self

from testkit.lab_cluster import until
from upgrader.errors import ApiError
from upgrader.lab.image_catalog import IMAGE_VERSIONS
from upgrader.lab.node_source import node_source
from upgrader.lab.progress_port import Silent
from upgrader.ports import Kind, Kube

__all__ = ["FLOOR", "Floor", "kubelet_settings", "kubelets", "node_sources", "three_replicas"]

FLOOR = 2
"""How many pods of the workload its budget wants at any time."""
_NODES = Kind("v1", "nodes", namespaced=False)
_PODS = Kind("v1", "pods")
_DEPLOYMENTS = Kind("apps/v1", "deployments")
_BUDGETS = Kind("policy/v1", "poddisruptionbudgets")
_LABELS = {"app": "web"}


class Floor:
    """The fewest pods of the workload that were Ready at once, while it is watched."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        self.lowest = 99
        self.unanswered = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)

    def _watch(self) -> None:
        while not self._stop.wait(0.25):
            try:
                self.lowest = min(self.lowest, _ready(self.kube))
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
    """Three replicas, of which two must be there at any time."""
    pod = {
        "metadata": {"labels": _LABELS},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "web",
                    "image": f"upgrader.lab/tools:{IMAGE_VERSIONS['tools']}",
                    "command": ["sleep", "86400"],
                }
            ],
        },
    }
    selector = {"matchLabels": _LABELS}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 3, "selector": selector, "template": pod},
    }
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": FLOOR, "selector": selector},
    }
    kube.apply(_DEPLOYMENTS, deployment, "default")
    kube.apply(_BUDGETS, budget, "default")
    until("three pods of the workload to be Ready", lambda: _ready(kube) == 3, timeout_seconds=60)


def _ready(kube: Kube) -> int:
    pods = kube.list(_PODS, "default", labels="app=web")
    return sum(
        condition["type"] == "Ready" and condition["status"] == "True"
        for pod in pods
        for condition in pod.get("status", {}).get("conditions", [])
    )
