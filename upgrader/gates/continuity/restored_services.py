"""Restores the APIServices of Kubernetes' own groups that a kube-apiserver with other flags has deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import API_SERVICES
from upgrader.ports import Kube

__all__ = ["restore_services"]

_PRIORITIES = {"groupPriorityMinimum": 17800, "versionPriority": 15}
"""Those of `apps/v1`: they only order the list of groups, and the next kube-apiserver that starts sets its own."""


def restore_services(kube: Kube, missing: Iterable[str]) -> Iterator[str]:
    """Make those of the `missing` group versions again that are served and not listed; each that was restored.

    At its start, a kube-apiserver deletes the APIServices of built-in groups that it doesn't serve, and creates those
    that it does. One that started before keeps serving such a group, but no client finds it any more in `/apis`.
    Raises ApiUnavailable or ApiError.
    """
    for group_version in missing:
        group, _, number = group_version.partition("/")
        name = f"{number}.{group}"
        if kube.get(API_SERVICES, name) is None and _is_served(kube, group_version):
            meta = {"name": name, "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"}}
            manifest = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": meta}
            kube.create(API_SERVICES, {**manifest, "spec": {"group": group, "version": number, **_PRIORITIES}})
            yield group_version


def _is_served(kube: Kube, group_version: str) -> bool:
    try:
        kube.raw(f"/apis/{group_version}")
    except ApiError:
        return False
    return True
