"""`python -m bench.guard.looks`: the CPU time of guard's decisions among 500 PodProtectors and 20,000 pods.

No cluster: the roles are guard's own, on an API in memory. So what HTTP and TLS cost isn't in it, and neither is what
else the machine does.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from bench.guard.asking import deletion
from bench.guard.kept import keep
from bench.guard.page import Reached
from bench.places import PAGES
from upgrader.in_cluster.guard.core.admission import parse
from upgrader.in_cluster.guard.core.protector import Tuning
from upgrader.in_cluster.guard.guard_errors import Conflict
from upgrader.in_cluster.guard.roles.aggregator import Aggregator
from upgrader.in_cluster.guard.roles.pods_of_cell import PODS, PodsOfCell
from upgrader.in_cluster.guard.roles.protector_cache import POD_PROTECTORS, NewestProtectors, ProtectorCache
from upgrader.in_cluster.guard.roles.protector_webhook import CellWebhook, ProtectorWriter
from upgrader.in_cluster.guard.roles.silent_cells import SilentCells
from upgrader.in_cluster.guard.roles.young_pods import YoungPods
from upgrader.in_cluster.guard.runtime.api_client import Api, Page
from upgrader.in_cluster.guard.runtime.connection import Connection, Credentials
from upgrader.in_cluster.guard.runtime.leadership import Leadership
from upgrader.in_cluster.guard.runtime.metrics import Metrics
from upgrader.in_cluster.guard.runtime.protector_metrics import ProtectorMetrics
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

__all__ = ["how", "main", "measured"]

_CELL, _NAMESPACE = "one", "shop"
_OF_A_DELETION = ("answer", "event", "look")
"""The webhook's; the aggregator's, as the pod goes; and its look at the PodProtector, which it counts and writes."""
_FIRST = "first look"
"""After the aggregator's start."""


def main() -> int:
    """0 when the longest look is within its limit."""
    parser = argparse.ArgumentParser(prog="python -m bench.guard.looks", description=__doc__)
    parser.add_argument("--protectors", type=int, default=500, metavar="N", help="default: %(default)s")
    parser.add_argument("--pods-of-each", type=int, default=40, metavar="N", help="default: %(default)s")
    parser.add_argument("--out", type=Path, default=PAGES, help="folder of the page")
    options = parser.parse_args()
    found = measured(options.protectors, options.pods_of_each)
    reached = Reached("look", 1000 * max(max(found[each]) for each in _OF_A_DELETION), how(found), os.getloadavg()[0])
    print(keep(options.out, reached))
    return 0 if reached.enough else 1


def measured(protectors: int, pods_of_each: int) -> dict[str, list[float]]:
    """CPU seconds of each part, for each PodProtector."""
    return asyncio.run(_measured(protectors, pods_of_each))


def how(found: Mapping[str, list[float]]) -> str:
    """For the page: the median and the longest of each part, in milliseconds."""
    parts = (f"{what} {1000 * median(each):.2f}, {1000 * max(each):.2f}" for what, each in found.items())
    return f"median and longest, in ms: {'; '.join(parts)}"


async def _measured(protectors: int, pods_of_each: int) -> dict[str, list[float]]:
    api, names = _InMemory(), [f"web-{number:03}" for number in range(protectors)]
    for name in names:
        api.put(POD_PROTECTORS, _protector(name))
        for number in range(pods_of_each):
            api.put(PODS, _pod(name, number))
    cache, metrics = ProtectorCache(api, [], Tuning()), ProtectorMetrics(Metrics())
    writer = ProtectorWriter(api, cache, metrics, NewestProtectors(cache), YoungPods(cache), SilentCells(cache))
    webhook = CellWebhook(_CELL, api, cache, writer, metrics, 5.0)
    aggregator = Aggregator(api, api, cache, _CELL, [], _Sure(api, "ops", "guard", "me"), metrics)
    pods = PodsOfCell(api, [], "", aggregator._pod_changed)
    aggregator._pods = pods
    (protected,), (counted,) = cache.informers, pods.informers
    await protected._list()
    await counted._list()
    found: dict[str, list[float]] = {each: [] for each in (_FIRST, *_OF_A_DELETION)}

    async def look(what: str, name: str) -> None:
        begun = time.process_time()
        await aggregator._look_at((_NAMESPACE, name))
        found[what].append(time.process_time() - begun)
        _seen(protected, api.objects[POD_PROTECTORS.path(_NAMESPACE, name)])

    for name in names:
        await look(_FIRST, name)
    for name in names:
        going = api.objects[PODS.path(_NAMESPACE, f"{name}-0")]
        review = deletion(going)
        begun = time.process_time()
        answer = await webhook(parse(review))
        found["answer"].append(time.process_time() - begun)
        assert answer.allowed, answer
        _seen(protected, api.objects[POD_PROTECTORS.path(_NAMESPACE, name)])
        del api.objects[PODS.path(_NAMESPACE, f"{name}-0")]
        begun = time.process_time()
        counted._set((_NAMESPACE, f"{name}-0"), "", None)
        found["event"].append(time.process_time() - begun)
        await look("look", name)
    return found


def _seen(informer: Any, item: Mapping[str, Any]) -> None:
    """The watch tells of an object."""
    key = _NAMESPACE, item["metadata"]["name"]
    informer._set(key, item["metadata"]["resourceVersion"], informer._keep(item))


def _labels(name: str) -> dict[str, str]:
    return {"app.kubernetes.io/part-of": "shop", "environment": "production", "app": name}


def _protector(name: str) -> dict[str, Any]:
    spec = {"minAvailable": 1, "minReadySeconds": 10, "selector": {"matchLabels": _labels(name)}}
    return {"metadata": {"name": name}, "spec": spec}


def _pod(name: str, number: int) -> dict[str, Any]:
    since = {"status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    labels = {**_labels(name), "pod-template-hash": "5d4f8c7b9", "apps.kubernetes.io/pod-index": str(number)}
    status = {"phase": "Running", "conditions": [{**since, "type": each} for each in ("PodScheduled", "Ready")]}
    return {"metadata": {"name": f"{name}-{number}", "labels": labels}, "status": status}


class _Sure(Leadership):
    """Leads."""

    def sure(self) -> bool:
        return True


class _InMemory(Api):
    """Objects by path; what a caller gets, it doesn't change."""

    def __init__(self) -> None:
        super().__init__(Connection("https://memory.example", _none))
        self.objects: dict[str, dict[str, Any]] = {}
        self._version = 0

    def put(self, resource: Resource, item: Mapping[str, Any]) -> dict[str, Any]:
        """An object with a new version."""
        self._version += 1
        known = {"namespace": _NAMESPACE, "uid": f"uid-{item['metadata']['name']}"}
        found = {**item, "metadata": {**known, **item["metadata"], "resourceVersion": str(self._version)}}
        self.objects[resource.path(_NAMESPACE, found["metadata"]["name"])] = found
        return found

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Object | None:
        return self.objects.get(resource.path(namespace, name))

    async def page(self, resource: Resource, namespace: str, query: Mapping[str, str], **of: Any) -> Any:
        part = resource.path(_NAMESPACE) + "/"
        found = [of["keep"](item) for path, item in self.objects.items() if path.startswith(part)]
        return Page(found, str(self._version), "", 0)

    async def replace(
        self, resource: Resource, manifest: Object, namespace: str = "", *, subresource: str = ""
    ) -> Object:
        there = self.objects[resource.path(namespace, manifest["metadata"]["name"])]
        if there["metadata"]["resourceVersion"] != manifest["metadata"]["resourceVersion"]:
            raise Conflict("it has been modified", 409)
        return self.put(resource, {**there, "status": manifest["status"]})


def _none() -> Credentials:
    raise AssertionError("nothing is asked")


if __name__ == "__main__":
    sys.exit(main())
