"""The gates that stand behind every step: checkpoints, nodes and critical pods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_daemonset, add_pod, running
from upgrader.contract.checkpoints import CONDITION
from upgrader.errors import ApiUnavailable
from upgrader.gates.checkpoint_gate import CheckpointGate
from upgrader.gates.critical_pods_gate import CriticalPodsGate
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.gates.node_health import NodeHealth, NodeMemory
from upgrader.gates.nodes_gate import NodesGate
from upgrader.gates.shared_reads import ReadMemory, SharedReads
from upgrader.model.cluster import Cluster
from upgrader.model.outcome import VerdictKind
from upgrader.model.workload import CHECKPOINT_OF, WorkloadRef
from upgrader.pipeline import Gate
from upgrader.ports import Kind, KubeObject

REF = WorkloadRef("DaemonSet", "kube-system", "pod-checkpointer")


@pytest.fixture
def checkpoint(kube: FakeKube, cluster: Cluster) -> CheckpointGate:
    """The gate of a checkpointer that is Ready on both controllers, with its own static copies beside it."""
    add_daemonset(kube, "pod-checkpointer", desired=2)
    for node in ("controller-1", "controller-2"):
        add_pod(kube, "pod-checkpointer", node=node, daemon=True)
        add_pod(kube, "x", name=f"copy-{node}", node=node, labels={CHECKPOINT_OF: "pod-checkpointer"})
    return CheckpointGate(kube, cluster, REF)


def test_ready_checkpointers_hold(checkpoint: CheckpointGate) -> None:
    """Ready everywhere, and only the checkpointer's own copies run."""
    assert checkpoint.check().kind is VerdictKind.HOLDS


def test_active_checkpoint_is_said_but_stops_nobody(checkpoint: CheckpointGate, kube: FakeKube) -> None:
    """A copy stands in where a pod is gone; bringing that back is the next step's work, so this one goes on."""
    add_pod(kube, "x", name="copy", labels={CHECKPOINT_OF: "kube-apiserver"})
    verdict = checkpoint.check()
    assert verdict.kind is VerdictKind.HOLDS
    assert verdict.reason.endswith("standby pods are active for kube-apiserver on controller-1")


def test_no_list_of_the_checkpoint_gate_is_of_all_pods(
    checkpoint: CheckpointGate, kube: FakeKube, cluster: Cluster, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster of a thousand nodes has tens of thousands: only those of controllers are looked at, and what the gate
    of the critical pods asks in the same round isn't asked twice.
    """
    asked: list[tuple[str, str]] = []
    every = kube.list

    def counted(kind: Kind, namespace: str = "", *, labels: str = "", fields: str = "") -> tuple[KubeObject, ...]:
        if kind == PODS:
            asked.append((namespace, fields))
        return every(kind, namespace, labels=labels, fields=fields)

    monkeypatch.setattr(kube, "list", counted)
    shared = SharedReads(kube, clock, ReadMemory())
    health = NodeHealth(shared, clock, ("controller-1", "controller-2"), NodeMemory())
    assert replace(checkpoint, kube=shared).check().kind is VerdictKind.HOLDS
    CriticalPodsGate(shared, health, cluster).check()
    assert all(where or fields for where, fields in asked)
    of_nodes = [fields for where, fields in asked if fields]
    assert sorted(of_nodes) == ["spec.nodeName=controller-1", "spec.nodeName=controller-2"]


def test_checkpointer_is_needed_on_every_controller(checkpoint: CheckpointGate, kube: FakeKube) -> None:
    """A complete DaemonSet that passes a controller by (its label is gone, say) leaves that one without a way back."""
    add_daemonset(kube, "pod-checkpointer", desired=1)
    add_pod(kube, "pod-checkpointer", node="controller-2", daemon=True, phase="Failed")
    verdict = checkpoint.check()
    assert verdict.kind is VerdictKind.PENDING
    assert "no pod on controller-2" in verdict.reason


def test_checkpointer_that_is_not_ready_says_why(checkpoint: CheckpointGate, kube: FakeKube) -> None:
    """Its readiness means that all checkpoints are current: without it the gate doesn't hold."""
    add_daemonset(kube, "pod-checkpointer", desired=2, numberReady=1, numberAvailable=1)
    add_pod(kube, "pod-checkpointer", running(ready=False), node="controller-2", daemon=True)
    verdict = checkpoint.check()
    assert verdict.kind is VerdictKind.PENDING
    assert "is running but not ready" in verdict.reason


def test_checkpointer_that_waits_for_a_new_pod_says_for_how_long(checkpoint: CheckpointGate, kube: FakeKube) -> None:
    """A new pod has to stay Ready for a while: that is no fault, and `503` of a probe looks like one."""
    add_daemonset(kube, "pod-checkpointer", desired=2, numberReady=1, numberAvailable=1)
    add_pod(kube, "pod-checkpointer", running(ready=False), node="controller-2", daemon=True)
    name = add_pod(kube, "kube-apiserver", node="controller-2", priority_class="system-node-critical")
    pod = kube.get(PODS, name, "kube-system")
    assert pod is not None
    why = "waiting until it has been Ready for 20 s"
    condition = {"type": CONDITION, "status": "False", "reason": "Proving", "message": why}
    status = {**pod["status"], "conditions": [*pod["status"]["conditions"], condition]}
    kube.put(PODS, {**pod, "status": status}, "kube-system")
    verdict = checkpoint.check()
    assert verdict.kind is VerdictKind.PENDING
    assert verdict.reason == f"no checkpoint yet of pod {name} on controller-2: {why}"
    assert "is running but not ready" in verdict.details[0]


def test_api_away_is_unknown(checkpoint: CheckpointGate, kube: FakeKube, cluster: Cluster, clock: FakeClock) -> None:
    """None of them raises, and none of them takes silence for an answer."""
    kube.unavailable = True
    health = NodeHealth(kube, clock, ("controller-1",), NodeMemory())
    gates: list[Gate] = [checkpoint, NodesGate(health, cluster), CriticalPodsGate(kube, health, cluster)]
    assert [gate.check().kind for gate in gates] == [VerdictKind.UNKNOWN] * 3


def test_checkpoints_that_cannot_be_listed_are_unknown(
    checkpoint: CheckpointGate, kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API may fail between two reads: what the first one found is no answer to the second."""
    every = kube.list

    def only_workloads(*arguments: Any, fields: str = "", **more: Any) -> tuple[KubeObject, ...]:
        if fields:
            raise ApiUnavailable("connection reset")
        return every(*arguments, fields=fields, **more)

    monkeypatch.setattr(kube, "list", only_workloads)
    verdict = checkpoint.check()
    assert (verdict.kind, verdict.reason) == (VerdictKind.UNKNOWN, "checkpoints: connection reset")
