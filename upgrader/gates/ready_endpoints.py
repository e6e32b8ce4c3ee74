"""Whether a pod behind a Service is Ready, or may become Ready."""

from __future__ import annotations

from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import ENDPOINT_SLICES, PODS, SERVICES
from upgrader.model.workload import Pod, selector_of
from upgrader.ports import Kube

__all__ = ["has_no_pods", "has_ready_endpoint"]


def has_ready_endpoint(kube: Kube, namespace: str, name: str) -> bool | None:
    """None where no EndpointSlice is the Service's, not even an empty one. Raises ApiUnavailable or ApiError."""
    slices = kube.list(ENDPOINT_SLICES, namespace, labels=f"kubernetes.io/service-name={name}")
    if not slices:
        return None
    endpoints = (endpoint for item in slices for endpoint in item.get("endpoints") or ())
    # An unset condition means ready.
    return any((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints)


def has_no_pods(kube: Kube, namespace: str, name: str) -> bool:
    """Whether no pod behind the Service starts, runs or ends; False also for a Service without a selector, and where
    that can't be read.

    One that ends counts, as a StatefulSet makes the next one only then.
    """
    try:
        selector = ((kube.get(SERVICES, name, namespace) or {}).get("spec") or {}).get("selector")
        if not selector:
            return False
        found = kube.list(PODS, namespace, labels=selector_of({"matchLabels": selector}))
    except ApiError:
        return False
    return all(Pod.parse(item).finished for item in found)
