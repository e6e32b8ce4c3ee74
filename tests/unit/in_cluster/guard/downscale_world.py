"""Two zones whose pods are prepared before they go, and pods that answer as a test says."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tests.unit.in_cluster.guard.core.builders import request_of, review_of, scale, workload
from tests.unit.in_cluster.guard.fake_api import FakeApi
from upgrader.in_cluster.guard.core.admission import AdmissionRequest, Answer
from upgrader.in_cluster.guard.core.group_lease import GroupLease, read
from upgrader.in_cluster.guard.guard_errors import ApiAway
from upgrader.in_cluster.guard.roles.downscale_history import DownscaleHistory
from upgrader.in_cluster.guard.roles.group_locks import GroupLocks
from upgrader.in_cluster.guard.roles.prepare_downscale import PrepareDownscale
from upgrader.in_cluster.guard.roles.run_lease import LEASES, RunLease
from upgrader.in_cluster.guard.roles.workload_cache import PODS, STATEFUL_SETS
from upgrader.in_cluster.guard.runtime.pod_calls import PodCalls
from upgrader.in_cluster.guard.runtime.resource import Resource

GROUP = ("shop", "db")
LEASE = LEASES.path("ops", "guard-group.shop.db")
MARKS = {
    "grafana.com/prepare-downscale-http-path": "prepare",
    "grafana.com/prepare-downscale-http-port": "80",
}


def stateful_set(
    name: str,
    replicas: int = 3,
    generation: int = 1,
    labels: Mapping[str, str] = MappingProxyType({}),
    uid: str = "",
) -> dict[str, Any]:
    """One of a group, whole, whose pods are prepared."""
    marks = {"rollout-group": "db", "grafana.com/prepare-downscale": "true", **labels}
    meta = {
        "name": name,
        "uid": uid or f"uid-{name}",
        "generation": generation,
        "labels": marks,
        "annotations": dict(MARKS),
    }
    spec = {
        "replicas": replicas,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": name}},
        "template": {},
        "updateStrategy": {"type": "OnDelete"},
    }
    status = {
        "observedGeneration": generation,
        "replicas": replicas,
        "readyReplicas": replicas,
        "currentRevision": "v1",
        "updateRevision": "v1",
    }
    return {"metadata": meta, "spec": spec, "status": status}


def pod(of: str, number: int, *, phase: str = "Running", owner: str = "") -> dict[str, Any]:
    """A set's, ready if it runs, at the IP NAME-NUMBER. `owner`: its set's UID."""
    meta = {
        "name": f"{of}-{number}",
        "labels": {"app": of, "controller-revision-hash": "v1"},
        "ownerReferences": [{"controller": True, "kind": "StatefulSet", "name": of, "uid": owner or f"uid-{of}"}],
    }
    running = phase == "Running"
    state = {"type": "Ready", "status": str(running), "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {
        "phase": phase,
        "podIP": f"ip-{of}-{number}",
        "conditions": [state],
        "containerStatuses": [{"ready": running}],
    }
    return {"metadata": meta, "spec": {"containers": []}, "status": status}


class FakeCalls(PodCalls):
    """Answers 200 unless `answers` says otherwise, by the pod's IP; `before` is done before each answer."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[str] = []
        self.answers: dict[str, tuple[int, bytes, str]] = {}
        self.before: Any = None

    async def send(
        self, method: str, ip: str, *, scheme: str, port: int, path: str, host: str
    ) -> tuple[int, bytes, str]:
        self.sent.append(f"{method} {ip}")
        if self.before:
            await self.before()
        return self.answers.get(ip, (200, b"", ""))


class World:
    """Zones a and b, of three pods each."""

    def __init__(self) -> None:
        self.api, self.calls, self.time = FakeApi(), FakeCalls(), 1000.0
        self.tracker = ""
        for name in ("a", "b"):
            self.put(stateful_set(name), *(pod(name, number) for number in range(3)))

    def put(self, *objects: Mapping[str, Any]) -> None:
        """Sets and pods, in `shop`."""
        for each in objects:
            self.api.put(STATEFUL_SETS if "template" in each["spec"] else PODS, each, "shop")

    def remove(self, resource: Resource, name: str) -> None:
        """From `shop`."""
        del self.api.objects[resource.path("shop", name)]

    def shrink(self, name: str, replicas: int) -> None:
        """The API server has stored it, and the controller has done it."""
        self.put(stateful_set(name, replicas, generation=2))
        for path in [path for path in self.api.objects if path.startswith(PODS.path("shop", f"{name}-"))]:
            if int(path.rpartition("-")[2]) >= replicas:
                del self.api.objects[path]

    def locks(self) -> GroupLocks:
        """Those of one process."""
        return GroupLocks(self.api, "ops", clock=lambda: self.time, now=lambda: self.time)

    def webhook(self, *, held: bool = False, dry_run: bool = False, by_label: bool = False) -> PrepareDownscale:
        """That of a process of its own."""
        return PrepareDownscale(
            self.api,
            self.locks(),
            self.calls,
            run_lease=RunLease(self.api) if held else None,
            history=DownscaleHistory(self.api, self.tracker),
            cluster_domain="cluster.local.",
            timeout_seconds=10,
            dry_run=dry_run,
            by_label=lambda _: by_label,
        )

    def lease(self) -> GroupLease:
        """What the group's Lease says."""
        return read(self.api.objects.get(LEASE))

    def writes(self) -> list[str]:
        """What was written, whatever it was."""
        return [call for call in self.api.calls if call.split()[0] in ("create", "replace", "patch", "delete")]


def request(name: str = "a", before: int = 3, after: int = 1, **changes: Any) -> AdmissionRequest:
    """A set's update, or its Scale's with a subResource."""
    of = scale if changes.get("subResource") else workload
    old, new = of(before), of(after)
    return request_of(review_of(name=name, namespace="shop", oldObject=old, object=new, **changes))


def why(answer: Answer) -> str:
    """Why it is refused."""
    assert (answer.allowed, answer.code) == (False, 403), answer
    return answer.message.partition(" is not allowed ")[2].removeprefix("because ")


AWAY = ApiAway("away")
