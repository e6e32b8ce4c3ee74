"""Pods and candidates for the checkpointer's tests, as the API server would show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upgrader.in_cluster.checkpointer.static_pods.sanitise import Candidate, candidate
from upgrader.onhost.node.workload_policy import Workload

API = Workload("kube-system", "kube-apiserver")
Json = dict[str, Any]


def pod(
    name: str = "kube-apiserver-abc-x1",
    owner: tuple[str, str] = ("ReplicaSet", "kube-apiserver-abc"),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    ready: bool = True,
    uid: str = "uid-1",
    image_id: str = "sha256:aa",
    **spec: Any,
) -> Json:
    """A pod that asks for a checkpoint; `spec` overrides parts of a one-container pod spec."""
    return {
        "metadata": {
            "name": name,
            "namespace": "kube-system",
            "uid": uid,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "x", "pod-template-hash": "abc", **(labels or {})},
            "annotations": {"checkpointer.upgrader.io/checkpoint": "true", **(annotations or {})},
            "ownerReferences": [{"kind": owner[0], "name": owner[1], "controller": True}],
        },
        "spec": {
            "nodeName": "controller-1",
            "serviceAccountName": "default",
            "containers": [{"name": "main", "image": "example/main:v1", "imagePullPolicy": "Always"}],
            "tolerations": [{"operator": "Exists"}],
            "priority": 2000001000,
            "priorityClassName": "system-node-critical",
            **spec,
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [
                {
                    "name": "main",
                    "imageID": image_id,
                    "containerID": f"containerd://c-{name}",
                    "state": {"running": {"startedAt": "2026-01-01T00:00:01Z"}},
                }
            ],
        },
    }


class Contents(dict[tuple[str, str], Mapping[str, bytes]]):
    """Secrets and ConfigMaps by (kind, name), as `candidate` fetches them."""

    def fetch(self, kind: str, name: str) -> Mapping[str, bytes] | None:
        """The content, or None."""
        return self.get((kind, name))


def made(source: Json | None = None, contents: Contents | None = None, workload: Workload = API) -> Candidate:
    """A candidate from a pod."""
    return candidate(source or pod(), workload, (contents or Contents()).fetch, {})
