"""The running components of the control plane have versions that Kubernetes supports together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from upgrader.model.components import COMPONENTS
from upgrader.model.finding import Finding
from upgrader.model.version import KUBELET_MINORS, KubernetesVersion
from upgrader.model.workload import Pod
from upgrader.ports import KubeObject
from upgrader.preflight.context import DAEMONSETS, SYSTEM, PreflightContext

__all__ = ["check_components"]

_API_SERVER = "kube-apiserver"
_PROXY = "kube-proxy"


def check_components(context: PreflightContext) -> Iterator[Finding]:
    """By the tags of their images, where these are Kubernetes' own; the kubelets are `version.…`."""
    server = context.observed.server
    running = dict(_running(context))
    apis = {name: version for name, version in running.items() if name.startswith(f"{_API_SERVER} ")}
    if len(set(apis.values())) > 1:
        yield Finding(
            "components.mixed",
            "warning",
            "instances of kube-apiserver have different versions",
            _listed(apis) + "\nAn upgrade was not completed; clients are served by either version.",
            "Complete that upgrade: choose the newer version as the target.",
        )
    others = {name: version for name, version in running.items() if name not in apis}
    newer = {name: version for name, version in others.items() if version.minors_after(server) > 0}
    if newer:
        yield Finding(
            "components.newer",
            "warning",
            f"{', '.join(sorted(newer))}: newer than the running API server ({server})",
            _listed(newer) + "\nKubernetes doesn't support this: the component may use APIs that aren't served yet.",
            "Upgrade kube-apiserver first, as a run does.",
        )
    older = {
        name: version
        for name, version in others.items()
        if (
            context.target.minors_after(version) > KUBELET_MINORS
            if name == _PROXY
            else server.minors_after(version) > 1
        )
    }
    if older:
        yield Finding(
            "components.older",
            "warning",
            f"{', '.join(sorted(older))}: too old to go from {server} to {context.target}",
            _listed(older)
            + "\nkube-controller-manager and kube-scheduler may be one minor version older than the running "
            f"kube-apiserver. kube-proxy may be {KUBELET_MINORS} minor versions older than {context.target}.",
            f"Upgrade these components to {server} first.",
        )


def _running(context: PreflightContext) -> Iterator[tuple[str, KubernetesVersion]]:
    """`kube-apiserver on NODE`, and so on, and its version."""
    for host in context.cluster.controllers:
        for found in context.pods_on(host.name):
            pod = Pod.parse(found)
            if pod.namespace != SYSTEM or pod.finished or pod.deleting or pod.is_checkpoint:
                continue
            for container in found["spec"].get("containers") or ():
                version = _version(container) if container["name"] in COMPONENTS else None
                if version:
                    yield f"{container['name']} on {host.name}", version
    proxies = context.kube.get(DAEMONSETS, _PROXY, SYSTEM)
    for container in (proxies or {}).get("spec", {}).get("template", {}).get("spec", {}).get("containers") or ():
        version = _version(container) if container["name"] == _PROXY else None
        if version:
            yield _PROXY, version


def _version(container: KubeObject) -> KubernetesVersion | None:
    """None for an image without a version of Kubernetes as its tag: v0.36.2 is a project's that builds on it."""
    tag = str(container.get("image", "")).partition("@")[0].rpartition("/")[2].partition(":")[2]
    found = KubernetesVersion.known(tag)
    return found if found is not None and found.major else None


def _listed(versions: Mapping[str, KubernetesVersion]) -> str:
    return "\n".join(f"{name}: {version}" for name, version in sorted(versions.items()))
