"""The ConfigMaps that gates write into kube-system, only to see that clients can."""

from __future__ import annotations

from upgrader.ports import KubeObject

__all__ = ["AVAILABILITY", "PROBE_LABEL", "PROBE_NAMESPACE", "availability_object", "round_trip_object"]

PROBE_NAMESPACE = "kube-system"
PROBE_LABEL = "upgrader.io/probe"
AVAILABILITY = "upgrader-availability"


def round_trip_object(name: str, token: str) -> KubeObject:
    """What the gate of kube-apiserver writes, watches, reads and deletes."""
    metadata = {"name": name, "namespace": PROBE_NAMESPACE, "labels": {PROBE_LABEL: "true"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"token": token}}


def availability_object(written: str) -> KubeObject:
    """What the prober's clients write over and over; `written` is when."""
    labels = {"app.kubernetes.io/managed-by": "upgrader"}
    metadata = {"name": AVAILABILITY, "namespace": PROBE_NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"written": written}}
