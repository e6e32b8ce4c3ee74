"""The identity of a cluster, independent of its address."""

from __future__ import annotations

from upgrader.errors import ApiError
from upgrader.ports import Kind, Kube

__all__ = ["ClusterUid"]

_NAMESPACES = Kind("v1", "namespaces", namespaced=False)


class ClusterUid:
    """The UID of the namespace kube-system, which never changes in a cluster; read once."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._found = ""

    def __call__(self) -> str:
        """ "" while the API doesn't answer."""
        if not self._found:
            try:
                namespace = self._kube.get(_NAMESPACES, "kube-system")
            except ApiError:
                return ""
            self._found = str(namespace["metadata"].get("uid", "")) if namespace else ""
        return self._found
