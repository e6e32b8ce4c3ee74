"""The StatefulSets that are in groups, and the pods that they own, by group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from upgrader.guard.core.rollout import GROUP_LABEL
from upgrader.guard.core.workloads import Pod, StatefulSet, pod, stateful_set
from upgrader.guard.runtime.api_client import Api
from upgrader.guard.runtime.informer import Informer
from upgrader.guard.runtime.resource import Object, Resource

__all__ = ["PODS", "STATEFUL_SETS", "Group", "WorkloadCache"]

STATEFUL_SETS = Resource("apps/v1", "statefulsets")
PODS = Resource("v1", "pods")
Group = tuple[str, str]
"""Namespace, and the label's value."""


class WorkloadCache:
    """Of one namespace. `changed` is told each group of which something is another now."""

    def __init__(self, api: Api, namespace: str, changed: Callable[[Group], None]) -> None:
        self._changed = changed
        self._sets: dict[str, StatefulSet] = {}
        self._pods: dict[str, dict[str, Pod]] = {}
        sets = Informer(api, STATEFUL_SETS, namespace, labels=GROUP_LABEL, keep=_kept_set)
        pods = Informer(api, PODS, namespace, keep=_kept_pod)
        sets.tell(self._set_changed)
        pods.tell(self._pod_changed)
        self.informers = (sets, pods)

    @property
    def synced(self) -> bool:
        """Whether all were listed."""
        return all(informer.synced.is_set() for informer in self.informers)

    def groups(self) -> set[Group]:
        """All that there are."""
        return {_group(each) for each in self._sets.values()}

    def of(self, group: Group) -> tuple[list[StatefulSet], list[Pod]]:
        """A group's sets, and their pods."""
        sets = [each for each in self._sets.values() if _group(each) == group]
        return sets, [found for each in sets for found in self._pods.get(each.uid, {}).values()]

    def _set_changed(self, before: Object | None, after: Object | None) -> None:
        for item in filter(None, (before, after)):
            found = stateful_set(item)
            if item is after:
                self._sets[found.uid] = found
            elif after is None or after["metadata"]["uid"] != found.uid:
                self._sets.pop(found.uid, None)
            self._changed(_group(found))

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        for item in filter(None, (before, after)):
            found = pod(item)
            if found.owner_kind != "StatefulSet":
                continue
            owned = self._pods.setdefault(found.owner_uid, {})
            if item is after:
                owned[found.uid] = found
            elif after is None or after["metadata"]["uid"] != found.uid:
                owned.pop(found.uid, None)
                if not owned:
                    del self._pods[found.owner_uid]
            if owner := self._sets.get(found.owner_uid):
                self._changed(_group(owner))


def _group(found: StatefulSet) -> Group:
    return found.namespace, found.labels.get(GROUP_LABEL, "")


_META = ("namespace", "name", "uid", "resourceVersion", "generation", "labels", "annotations", "deletionTimestamp")


def _kept_set(item: dict[str, Any]) -> Object:
    """Without its template."""
    spec = {key: value for key, value in item["spec"].items() if key not in ("template", "volumeClaimTemplates")}
    return {"metadata": _part(item["metadata"], _META), "spec": spec, "status": item.get("status") or {}}


def _kept_pod(item: dict[str, Any]) -> Object:
    """Whose it is, and whether it is ready."""
    meta, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    return {
        "metadata": {**_part(meta, _META[:-2]), **_part(meta, ("ownerReferences", "deletionTimestamp"))},
        "spec": _part(spec, ("nodeName",)),
        "status": {
            "phase": status.get("phase"),
            "podIP": status.get("podIP"),
            "conditions": [c for c in status.get("conditions") or () if c.get("type") in ("Ready", "PodScheduled")],
            "containerStatuses": [{"ready": c.get("ready")} for c in status.get("containerStatuses") or ()],
        },
    }


def _part(of: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: of[key] for key in keys if key in of}
