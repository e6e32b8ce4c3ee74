"""Labels and annotations of kubeadm's pods, in the chart's: Services, monitoring and policies go by them. Pure.

As with flags, the rendered chart shows which of them it has by itself; everything else becomes `podLabels` and
`podAnnotations`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from upgrader.adopt.facts import StaticPod
from upgrader.model.manifest import objects_in
from upgrader.ports import KubeObject

__all__ = [
    "Differing",
    "Metadata",
    "addon_metadata",
    "differing",
    "extra_metadata",
    "metadata_of",
    "rendered_metadata",
]

_FIELDS = {"labels": "podLabels", "annotations": "podAnnotations"}
"""Field of a pod's `metadata` → the value of the charts that adds to it."""

_KUBEADMS = "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint"
"""Each controller's own address, so that no release can have it. kubeadm alone reads it, to find its own static pod;
with it, `kubeadm upgrade apply` would take the chart's pod for that.
"""

_KUBELETS = "kubernetes.io/config."
"""What annotations begin with that the kubelet writes to static pods, and to their mirror pods in the API."""

_RESTARTS = ("kubectl.kubernetes.io/restartedAt", "checksum/")
"""What annotations begin with that only replace pods: of `kubectl rollout restart`, and of charts."""

Metadata = Mapping[str, Mapping[str, str]]
"""`labels` and `annotations`, each by name."""


@dataclass(frozen=True)
class Differing:
    """A label or an annotation that the chart's pod doesn't have, or has with another value (`chart`, else None)."""

    field: str
    name: str
    value: str
    chart: str | None

    def __str__(self) -> str:
        return f"the {self.field.removesuffix('s')} {self.name}={self.value}"


def metadata_of(static: StaticPod) -> Metadata:
    """Those of a static pod that a chart's pod could have."""
    return _metadata(static.pod, (_KUBEADMS, _KUBELETS))


def addon_metadata(workload: KubeObject) -> Metadata:
    """Those of the pods of kube-proxy or CoreDNS."""
    return _metadata(workload["spec"]["template"], _RESTARTS)


def _metadata(pod: Mapping[str, Any], without: tuple[str, ...]) -> Metadata:
    metadata = pod.get("metadata") or {}
    return {
        field: {
            _text(name): _text(value)
            for name, value in (metadata.get(field) or {}).items()
            if not _text(name).startswith(without)
        }
        for field in _FIELDS
    }


def _text(value: Any) -> str:
    """As the kubelet reads what YAML has as another type."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def rendered_metadata(manifest: str, workload: str) -> Metadata:
    """Those of a workload's pods in a rendered chart; none where there is no such Deployment or DaemonSet."""
    for item in objects_in(manifest).values():
        if item["kind"] in ("Deployment", "DaemonSet") and item["metadata"]["name"] == workload:
            found = item["spec"]["template"].get("metadata") or {}
            return {field: found.get(field) or {} for field in _FIELDS}
    return {field: {} for field in _FIELDS}


def extra_metadata(found: Metadata, chart: Metadata) -> dict[str, dict[str, str]]:
    """`podLabels` and `podAnnotations`, without those that are empty. `chart` is what it renders without them: where
    that has another value of the same name, it stays.
    """
    extra: dict[str, dict[str, str]] = {}
    for each in differing(found, chart):
        if each.chart is None:
            extra.setdefault(_FIELDS[each.field], {})[each.name] = each.value
    return extra


def differing(found: Metadata, chart: Metadata, chosen: Mapping[str, Any] | None = None) -> Iterator[Differing]:
    """What the chart's pod would lack, or have otherwise, but for names that the operator's values (`chosen`) set."""
    for field, entries in found.items():
        own = (chosen or {}).get(_FIELDS[field]) or {}
        for name, value in sorted(entries.items()):
            if chart[field].get(name) != value and name not in own:
                yield Differing(field, name, value, chart[field].get(name))
