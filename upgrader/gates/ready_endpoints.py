"""Whether a pod behind a Service is Ready."""

from __future__ import annotations

from upgrader.gates.kubernetes_kinds import ENDPOINT_SLICES
from upgrader.ports import Kube

__all__ = ["has_ready_endpoint"]


def has_ready_endpoint(kube: Kube, namespace: str, name: str) -> bool | None:
    """None where no EndpointSlice is the Service's, not even an empty one. Raises ApiUnavailable or ApiError."""
    slices = kube.list(ENDPOINT_SLICES, namespace, labels=f"kubernetes.io/service-name={name}")
    if not slices:
        return None
    endpoints = (endpoint for item in slices for endpoint in item.get("endpoints") or ())
    # An unset condition means ready.
    return any((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints)
