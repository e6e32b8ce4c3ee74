"""What a rehearsal writes, always as a dry run: an object again as it is, and a new one that is like it."""

from __future__ import annotations

import copy
from typing import Any

_OWN = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generateName",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
)
"""Of its metadata: what another object can't have."""
_OF_ONE_SERVICE = ("clusterIP", "clusterIPs", "healthCheckNodePort")
_OF_ONE_JOB = ("controller-uid", "batch.kubernetes.io/controller-uid", "job-name", "batch.kubernetes.io/job-name")
_LONGEST = 63
_GROUP = "rehearsal.invalid"


def key_of(item: dict[str, Any]) -> tuple[str, str]:
    """Namespace and name."""
    metadata = item["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def like(item: dict[str, Any]) -> dict[str, Any]:
    """Another object of the same content, in the same namespace."""
    made: dict[str, Any] = copy.deepcopy(item)
    made.pop("status", None)
    metadata = made["metadata"]
    for name in _OWN:
        metadata.pop(name, None)
    metadata["name"] = f"r-{metadata['name']}"[:_LONGEST].rstrip("-.")
    spec = made.get("spec")
    if isinstance(spec, dict):
        kind = made["kind"]
        if kind == "Service":
            _without_addresses(spec)
        elif kind == "Job" and not spec.get("manualSelector"):
            spec.pop("selector", None)
            labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
            for name in _OF_ONE_JOB:
                labels.pop(name, None)
        elif kind == "CustomResourceDefinition":
            spec["group"] = _GROUP
            metadata["name"] = f"{spec['names']['plural']}.{_GROUP}"
            (metadata.get("annotations") or {}).pop("api-approved.kubernetes.io", None)
    return made


def owner(item: dict[str, Any]) -> str:
    """The UID of its controller, which makes all that it owns from one template; "" without one."""
    references = item["metadata"].get("ownerReferences") or []
    return next((str(each.get("uid")) for each in references if each.get("controller")), "")


def changed_fields(before: Any, after: Any, path: str = "") -> set[str]:
    """The paths at which two objects differ; below what users name themselves, only the map's own path."""
    if before == after:
        return set()
    if not (isinstance(before, dict) and isinstance(after, dict)) or path.endswith(_NAMED_BY_USERS):
        return {path.lstrip(".")}
    return {
        found
        for key in before.keys() | after.keys()
        if f"{path}.{key}" != ".metadata.managedFields"
        for found in changed_fields(before.get(key), after.get(key), f"{path}.{key}")
    }


_NAMED_BY_USERS = (".data", ".stringData", ".binaryData", ".annotations", ".labels", ".matchLabels", ".selector")


def _without_addresses(spec: dict[str, Any]) -> None:
    if spec.get("clusterIP") != "None":  # a headless Service says so here
        for name in _OF_ONE_SERVICE:
            spec.pop(name, None)
    for port in spec.get("ports") or ():
        port.pop("nodePort", None)
