"""What the chart's probes ask of CoreDNS is in its Corefile. Pure.

CoreDNS answers them by its plugins `health` and `ready`. A Deployment that has one of the probes, and whose pods are
Ready, has the plugin, too. One without the probe may lack it: the chart's pods would never be Ready, or be restarted
every two minutes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from upgrader.adopt.leaders_api import is_loopback
from upgrader.adopt.release_owner import is_released
from upgrader.errors import Blocked
from upgrader.model.manifest import objects_in
from upgrader.ports import KubeObject

__all__ = ["check_dns_probes"]

_ASKED = (("readinessProbe", "ready", 8181), ("livenessProbe", "health", 8080))
"""A probe of the chart, the plugin that answers it, and the port at which that listens by itself."""
_READY_SINCE = (1, 5)
"""CoreDNS's first version with `ready`: an older one doesn't start with that line. It has no `proxy` any more."""
_TAG = re.compile(r":v?(\d+)\.(\d+)(?:\.\d+)?(?:[-@].*)?$")
_LEFT_ALONE = (
    "Or set `coredns.enabled: false` in values/kubernetes.yaml: adoption and upgrades then leave CoreDNS unchanged."
)


def check_dns_probes(deployment: KubeObject | None, rendered: str) -> None:
    """`deployment`: the cluster's, if `adopt` takes it over. Raises Blocked. What a release has already is as its
    values say.
    """
    if deployment is None or is_released(deployment, "Deployment kube-system/coredns", "coredns"):
        return
    corefile = next(
        (
            str(item["data"]["Corefile"])
            for item in objects_in(rendered).values()
            if item["kind"] == "ConfigMap" and item["metadata"]["name"] == "coredns"
        ),
        None,
    )
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    for probe, plugin, port in _ASKED if corefile is not None else ():
        if not container.get(probe) and port not in _ports(corefile or "", plugin, port):
            raise Blocked(
                f"Deployment kube-system/coredns has no {probe}, and its Corefile has no plugin `{plugin}` that "
                f"listens on port {port} of the pod's address, which the chart's {probe} needs; nothing was changed",
                remedy=f"{_first(container, plugin)}In the block of `.:53`, add the line `{plugin}`, or remove the "
                f"address from the existing line: kubectl -n kube-system edit configmap coredns. {_LEFT_ALONE}",
            )


def _first(container: KubeObject, plugin: str) -> str:
    """What must come before the new line, where CoreDNS is too old for it; "" for nothing."""
    image = str(container.get("image") or "")
    found = _TAG.search(image)
    if plugin != "ready" or not found or (int(found[1]), int(found[2])) >= _READY_SINCE:
        return ""
    return (
        f"First update CoreDNS: {image} doesn't have that plugin, which came with 1.5.0. That version has no plugin "
        "`proxy` any more, so write `forward` in its place before. "
    )


def _ports(corefile: str, plugin: str, usual: int) -> Iterator[int]:
    """Where a plugin listens for the kubelet, by each of its lines: not at the pod's own loopback address."""
    for line in corefile.splitlines():
        name, *words = line.partition("#")[0].replace("{", " { ").split() or [""]
        if name == plugin:
            address = words[0] if words and words[0] not in ("{", "}") else f":{usual}"
            host, _, port = address.rpartition(":")
            if not is_loopback(host.strip("[]")):
                yield int(port) if port.isdecimal() else usual
