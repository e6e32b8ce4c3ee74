"""A cluster whose kubelets pull images, or say why not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from testkit.fakes.kube import FakeKube
from upgrader.errors import ApiError
from upgrader.ports import Kind, KubeObject

__all__ = ["DIGEST", "Kubelets", "pulled", "waiting"]

NODES, PODS = Kind("v1", "nodes", namespaced=False), Kind("v1", "pods")
DIGEST = "sha256:" + "a" * 64


def pulled(image: str, digest: str = DIGEST) -> dict[str, Any]:
    """A container whose command isn't in its image: that is there."""
    terminated = {"reason": "StartError", "exitCode": 128}
    return {"state": {"terminated": terminated}, "imageID": f"{image.partition(':')[0]}@{digest}"}


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    """A container that has not started."""
    return {"state": {"waiting": {"reason": reason, "message": message}}}


class Kubelets(FakeKube):
    """`answer` says what a node's kubelet makes of an image, whenever its pods are read."""

    def __init__(self, *nodes: str) -> None:
        super().__init__()
        self.answer: Callable[[str, str], dict[str, Any] | None] = lambda node, image: pulled(image)
        self.created: list[KubeObject] = []
        self.most_at_once = 0
        self.refuses_pods: ApiError | None = None
        for name in nodes:
            self.add_node(name)
        for name in ("kube-system", "apps"):
            self.put(Kind("v1", "namespaces", namespaced=False), {"metadata": {"name": name}})
            self.put(Kind("v1", "serviceaccounts"), {"metadata": {"name": "default"}}, name)

    def add_node(self, name: str, *images: list[str], ready: str = "True", **labels: str) -> None:
        """A node that lists these images, each by all its names."""
        status = {
            "conditions": [{"type": "Ready", "status": ready}],
            "images": [{"names": names} for names in images],
            "nodeInfo": {"architecture": "amd64"},
        }
        self.put(NODES, {"metadata": {"name": name, "labels": labels}, "status": status})

    def create(self, kind: Kind, manifest: KubeObject, namespace: str = "", *, dry_run: bool = False) -> KubeObject:
        if kind == PODS and self.refuses_pods is not None:
            raise self.refuses_pods
        done = super().create(kind, manifest, namespace, dry_run=dry_run)
        self.created.append(manifest)
        return done

    def list(self, kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> tuple[KubeObject, ...]:
        if kind == PODS:
            for pod in super().list(PODS):
                self._report(dict(pod))
            self.most_at_once = max(self.most_at_once, len(super().list(PODS)))
        return super().list(kind, namespace, labels=labels, fields=fields)

    def _report(self, pod: dict[str, Any]) -> None:
        statuses = []
        for container in pod["spec"]["containers"]:
            status = self.answer(pod["spec"]["nodeName"], container["image"])
            if status is not None:
                statuses.append({"name": container["name"], **status})
        self.put(PODS, {**pod, "status": {**pod.get("status", {}), "containerStatuses": statuses}})
