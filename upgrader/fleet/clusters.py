"""What a campaign asks of a cluster itself: which one it is, and which version its API server has."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upgrader.app.observe_cluster import server_version
from upgrader.app.wiring import open_kube
from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import NAMESPACES
from upgrader.model.version import KubernetesVersion

__all__ = ["Answer", "ask_cluster"]

_SECONDS = 5.0


@dataclass(frozen=True)
class Answer:
    """What a cluster's API server said."""

    uid: str
    """Of the namespace kube-system."""
    version: KubernetesVersion


def ask_cluster(folder: Path) -> Answer:
    """Ask the cluster that a cluster folder's kubeconfig leads to.

    Raises ApiError if it doesn't answer, or refuses, and UsageError for a folder or a kubeconfig that is wrong.
    """
    with open_kube(folder, _SECONDS) as kube:
        version = server_version(kube).binary
        namespace = kube.get(NAMESPACES, "kube-system")
        if namespace is None:
            raise ApiError("the API server knows no namespace kube-system, so it isn't known which cluster it is of")
        return Answer(str(namespace["metadata"]["uid"]), version)
