"""The StatefulSets that are in groups, and the pods that they own, by group."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from upgrader.in_cluster.guard.core.rollout import GROUP_LABEL
from upgrader.in_cluster.guard.core.workloads import REVISION_LABEL, Pod, StatefulSet, pod, stateful_set
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.informer import Informer
from upgrader.in_cluster.guard.runtime.resource import Resource

__all__ = ["PODS", "STATEFUL_SETS", "Group", "WorkloadCache"]

STATEFUL_SETS = Resource("apps/v1", "statefulsets")
PODS = Resource("v1", "pods")
Group = tuple[str, str]
"""Namespace, and the label's value."""
_NOTHING: Mapping[str, str] = MappingProxyType({})
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class WorkloadCache:
    """For one namespace. `changed` gets each group with a change."""

    def __init__(self, api: Api, namespace: str, changed: Callable[[Group], None]) -> None:
        self._changed = changed
        self._sets: dict[str, StatefulSet] = {}
        self._groups: dict[Group, dict[str, StatefulSet]] = {}
        self._pods: dict[str, dict[str, Pod]] = {}
        sets = Informer(api, STATEFUL_SETS, namespace, keep=_kept_set, labels=GROUP_LABEL)
        pods = Informer(api, PODS, namespace, keep=_kept_pod)
        sets.tell(self._set_changed)
        pods.tell(self._pod_changed)
        self.informers: tuple[Informer[Any], ...] = (sets, pods)

    @property
    def synced(self) -> bool:
        """Whether all objects were listed."""
        return all(informer.synced.is_set() for informer in self.informers)

    def groups(self) -> set[Group]:
        """All groups."""
        return set(self._groups)

    def of(self, group: Group) -> tuple[list[StatefulSet], list[Pod]]:
        """A group's sets, and their pods."""
        sets = list(self._groups.get(group, {}).values())
        return sets, [found for each in sets for found in self._pods.get(each.uid, {}).values()]

    def _set_changed(self, before: StatefulSet | None, after: StatefulSet | None) -> None:
        if before is not None:
            self._sets.pop(before.uid, None)
            its = self._groups.get(_group(before), {})
            its.pop(before.uid, None)
            if not its:
                self._groups.pop(_group(before), None)
        if after is not None:
            self._sets[after.uid] = after
            self._groups.setdefault(_group(after), {})[after.uid] = after
        for found in filter(None, (before, after)):
            self._changed(_group(found))

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and before.owner_uid in self._pods:
            owned = self._pods[before.owner_uid]
            owned.pop(before.uid, None)
            if not owned:
                del self._pods[before.owner_uid]
        if after is not None and after.owner_kind == "StatefulSet":
            self._pods.setdefault(after.owner_uid, {})[after.uid] = after
        for found in filter(None, (before, after)):
            if owner := self._sets.get(found.owner_uid):
                self._changed(_group(owner))


def _group(found: StatefulSet) -> Group:
    return found.namespace, found.labels.get(GROUP_LABEL, "")


def _kept_set(item: dict[str, Any]) -> StatefulSet:
    """Without its template, and without the annotation of `kubectl apply`."""
    found = stateful_set(item)
    return replace(found, annotations={key: text for key, text in found.annotations.items() if key != _APPLIED})


def _kept_pod(item: dict[str, Any]) -> Pod:
    """The pod's owner, its revision, and whether it is ready. Strings that pods share are in memory once."""
    found = pod(item)
    labels = {REVISION_LABEL: sys.intern(found.revision)} if found.revision else _NOTHING
    return replace(
        found,
        namespace=sys.intern(found.namespace),
        labels=labels,
        annotations=_NOTHING,
        owner_kind=sys.intern(found.owner_kind),
        owner_name=sys.intern(found.owner_name),
        owner_uid=sys.intern(found.owner_uid),
        owner_group=sys.intern(found.owner_group),
        node=sys.intern(found.node),
        phase=sys.intern(found.phase),
    )
