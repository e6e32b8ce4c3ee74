"""Rights of CoreDNS that the chart's ClusterRole would take from it: refused by name. Pure.

Helm replaces the rules of `system:coredns` as a whole, and plugins need more than kubeadm gives: without its right to
list them, CoreDNS waits for ServiceImports of other clusters, say, and never gets ready.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from upgrader.adopt.release_owner import is_released
from upgrader.errors import Blocked
from upgrader.model.manifest import objects_in
from upgrader.ports import KubeObject

__all__ = ["COREDNS_ROLE", "check_rights"]

COREDNS_ROLE = "system:coredns"
_UNUSED = ("nodes", "get")
"""kubeadm gave it this right for a plugin that CoreDNS no longer has, and never took it back."""

Right = tuple[str, str]
"""What, as kubectl writes it (`endpointslices.discovery.k8s.io`, or a path), and a verb."""


def check_rights(role: KubeObject | None, rendered: str) -> None:
    """`role`: the cluster's, if it has one. Raises Blocked. What a release has already is as its values say."""
    if role is None or is_released(role, f"ClusterRole {COREDNS_ROLE}", "coredns"):
        return
    charts = [
        item
        for item in objects_in(rendered).values()
        if item["kind"] == "ClusterRole" and item["metadata"]["name"] == COREDNS_ROLE
    ]
    if not charts:
        return  # the chart leaves CoreDNS alone
    if lost := sorted({*_rights(role)} - {*_rights(charts[0]), _UNUSED}):
        verbs: dict[str, list[str]] = {}
        for what, verb in lost:
            verbs.setdefault(what, []).append(verb)
        rights = "; ".join(f"{', '.join(each)} {what}" for what, each in verbs.items())
        raise Blocked(
            f"ClusterRole {COREDNS_ROLE} has rights that the chart would remove: {rights}",
            remedy="Grant these rights to ServiceAccount kube-system/coredns with a separate ClusterRole and "
            f"ClusterRoleBinding, and remove them from {COREDNS_ROLE}. Or set `coredns.enabled: false` in "
            "values/kubernetes.yaml: adoption and upgrades then leave CoreDNS unchanged.",
        )


def _rights(role: KubeObject) -> Iterator[Right]:
    for rule in role.get("rules") or ():
        verbs = rule.get("verbs") or ()
        yield from product(rule.get("nonResourceURLs") or (), verbs)
        for group, resource in product(rule.get("apiGroups") or (), rule.get("resources") or ()):
            yield from ((f"{resource}.{group}" if group else resource, verb) for verb in verbs)
