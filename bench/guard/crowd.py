"""2,000 StatefulSets and 20,000 pods on an API server, all whole and Ready, made by parallel requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upgrader.in_cluster.guard.guard_errors import ApiAway, Conflict
from upgrader.in_cluster.guard.roles.workload_cache import PODS, STATEFUL_SETS
from upgrader.in_cluster.guard.roles.zone_budget_books import ZONE_BUDGETS
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.connection import by_kubeconfig

__all__ = ["Crowd", "budget", "crowded", "manifests"]

_NAMESPACE = "shop"
_AT_ONCE = 24
_TRIES = 5
_AGAIN_SECONDS = 2.0
_MOST_SECONDS = 3600.0
"""Until all are made."""
_SINCE = "2026-01-01T00:00:00Z"


@dataclass(frozen=True)
class Crowd:
    """How many there are to be. Each group has `zones` sets, and a zone-aware budget."""

    sets: int = 2000
    pods_of_each: int = 10
    zones: int = 4

    @property
    def pods(self) -> int:
        """Of all sets."""
        return self.sets * self.pods_of_each


def crowded(kubeconfig: Path, crowd: Crowd) -> None:
    """Make them. Raises TimeoutError after an hour, and what the API refuses."""
    asyncio.run(_made(kubeconfig, crowd))


def manifests(crowd: Crowd) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each set, and its budget ({} but for a group's first one)."""
    for number in range(crowd.sets):
        group, name = f"crowd-{number // crowd.zones:04}", f"crowd-{number:04}"
        selected = {"rollout-group": group}
        meta = {"name": name, "labels": {"app": name, **selected}}
        spec = {
            "replicas": crowd.pods_of_each,
            "serviceName": name,
            "selector": {"matchLabels": {"app": name}},
            "updateStrategy": {"type": "OnDelete"},
            "template": {"metadata": {"labels": {"app": name, **selected}}, "spec": _POD},
        }
        yield (
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec},
            budget(group) if number % crowd.zones == 0 else {},
        )


def budget(group: str) -> dict[str, Any]:
    """A zone-aware one, of a pod at a time."""
    known = {
        "apiVersion": ZONE_BUDGETS.api_version,
        "kind": "ZoneAwarePodDisruptionBudget",
        "metadata": {"name": group},
    }
    return {**known, "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"rollout-group": group}}}}


async def _made(kubeconfig: Path, crowd: Crowd) -> None:
    async with Api(by_kubeconfig(kubeconfig), timeout_seconds=60) as api, asyncio.timeout(_MOST_SECONDS):

        async def one(given: tuple[dict[str, Any], dict[str, Any]]) -> None:
            manifest, limit = given
            if limit:
                await _again(lambda: api.create(ZONE_BUDGETS, limit, _NAMESPACE))
            await _again(lambda: api.create(STATEFUL_SETS, manifest, _NAMESPACE))
            name, replicas = manifest["metadata"]["name"], crowd.pods_of_each
            found: Any = await api.get(STATEFUL_SETS, name, _NAMESPACE)
            for number in range(replicas):
                await _pod(api, found, number)
            counts = {"replicas": replicas, "readyReplicas": replicas, "observedGeneration": 1}
            revisions = {"updateRevision": f"{name}-v1", "currentRevision": f"{name}-v1"}
            status = {"status": {**counts, **revisions}}
            await _again(lambda: api.patch(STATEFUL_SETS, name, status, _NAMESPACE, subresource="status"))

        await _each(manifests(crowd), one)


async def _pod(api: Api, owner: Any, number: int) -> None:
    name = f"{owner['metadata']['name']}-{number}"
    labels = {
        **owner["spec"]["template"]["metadata"]["labels"],
        "controller-revision-hash": f"{owner['metadata']['name']}-v1",
        "apps.kubernetes.io/pod-index": str(number),
        "statefulset.kubernetes.io/pod-name": name,
    }
    known = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": owner["metadata"]["name"]}
    its = {**known, "uid": owner["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}
    meta = {"name": name, "labels": labels, "ownerReferences": [its]}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": owner["spec"]["template"]["spec"]}
    await _again(lambda: api.create(PODS, manifest, _NAMESPACE))
    status = _status(f"10.{number}.0.1")
    await _again(lambda: api.patch(PODS, name, {"status": status}, _NAMESPACE, subresource="status"))


def _status(ip: str) -> dict[str, Any]:
    """As a kubelet writes it."""
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    image = "registry.example/team/database:1.2.3"
    container = {
        "name": "database",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "image": image,
        "imageID": f"registry.example/team/database@sha256:{'0' * 64}",
        "containerID": f"containerd://{'0' * 64}",
        "state": {"running": {"startedAt": _SINCE}},
    }
    return {
        "phase": "Running",
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": _SINCE,
        "conditions": [{"type": each, "status": "True", "lastTransitionTime": _SINCE} for each in kinds],
        "containerStatuses": [container],
    }


async def _each(
    what: Iterator[tuple[dict[str, Any], dict[str, Any]]],
    one: Callable[[tuple[dict[str, Any], dict[str, Any]]], Awaitable[None]],
) -> None:
    async def worker() -> None:
        for given in what:
            await one(given)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(worker())


async def _again(what: Callable[[], Awaitable[object]]) -> None:
    """Until the server takes it: an answer that didn't come may have been a yes, so that it is there already."""
    for left in reversed(range(_TRIES)):
        try:
            await what()
        except Conflict:
            return
        except ApiAway:
            if not left:
                raise
            await asyncio.sleep(_AGAIN_SECONDS)
        else:
            return


_POD: dict[str, Any] = {
    "terminationGracePeriodSeconds": 0,
    "containers": [
        {
            "name": "database",
            "image": "registry.example/team/database:1.2.3",
            "args": [f"-setting.{each}=value" for each in range(10)],
            "env": [{"name": f"VARIABLE_{each}", "value": "value"} for each in range(10)],
            "ports": [{"name": f"port-{each}", "containerPort": 8000 + each} for each in range(3)],
            "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}},
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8000}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
    ],
    "volumes": [{"name": "data", "emptyDir": {}}],
}
"""Of usual size: what guard doesn't keep of it has to be read all the same."""
