"""Keeps kubeadm's own kube-proxy and CoreDNS objects, so that adoption can be undone."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from upgrader.adopt.facts import at_version
from upgrader.errors import ApiError, StepFailed
from upgrader.model.release import RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind, Kube, KubeObject

__all__ = ["SaveOriginalsStep", "put_back"]

STORE = "upgrader-adopted"
"""The ConfigMap in kube-system that holds them; removed by `adopt --undo`."""

_CONFIG_MAPS = Kind("v1", "configmaps")
_SYSTEM = "kube-system"
_TAKEN_OVER = (
    (Kind("v1", "serviceaccounts"), "kube-proxy"),
    (Kind("v1", "serviceaccounts"), "coredns"),
    (_CONFIG_MAPS, "kube-proxy"),
    (_CONFIG_MAPS, "coredns"),
    (Kind("v1", "services"), "kube-dns"),
    (Kind("apps/v1", "daemonsets"), "kube-proxy"),
    (Kind("apps/v1", "deployments"), "coredns"),
    (Kind("rbac.authorization.k8s.io/v1", "roles"), "kube-proxy"),
    (Kind("rbac.authorization.k8s.io/v1", "rolebindings"), "kube-proxy"),
    (Kind("rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False), "system:coredns"),
    (Kind("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False), "system:coredns"),
    (Kind("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False), "kubeadm:node-proxier"),
)
"""Everything that the chart `kubernetes` takes over from kubeadm."""


@dataclass(frozen=True)
class SaveOriginalsStep:
    """Writes kubeadm's objects to a ConfigMap, once: what a later adoption sees is no longer kubeadm's."""

    kube: Kube
    name: str = "save-originals"

    def summary(self) -> str:
        return f"keep kubeadm's kube-proxy and CoreDNS objects in ConfigMap {_SYSTEM}/{STORE}"

    def capture(self) -> None:
        return None

    def apply(self, note: Callable[[str], None]) -> None:
        if self.kube.get(_CONFIG_MAPS, STORE, _SYSTEM) is not None:
            note("kubeadm's objects were kept by an earlier adoption")
            return
        found = [self._read(kind, name) for kind, name in _TAKEN_OVER]
        manifest = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": STORE},
            "data": {"originals.json": json.dumps([item for item in found if item is not None])},
        }
        self.kube.create(_CONFIG_MAPS, manifest, _SYSTEM)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """They stay: they do no harm, and the next adoption may need them."""

    def _read(self, kind: Kind, name: str) -> KubeObject | None:
        found = self.kube.get(kind, name, _SYSTEM if kind.namespaced else "")
        return None if found is None else _without_server_fields(found)


def put_back(kube: Kube, version: KubernetesVersion, note: Callable[[str], None]) -> None:
    """Restore the objects that were taken over, with kube-proxy's image at the version that runs now.

    Raises StepFailed when they were never kept.
    """
    stored = kube.get(_CONFIG_MAPS, STORE, _SYSTEM)
    if stored is None:
        raise StepFailed(
            f"ConfigMap {_SYSTEM}/{STORE} does not exist: kubeadm's own kube-proxy and CoreDNS are not known",
            remedy="Create them again, on a controller: kubeadm init phase addon all",
        )
    kinds = {(kind.api_version, _singular(kind)): kind for kind, _ in _TAKEN_OVER}
    for manifest in json.loads(stored["data"]["originals.json"]):
        kind = kinds[manifest["apiVersion"], manifest["kind"].lower()]
        if manifest["kind"] == "DaemonSet":
            container = manifest["spec"]["template"]["spec"]["containers"][0]
            container["image"] = at_version(container["image"], version)
        namespace = _SYSTEM if kind.namespaced else ""
        try:
            kube.replace(kind, manifest, namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            kube.create(kind, manifest, namespace)
    note("kube-proxy and CoreDNS are restored as kubeadm made them")


def forget(kube: Kube) -> None:
    """Remove the kept objects."""
    kube.delete(_CONFIG_MAPS, STORE, _SYSTEM)


def _singular(kind: Kind) -> str:
    return kind.plural.removesuffix("s")


def _without_server_fields(found: KubeObject) -> dict[str, Any]:
    """What a client may write: without status, and without the fields that the API server fills in."""
    manifest = copy.deepcopy(dict(found))
    manifest.pop("status", None)
    for key in ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"):
        manifest["metadata"].pop(key, None)
    return manifest
