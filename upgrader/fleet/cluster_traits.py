"""What a live cluster is made of, as far as an upgrade may meet it: how many nodes it has, their operating systems,
architectures, container runtimes and kubelets, its CNI plugins, and how kube-proxy works. The API says all of it; no
name of a product is known here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS, NODES, WORKLOADS
from upgrader.model.config_text import read_first
from upgrader.ports import LARGE_AT_ONCE, Kube, KubeObject

__all__ = ["UNKNOWN", "cluster_traits"]

UNKNOWN = "unknown "
"""How a trait begins that can't be read: two clusters that have it need not be alike."""

_SYSTEM, _PROXY = "kube-system", "kube-proxy"
_DAEMON_SETS = WORKLOADS["DaemonSet"]
_NODE_INFO = {
    "osImage": "operating system",
    "architecture": "architecture",
    "containerRuntimeVersion": "container runtime",
    "kubeletVersion": "kubelet",
}
_SIZES = (1, 10, 100, 1000)
"""The most nodes of each class but the last: what takes longer, or is refused as too much, differs by the order of
magnitude.
"""
_CNI_FOLDER = re.compile(r"/cni(?=[/-]|$)")
"""`/etc/cni/net.d`, `/opt/cni/bin`, and where distributions have those two: who installs a plugin mounts them."""


def cluster_traits(kube: Kube) -> frozenset[str]:
    """Such as `size up to 10 nodes`, `operating system Ubuntu 24.04.1 LTS`, `architecture arm64`, `container runtime
    containerd://1.7.22`, `kubelet v1.36.3`, `CNI cilium v1.16.1`, `kube-proxy mode ipvs`. What can't be read begins
    with `UNKNOWN`.
    """
    return frozenset(
        (
            *_read("nodes", lambda: _of_nodes(kube)),
            *_read("CNI plugins", lambda: _of_plugins(kube)),
            *_read("kube-proxy mode", lambda: _of_proxy(kube)),
        )
    )


def _read(what: str, question: Callable[[], Iterator[str]]) -> tuple[str, ...]:
    try:
        return tuple(question())
    except ApiError as error:
        # A plan is made before this is asked, for information: no slow or failed answer may take it away.
        return (f"{UNKNOWN}{what}: {error.message}",)


def _of_nodes(kube: Kube) -> Iterator[str]:
    number = 0
    for node in kube.each(NODES):
        number += 1
        info = (node.get("status") or {}).get("nodeInfo") or {}
        # A kubelet that has never reported has none: there is no node yet that could be like another cluster's.
        yield from (f"{what} {info[key]}" for key, what in _NODE_INFO.items() if info.get(key))
    yield f"size {_size(number)}"


def _size(nodes: int) -> str:
    most = next((each for each in _SIZES if nodes <= each), None)
    if most is None:
        return f"over {_SIZES[-1]} nodes"
    return f"up to {most} nodes" if most > 1 else "1 node"


def _of_plugins(kube: Kube) -> Iterator[str]:
    found = [item for item in kube.each(_DAEMON_SETS, at_once=LARGE_AT_ONCE) if _installs_plugin(item)]
    yield from (f"CNI {_plugin(item)}" for item in found)
    if not found:
        yield "CNI without a DaemonSet"


def _installs_plugin(daemon_set: KubeObject) -> bool:
    folders = (volume.get("hostPath") or {} for volume in _pod(daemon_set).get("volumes") or ())
    return any(_CNI_FOLDER.search(str(folder.get("path") or "")) for folder in folders)


def _plugin(daemon_set: KubeObject) -> str:
    """Its name, and the tag of its first image; not the registry and the digest, which a mirror changes."""
    image = str(_pod(daemon_set)["containers"][0]["image"])
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    return f"{daemon_set['metadata']['name']} {tag}".strip()


def _pod(daemon_set: KubeObject) -> KubeObject:
    pod: KubeObject = daemon_set["spec"]["template"]["spec"]
    return pod


def _of_proxy(kube: Kube) -> Iterator[str]:
    if kube.get(_DAEMON_SETS, _PROXY, _SYSTEM) is None:
        # It may be a service of the nodes; and its ConfigMap may be left, as where Cilium has taken its place.
        yield f"no {_PROXY} DaemonSet"
        return
    found = kube.get(CONFIG_MAPS, _PROXY, _SYSTEM) or {}
    try:
        mode = read_first((found.get("data") or {})["config.conf"]).get("mode") or "default"
    except (KeyError, ValueError):
        yield f"{UNKNOWN}{_PROXY} mode: ConfigMap {_SYSTEM}/{_PROXY} has no readable config.conf"
    else:
        yield f"{_PROXY} mode {mode}"
