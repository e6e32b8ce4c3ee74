"""Reads the state of a cluster; changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from upgrader.model.observed import Observed, ObservedRelease
from upgrader.model.release import ReleaseSpec, last_good
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Helm, Kind, Kube

__all__ = ["kubelet_versions", "observe", "observe_release"]

NODES = Kind("v1", "nodes", namespaced=False)


def observe(kube: Kube, helm: Helm, releases: Iterable[ReleaseSpec]) -> Observed:
    """Read versions, nodes and releases. Raises ApiUnavailable, ApiError or HelmError."""
    with ThreadPoolExecutor(1) as pool:
        # In parallel: both mostly wait for other processes.
        versions = pool.submit(_versions, kube)
        found = {spec.name: observe_release(helm, spec) for spec in releases}
        server, kubelets = versions.result()
    return Observed(server, kubelets, found)


def _versions(kube: Kube) -> tuple[KubernetesVersion, dict[str, KubernetesVersion]]:
    """The API server's version, and each node's kubelet's."""
    server = json.loads(kube.raw("/version"))["gitVersion"]
    return KubernetesVersion.parse(server), kubelet_versions(kube)


def kubelet_versions(kube: Kube) -> dict[str, KubernetesVersion]:
    """Each node's kubelet's version, by the node's name."""
    return {
        node["metadata"]["name"]: KubernetesVersion.parse(node["status"]["nodeInfo"]["kubeletVersion"])
        for node in kube.list(NODES)
    }


def observe_release(helm: Helm, spec: ReleaseSpec) -> ObservedRelease:
    """One release's history, and the manifest of its last good revision."""
    history = helm.history(spec.name, spec.namespace)
    good = last_good(history)
    manifest = helm.manifest(spec.name, spec.namespace, good.number) if good else ""
    return ObservedRelease(history, manifest)
