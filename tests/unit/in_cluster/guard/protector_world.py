"""Protectors, Deployments and pods on the API server in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.unit.in_cluster.guard.fake_api import FakeApi
from upgrader.in_cluster.guard.roles.pods_of_cell import PODS
from upgrader.in_cluster.guard.roles.protector_cache import POD_PROTECTORS, ProtectorCache
from upgrader.in_cluster.guard.runtime.leadership import Leadership

__all__ = ["LABELS", "Sure", "bucket", "counted", "pod", "protector", "put", "see", "stored", "uids"]

LABELS = {"app": "web"}


class Sure(Leadership):
    """Leads from the start; `is_sure` is the test's."""

    is_sure = True

    def sure(self) -> bool:
        return self.is_sure


def protector(
    least: int = 1, name: str = "web", cells: Mapping[str, Mapping[str, Any]] | None = None, **spec: Any
) -> dict[str, Any]:
    """Of pods with LABELS, in `shop`. `cells`: the status of each."""
    content = {"minAvailable": least, "minReadySeconds": 0, "selector": {"matchLabels": LABELS}, **spec}
    found = {"metadata": {"name": name, "labels": {}, "annotations": {}, "finalizers": []}, "spec": content}
    return found if cells is None else {**found, "status": {"cells": [{"cellID": c, **s} for c, s in cells.items()]}}


def counted(available: int, *buckets: Mapping[str, Any]) -> dict[str, Any]:
    """A cell with that many pods, all of them available."""
    kinds = ("total", "available", "ready", "scheduled", "running")
    counts = {f"{kind}Replicas": available for kind in kinds}
    return {"aggregation": counts, "admissionHistory": {"buckets": list(buckets)}}


def bucket(uid: str, *requests: str, name: str = "") -> dict[str, Any]:
    """Of one pod."""
    found: dict[str, Any] = {"startTime": "1970-01-01T00:16:40.000000Z", "podUID": uid, "requests": list(requests)}
    return {**found, "podName": name} if name else found


def pod(name: str, *, ready: bool = True, **metadata: Any) -> dict[str, Any]:
    """One with LABELS, whose UID is `uid-NAME`."""
    state = {"status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}
    conditions = [{**state, "type": "PodScheduled"}, {**state, "type": "Ready", "status": str(ready)}]
    meta = {"name": name, "uid": f"uid-{name}", "labels": LABELS, **metadata}
    return {"metadata": meta, "status": {"phase": "Running", "conditions": conditions}}


def put(api: FakeApi, *objects: Mapping[str, Any]) -> None:
    """Protectors and pods, in `shop`."""
    for each in objects:
        api.put(POD_PROTECTORS if "spec" in each else PODS, each, "shop")


def stored(api: FakeApi, name: str = "web") -> dict[str, Any]:
    """A protector as it is."""
    return api.objects[POD_PROTECTORS.path("shop", name)]


def uids(api: FakeApi, cell: str, name: str = "web") -> list[str]:
    """Of the pods whose deletion a cell has allowed and not seen."""
    (found,) = (each for each in stored(api, name)["status"]["cells"] if each["cellID"] == cell)
    return [each["podUID"] for each in found["admissionHistory"]["buckets"]]


async def see(*caches: ProtectorCache) -> None:
    """They know what there is now."""
    for cache in caches:
        for informer in cache.informers:
            await informer._list()
