"""StatefulSets of zones on an API server without controllers: what their controller and the kubelet do is done here."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.contract.checking import merge
from upgrader.adapters.kube import KubeAdapter
from upgrader.ports import Kind

__all__ = ["Zones", "zones"]

_SETS = Kind("apps/v1", "statefulsets")
_PODS = Kind("v1", "pods")
_PATH = "/api/v1/namespaces/shop/pods"


class Zones:
    """A group of sets, and their pods, which are Ready only where a test says so."""

    def __init__(self, kube: KubeAdapter, group: str, names: Sequence[str], replicas: int) -> None:
        self._kube, self.group, self.names, self._replicas = kube, group, names, replicas

    def template(self, name: str, revision: str) -> None:
        """The set's controller has seen a template of this revision, and counted what there is."""
        change = {"metadata": {"annotations": {"template": revision}}}
        merge(self._kube, f"/apis/apps/v1/namespaces/shop/statefulsets/{name}", change)
        self.controller(name, revision)

    def controller(self, name: str, revision: str = "") -> None:
        """Makes the pods that are missing, and writes the status."""
        found: Any = self._kube.get(_SETS, name, "shop")
        revision = revision or found["status"]["updateRevision"]
        pods = self.pods(name)
        for number in range(self._replicas):
            if f"{name}-{number}" not in pods:
                self._kube.create(_PODS, self._pod(found, number, revision), "shop")
        ready = sum(_is_ready(each) for each in self.pods(name).values())
        status = {
            "observedGeneration": found["metadata"]["generation"],
            "replicas": self._replicas,
            "readyReplicas": ready,
            "updateRevision": revision,
            "currentRevision": (found.get("status") or {}).get("currentRevision") or revision,
        }
        merge(self._kube, f"/apis/apps/v1/namespaces/shop/statefulsets/{name}/status", {"status": status})

    def make_ready(self, name: str, since: str = "2026-01-01T00:00:00Z") -> None:
        """All pods of a set, and its status says so."""
        state = {"type": "Ready", "status": "True", "lastTransitionTime": since}
        for pod in self.pods(name):
            status = {"phase": "Running", "conditions": [state]}
            merge(self._kube, f"{_PATH}/{pod}/status", {"status": status})
        self.controller(name)

    def pods(self, name: str) -> dict[str, Any]:
        """Those of a set, by name."""
        return {each["metadata"]["name"]: each for each in self._kube.list(_PODS, "shop", labels=f"app={name}")}

    def revisions(self) -> list[str]:
        """Of all pods, in order of their names; "-" after those that aren't Ready."""
        found = [each for name in self.names for each in sorted(self.pods(name).items())]
        return [
            f"{name}:{each['metadata']['labels']['controller-revision-hash']}{'' if _is_ready(each) else '-'}"
            for name, each in found
        ]

    def current(self, name: str) -> str:
        """What the status calls the current revision."""
        found: Any = self._kube.get(_SETS, name, "shop")
        return str(found["status"]["currentRevision"])

    def _pod(self, of: Any, number: int, revision: str) -> dict[str, Any]:
        name = of["metadata"]["name"]
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": of["metadata"]["uid"]}
        meta = {
            "name": f"{name}-{number}",
            "labels": {"app": name, "rollout-group": self.group, "controller-revision-hash": revision},
            "ownerReferences": [{**owner, "controller": True}],
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": of["spec"]["template"]["spec"]}


def _is_ready(pod: Any) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or ())


@contextmanager
def zones(kube: KubeAdapter, *, replicas: int = 1, count: int = 3) -> Iterator[Zones]:
    """Sets of a new group, whole at revision v1, until the end of the block."""
    group = f"group-{uuid.uuid4().hex[:6]}"
    names = [f"{group}-{'abcde'[number]}" for number in range(count)]
    for name in names:
        pod = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
        spec = {
            "replicas": replicas,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "updateStrategy": {"type": "OnDelete"},
            "template": pod,
        }
        meta = {"name": name, "labels": {"rollout-group": group}}
        kube.create(_SETS, {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}, "shop")
    found = Zones(kube, group, names, replicas)
    for name in names:
        found.controller(name, "v1")
        found.make_ready(name)
    try:
        yield found
    finally:
        for name in names:
            for left in found.pods(name):
                kube.delete(_PODS, left, "shop")
            kube.delete(_SETS, name, "shop")
