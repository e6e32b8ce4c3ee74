"""Reads the state of a cluster; changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from upgrader.errors import ApiError
from upgrader.model.api_lifecycle import Minor
from upgrader.model.emulation import ServerVersion, emulated_in, minor_of
from upgrader.model.kubeadm_config import KUBEADM_CONFIG_MAP, KubeadmConfig
from upgrader.model.kubelet_config import KUBELET_CONFIG_MAP, KubeletConfig
from upgrader.model.node_configuration import configured_with
from upgrader.model.node_mark import NodeMark
from upgrader.model.observed import Observed, ObservedNode, ObservedRelease
from upgrader.model.release import ReleaseSpec, last_good
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Helm, Kind, Kube, KubeObject

__all__ = ["kubelet_versions", "observe", "observe_release", "server_version"]

API_SERVER = "kube-apiserver"
NODES = Kind("v1", "nodes", namespaced=False)
_CONFIG_MAPS = Kind("v1", "configmaps")
_AT_ONCE = 500


def observe(kube: Kube, helm: Helm, releases: Iterable[ReleaseSpec]) -> Observed:
    """Read versions, nodes and releases. Raises ApiUnavailable, ApiError or HelmError."""
    with ThreadPoolExecutor(1) as pool:
        # In parallel: both mostly wait for other processes.
        versions = pool.submit(_versions, kube)
        found = {spec.name: observe_release(helm, spec) for spec in releases}
        server, kubelets, nodes = versions.result()
    kubeadm, kubelet = (_config_map(kube, name) for name in (KUBEADM_CONFIG_MAP, KUBELET_CONFIG_MAP))
    return Observed(
        server.binary,
        kubelets,
        found,
        _emulated(server, found),
        nodes,
        KubeadmConfig.of(kubeadm) if kubeadm is not None else None,
        KubeletConfig.of(kubelet) if kubelet is not None else None,
    )


def _config_map(kube: Kube, name: str) -> KubeObject | None:
    """None, too, where it may not be read: the checks then name that right among all that a run lacks."""
    try:
        return kube.get(_CONFIG_MAPS, name, "kube-system")
    except ApiError as error:
        if error.status == 403:
            return None
        raise


def _versions(kube: Kube) -> tuple[ServerVersion, dict[str, KubernetesVersion], dict[str, ObservedNode]]:
    """The API server's version, and of each node that has one its kubelet's and the little else that is asked for."""
    server = server_version(kube)
    kubelets, nodes = dict[str, KubernetesVersion](), dict[str, ObservedNode]()
    for node in kube.each(NODES, at_once=_AT_ONCE):
        if (version := _kubelet(node)) is not None:
            name = node["metadata"]["name"]
            kubelets[name], nodes[name] = version, _observed_node(node)
    return server, kubelets, nodes


def server_version(kube: Kube) -> ServerVersion:
    """What the API server says of itself. Raises ApiError, also where something else answers."""
    try:
        return ServerVersion.parse(kube.raw("/version"))
    except ValueError as error:
        remedy = "Check what answers there: kubectl get --raw /version"
        raise ApiError(f"the API server's version can't be read: {error}", remedy=remedy) from error


def _emulated(server: ServerVersion, releases: Mapping[str, ObservedRelease]) -> Minor | None:
    """What answers, and what kube-apiserver's release has: in an interrupted rollout, only one of them emulates."""
    installed = releases.get(API_SERVER)
    planned = emulated_in(installed.manifest) if installed else None
    running = minor_of(server.serves_as)
    found = [minor for minor in (planned, running) if minor is not None and minor < minor_of(server.binary)]
    return min(found, default=None)


def _observed_node(node: KubeObject) -> ObservedNode:
    architecture = str(node["status"]["nodeInfo"].get("architecture") or "")
    return ObservedNode(node["metadata"].get("labels") or {}, NodeMark.of(node), configured_with(node), architecture)


def kubelet_versions(kube: Kube) -> dict[str, KubernetesVersion]:
    """Each node's kubelet's version, by the node's name; without nodes whose kubelets have never reported, or report
    what is no version of Kubernetes: of those, a check tells.
    """
    found = ((node["metadata"]["name"], _kubelet(node)) for node in kube.each(NODES, at_once=_AT_ONCE))
    return {name: version for name, version in found if version is not None}


def _kubelet(node: KubeObject) -> KubernetesVersion | None:
    """None for one that has never reported, or that is none of Kubernetes' (KWOK, Virtual Kubelet)."""
    reported = ((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion")
    return KubernetesVersion.known(str(reported)) if reported else None


def observe_release(helm: Helm, spec: ReleaseSpec) -> ObservedRelease:
    """One release's history, and the manifest of its last good revision."""
    history = helm.history(spec.name, spec.namespace)
    good = last_good(history)
    manifest = helm.manifest(spec.name, spec.namespace, good.number) if good else ""
    return ObservedRelease(history, manifest, spec.namespace)
