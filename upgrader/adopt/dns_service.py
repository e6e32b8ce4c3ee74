"""What of Service kube-dns the chart's would lack: refused by name. Pure.

Clients use what others have added to it, such as a port for DNS over TLS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from upgrader.adopt.release_owner import is_released
from upgrader.errors import Blocked
from upgrader.model.manifest import objects_in
from upgrader.ports import KubeObject

__all__ = ["check_service", "traffic_distribution"]

_NAME = "kube-dns"
_KUBEADMS: Mapping[str, tuple[Any, ...]] = {
    "externalTrafficPolicy": ("Cluster",),
    "internalTrafficPolicy": ("Cluster",),
    "sessionAffinity": ("None",),
    "type": ("ClusterIP",),
}
"""What the API server fills in."""
_KEPT = frozenset({"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "ports", "selector"})


def check_service(service: KubeObject | None, deployment: KubeObject | None, rendered: str) -> None:
    """`service`, `deployment`: the cluster's, if `adopt` takes them over. Raises Blocked. What a release has already
    is as its values say.
    """
    if service is None or is_released(service, f"Service kube-system/{_NAME}", "coredns"):
        return
    charts = [
        item
        for item in objects_in(rendered).values()
        if item["kind"] == "Service" and item["metadata"]["name"] == _NAME
    ]
    if charts and (lost := list(_lost(service["spec"], charts[0]["spec"], _named_ports(deployment)))):
        raise Blocked(
            f"Service kube-system/{_NAME} has parts that the chart would remove: {', '.join(lost)}",
            remedy="Put them in another Service with the same selector, and remove them from this one. Or set "
            "`coredns.enabled: false` in values/kubernetes.yaml: adoption and upgrades then leave CoreDNS unchanged.",
        )


def traffic_distribution(service: KubeObject | None) -> str:
    """Which of CoreDNS's pods its clients prefer; "" for none."""
    return str(((service or {}).get("spec") or {}).get("trafficDistribution") or "")


def _lost(live: Mapping[str, Any], chart: Mapping[str, Any], named: Mapping[str, int]) -> Iterator[str]:
    served = {_port(port, named) for port in chart["ports"]}
    for port in live.get("ports") or ():
        if (found := _port(port, named)) not in served:
            number, protocol, target = found
            yield f"port {number}/{protocol}" + (f" to {target}" if target != number else "")
    if (live.get("selector") or {}) != chart["selector"]:
        yield "another `selector`"
    for key in sorted(live.keys() - _KEPT - chart.keys()):
        if live[key] and live[key] not in _KUBEADMS.get(key, ()):
            yield f"`{key}`"


def _port(port: Mapping[str, Any], named: Mapping[str, int]) -> tuple[int, str, Any]:
    target = port.get("targetPort") or port["port"]
    return port["port"], port.get("protocol", "TCP"), named.get(target, target)


def _named_ports(deployment: KubeObject | None) -> dict[str, int]:
    containers = deployment["spec"]["template"]["spec"]["containers"] if deployment else ()
    return {
        str(port["name"]): port["containerPort"]
        for container in containers
        for port in container.get("ports") or ()
        if "name" in port
    }
