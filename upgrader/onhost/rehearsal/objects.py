"""What a rehearsal writes, always as a dry run: an object again as it is, and a new one that is like it."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

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
_WITH_OWN_SPEC = ("CustomResourceDefinition", "Job", "Service")
"""Kinds whose specs have what another object can't have."""
_APPROVED = "api-approved.kubernetes.io"
_LONGEST = 63
_GROUP = "rehearsal.invalid"
_OTHER_ADDRESS = ("192.0.2.1", "2001:db8::1")
"""Of IPv4 and of IPv6, for documentation: no Service has it."""
_MAKES_ALIKE = frozenset(
    {("v1", "ReplicationController"), ("v1", "Service"), ("batch", "CronJob"), ("batch", "Job")}.union(
        ("apps", kind) for kind in ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
    )
)
_HASHES = ("pod-template-hash", "controller-revision-hash", "controller.kubernetes.io/hash")
"""Labels that controllers give to what they make."""
_HIGHEST_PRIORITY = 1000000000
"""Of a class that isn't the server's own."""


def key_of(item: dict[str, Any]) -> tuple[str, str]:
    """Namespace and name."""
    metadata = item["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def like(item: dict[str, Any], *, named_alike: bool = False) -> dict[str, Any]:
    """Another object of the same content, in the same namespace. It shares what it has in common with the first one;
    also its name, if they are `named_alike`, so that a server that would take it says that it exists.
    """
    made = {field: value for field, value in item.items() if field != "status"}
    metadata = made["metadata"] = {field: value for field, value in item["metadata"].items() if field not in _OWN}
    kind, name, spec = made["kind"], metadata["name"], made.get("spec")
    if not named_alike:
        metadata["name"] = f"r-{name}"[:_LONGEST].rstrip("-.")
    if kind == "IPAddress" and not named_alike:
        metadata["name"] = _OTHER_ADDRESS[":" in name]
    elif kind == "PriorityClass":
        made["value"] = min(made.get("value") or 0, _HIGHEST_PRIORITY)
    if isinstance(spec, dict) and kind in _WITH_OWN_SPEC:
        spec = made["spec"] = copy.deepcopy(spec)
        if kind == "Service":
            _without_addresses(spec)
        elif kind == "Job" and not spec.get("manualSelector"):
            spec.pop("selector", None)
            labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
            for label in _OF_ONE_JOB:
                labels.pop(label, None)
        elif kind == "CustomResourceDefinition" and not named_alike:
            spec["group"] = _GROUP
            metadata["name"] = f"{spec['names']['plural']}.{_GROUP}"
            if metadata.get("annotations"):
                metadata["annotations"] = {
                    name: text for name, text in metadata["annotations"].items() if name != _APPROVED
                }
    return made


def owner(item: dict[str, Any]) -> str:
    """The UID of its controller, and the hash of the template that it was made from, if that makes all that it owns of
    one kind alike; "" otherwise. What a custom resource owns may be of many shapes, and so are a node's static pods.
    """
    metadata = item["metadata"]
    references, labels = metadata.get("ownerReferences") or [], metadata.get("labels") or {}
    uid = next((str(each.get("uid")) for each in references if each.get("controller") and _makes_alike(each)), "")
    # A Deployment has ReplicaSets of earlier templates, which a rollback uses again.
    made_from = [str(labels.get(name) or "") for name in _HASHES]
    return " ".join(filter(None, (uid, *made_from, str(item.get("addressType") or "")))) if uid else ""


def _makes_alike(reference: dict[str, Any]) -> bool:
    return (str(reference.get("apiVersion")).partition("/")[0], reference.get("kind")) in _MAKES_ALIKE


class Differences(NamedTuple):
    """What differs between an object as two versions read it: paths of keys, without the numbers of items."""

    lost: set[tuple[str, ...]]
    """The later one has another value, or none."""
    added: set[tuple[str, ...]]
    """Only the later one has a value: a default, or a field that the other version doesn't know."""


def differences(before: Any, after: Any) -> Differences:
    """Between two objects in their JSON form; a null is no value, and neither is an empty status."""
    found = _Found(set(), set(), set())
    _differ(before, after, (), found)
    return Differences(found.lost | found.longer, found.added)


def not_written(sent: dict[str, Any], returned: dict[str, Any]) -> frozenset[tuple[str, ...]]:
    """What a server has dropped or changed, of an object that it has accepted, without what is the server's to set:
    paths as in `Differences`.
    """
    found = _Found(set(), set(), set())
    _differ(sent, returned, (), found)
    return frozenset(path for path in found.lost if path[0] != "metadata" or path[1] not in _OWN)


class _Found(NamedTuple):
    lost: set[tuple[str, ...]]
    longer: set[tuple[str, ...]]
    """Lists in which the later one has all items, in the same order, and more."""
    added: set[tuple[str, ...]]


def _differ(before: Any, after: Any, path: tuple[str, ...], found: _Found) -> None:
    if path == ("metadata", "managedFields"):
        return
    if path == ("status",):
        before, after = before or None, after or None
    if before == after:
        return
    if before is None:
        found.added.add(path)
    elif isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            _differ(before.get(key), after.get(key), (*path, key), found)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, one in enumerate(before):
            _differ(one, after[number], path, found)
    elif isinstance(before, list) and isinstance(after, list) and _has_all(after, before):
        found.longer.add(path)
    else:
        found.lost.add(path)


def _has_all(items: list[Any], wanted: list[Any]) -> bool:
    rest = iter(items)
    return all(each in rest for each in wanted)


def _without_addresses(spec: dict[str, Any]) -> None:
    if spec.get("clusterIP") != "None":  # a headless Service says so here
        for name in _OF_ONE_SERVICE:
            spec.pop(name, None)
    for port in spec.get("ports") or ():
        port.pop("nodePort", None)
