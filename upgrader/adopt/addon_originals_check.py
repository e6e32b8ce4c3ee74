"""What may be restored as kubeadm's: only what adoption takes over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from upgrader.errors import StepFailed
from upgrader.ports import Kind

__all__ = ["SYSTEM", "TAKEN_OVER", "add_ons", "check_names", "kind_of", "taken_over"]

SYSTEM = "kube-system"
_RBAC = "rbac.authorization.k8s.io/v1"
_KINDS = {
    "ServiceAccount": Kind("v1", "serviceaccounts"),
    "ConfigMap": Kind("v1", "configmaps"),
    "Service": Kind("v1", "services"),
    "DaemonSet": Kind("apps/v1", "daemonsets"),
    "Deployment": Kind("apps/v1", "deployments"),
    "Role": Kind(_RBAC, "roles"),
    "RoleBinding": Kind(_RBAC, "rolebindings"),
    "ClusterRole": Kind(_RBAC, "clusterroles", namespaced=False),
    "ClusterRoleBinding": Kind(_RBAC, "clusterrolebindings", namespaced=False),
}
TAKEN_OVER = tuple(
    (_KINDS[kind], name)
    for kind, name in (
        ("ServiceAccount", "kube-proxy"),
        ("ServiceAccount", "coredns"),
        ("ConfigMap", "kube-proxy"),
        ("ConfigMap", "coredns"),
        ("Service", "kube-dns"),
        ("DaemonSet", "kube-proxy"),
        ("Deployment", "coredns"),
        ("Role", "kube-proxy"),
        ("RoleBinding", "kube-proxy"),
        ("ClusterRole", "system:coredns"),
        ("ClusterRoleBinding", "system:coredns"),
        ("ClusterRoleBinding", "kubeadm:node-proxier"),
    )
)
"""Everything that the chart `kubernetes` takes over from kubeadm."""
_PROXYS = ("kube-proxy", "kubeadm:node-proxier")


def taken_over(*, proxy: bool, dns: bool) -> tuple[tuple[Kind, str], ...]:
    """Those of the add-ons that the chart manages."""
    return tuple((kind, name) for kind, name in TAKEN_OVER if (proxy if name in _PROXYS else dns))


def add_ons(objects: Iterable[tuple[Kind, str]]) -> str:
    """Whose objects these are, as `kube-proxy and CoreDNS`; "" without any."""
    found = {"kube-proxy" if name in _PROXYS else "CoreDNS" for _, name in objects}
    return " and ".join(sorted(found, reverse=True))


def kind_of(manifest: Mapping[str, Any]) -> Kind:
    """Where an object that `check_names` let pass lives in the API."""
    return _KINDS[manifest["kind"]]


def check_names(manifests: Sequence[Any], place: str) -> None:
    """Raises StepFailed for anything but an object that adoption takes over."""
    seen = set()
    for manifest in manifests:
        meta = manifest.get("metadata") if isinstance(manifest, Mapping) else None
        if not isinstance(meta, Mapping):
            raise _refused(place, "an entry that is not an object")
        kind, name = _KINDS.get(str(manifest.get("kind"))), str(meta.get("name"))
        what = f"{manifest.get('kind')} {meta.get('namespace') or ''}/{name}"
        known = kind is not None and kind.api_version == manifest.get("apiVersion") and (kind, name) in TAKEN_OVER
        if not known or meta.get("namespace") not in (None, "", SYSTEM):
            raise _refused(place, f"{what}, which adoption doesn't take over")
        if what in seen:
            raise _refused(place, f"{what} twice")
        seen.add(what)


def _refused(place: str, what: str) -> StepFailed:
    return StepFailed(
        f"{place} was changed after the adoption: it has {what}; none of it is restored",
        remedy="Find out who changed it. Correct it and run the same command again, or have kubeadm write the objects "
        "on a controller: kubeadm init phase addon all --print-manifest",
    )
