"""Where kube-controller-manager and kube-scheduler are asked for metrics. Pure.

kubeadm's static pods share the controllers' network. With another `bind-address` than kubeadm's 127.0.0.1, monitoring
asks them at a controller's address; the charts' pods have addresses of their own.
"""

from __future__ import annotations

from upgrader.adopt.facts import KubeadmFacts, StaticPod
from upgrader.adopt.leaders_api import is_loopback

__all__ = ["about_leaders_addresses"]

_PORTS = {"kube-controller-manager": 10257, "kube-scheduler": 10259}
"""The charts'."""


def about_leaders_addresses(facts: KubeadmFacts) -> str:
    """What monitoring must change; "" where no static pod listens for others."""
    active = [each.active for each in facts.controllers]
    found = [name for name in _PORTS if any(not _on_loopback(pods[name]) for pods in active if name in pods)]
    if not found:
        return ""
    ports = " and ".join(str(_PORTS[name]) for name in found)
    labels = " or ".join(f"`component: {name}`" for name in found)
    return (
        f"{' and '.join(found)} will listen on port{'s' if len(found) > 1 else ''} {ports} at the pods' own addresses, "
        "and no longer at those of the controllers. If Prometheus scrapes a controller's address, have it scrape the "
        f"pods instead: a Service that selects {labels} finds them."
    )


def _on_loopback(pod: StaticPod) -> bool:
    return is_loopback(pod.flags.get("bind-address", ("",))[-1])
