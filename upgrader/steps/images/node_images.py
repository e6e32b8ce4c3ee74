"""Which images each node needs, and which it has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from upgrader.model.found_images import FoundImages, listed_images
from upgrader.model.image_name import full_name
from upgrader.model.pod_placement import may_run_on
from upgrader.ports import KubeObject
from upgrader.steps.images.planned_images import PlannedPods

__all__ = ["KINDS", "NodeNeeds", "needs_of", "not_ready"]

KINDS = ("architecture", "osImage", "containerRuntimeVersion")
"""What of `nodeInfo` can make a difference to whether an image can be pulled, and to its digest."""


@dataclass(frozen=True, slots=True)
class NodeNeeds:
    """What a node still needs: the workloads' pods, with the images that it doesn't list."""

    node: KubeObject
    """Only its name, its UID and what `KINDS` names: of a thousand nodes, more isn't kept."""
    pods: tuple[PlannedPods, ...]

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])


def needs_of(node: KubeObject, planned: Iterable[PlannedPods], found: FoundImages) -> NodeNeeds:
    """What a node that may run these pods doesn't list; what it lists is noted in `found`.

    A kubelet lists only 50 images, so that others may be there as well.
    """
    listed = listed_images(node)
    pods = []
    for each in planned:
        if not may_run_on(each.spec, node):
            continue
        for image in each.images:
            if not _always(image):  # whatever it has of those, it will ask the registry for what the name is by then
                found.add(image.name, node, listed.get(full_name(image.name), ()))
        missing = tuple(image for image in each.images if _always(image) or full_name(image.name) not in listed)
        if missing:
            pods.append(each if missing == each.images else replace(each, images=missing))
    return NodeNeeds(_brief(node), tuple(pods))


def _brief(node: KubeObject) -> KubeObject:
    info = (node.get("status") or {}).get("nodeInfo") or {}
    meta = {key: node["metadata"].get(key, "") for key in ("name", "uid")}
    return {"metadata": meta, "status": _status(*(str(info.get(part) or "") for part in KINDS))}


@lru_cache(maxsize=64)
def _status(*parts: str) -> KubeObject:
    """One for all nodes of a kind: a run has them for as long as its nodes pull."""
    return {"nodeInfo": dict(zip(KINDS, parts, strict=True))}


def not_ready(node: KubeObject) -> bool:
    """Whether no kubelet works there that could pull anything."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return not any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def _always(image: Any) -> bool:
    """Whether the kubelet asks the registry whenever it starts such a container."""
    latest = full_name(image.name).endswith(":latest")
    return bool(image.policy == "Always" or (not image.policy and latest))
