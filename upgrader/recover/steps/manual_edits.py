"""Removes from a live workload what was added by hand.

Helm's rollback reverts every field that it ever set. Server-side apply keeps what is not Helm's: a container, a volume
or a variable that `kubectl edit` has added stays, and so does the crash that it causes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any

from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import WORKLOADS
from upgrader.ports import Kube, KubeObject
from upgrader.recover.steps.revision_match import Rendered

__all__ = ["additions", "take_out_edits"]

_TRIES = 5


def take_out_edits(kube: Kube, workload: Rendered, note: Callable[[str], None]) -> None:
    """Reset the live pod template to the revision's, if something was added to it; raises ApiError."""
    ref = workload.ref
    for attempt in range(1, _TRIES + 1):
        live = kube.get(WORKLOADS[ref.kind], ref.name, ref.namespace)
        added = list(additions(live["spec"]["template"]["spec"], workload.pod)) if live else []
        if live is None or not added:
            return
        note(f"{ref}: removing manually added fields: {', '.join(added)}")
        try:
            # With the version that was read: what others change meanwhile isn't overwritten.
            kube.replace(WORKLOADS[ref.kind], _with_template(live, workload.spec["template"]), ref.namespace)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT or attempt == _TRIES:
                raise
        else:
            return


def additions(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> Iterator[str]:
    """The named parts of a pod's spec that only the live one has: `container debug`, `variable DEBUG of web`, …"""
    for key, what in (("containers", "container"), ("initContainers", "init container"), ("volumes", "volume")):
        names = {item["name"] for item in wanted.get(key) or ()}
        yield from (f"{what} {item['name']}" for item in live.get(key) or () if item["name"] not in names)
    containers = {item["name"]: item for item in _containers(wanted)}
    for item in _containers(live):
        own = containers.get(item["name"])
        if own is None:
            continue
        for key, by, what in (("env", "name", "variable"), ("volumeMounts", "mountPath", "mount")):
            names = {entry[by] for entry in own.get(key) or ()}
            yield from (
                f"{what} {entry[by]} of {item['name']}" for entry in item.get(key) or () if entry[by] not in names
            )
        for path in _limits(item) - _limits(own):
            yield f"{path} of {item['name']}"


def _limits(container: Mapping[str, Any]) -> set[str]:
    """Its resources' limits; requests may be defaults that follow from them."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return {f"{name} limit" for name in limits}


def _containers(pod: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    return (*(pod.get("initContainers") or ()), *(pod.get("containers") or ()))


def _with_template(live: KubeObject, template: Mapping[str, Any]) -> KubeObject:
    return {**live, "spec": {**live["spec"], "template": template}}
