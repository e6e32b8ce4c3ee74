"""The gates that stand behind every step: checkpoints, nodes and critical pods."""

from __future__ import annotations

from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_daemonset, add_node, add_pod, crashed, running
from upgrader.errors import ApiUnavailable
from upgrader.gates import kubernetes_kinds as kinds
from upgrader.gates.checkpoint_gate import CheckpointGate
from upgrader.gates.critical_pods_gate import CriticalPodsGate
from upgrader.gates.nodes_gate import NodesGate
from upgrader.model.cluster import Cluster
from upgrader.model.outcome import VerdictKind
from upgrader.model.workload import CHECKPOINT_OF, WorkloadRef
from upgrader.pipeline import Gate
from upgrader.ports import KubeObject

REF = WorkloadRef("DaemonSet", "kube-system", "pod-checkpointer")


@pytest.fixture
def checkpoint(kube: FakeKube, cluster: Cluster) -> CheckpointGate:
    """The gate of a checkpointer that is Ready on both controllers, with its own static copies beside it."""
    add_daemonset(kube, "pod-checkpointer", desired=2)
    for node in ("controller-1", "controller-2"):
        add_pod(kube, "pod-checkpointer", node=node, daemon=True)
        add_pod(kube, "x", name=f"copy-{node}", node=node, labels={CHECKPOINT_OF: "pod-checkpointer"})
    return CheckpointGate(kube, FakeClock(), cluster, REF)


@pytest.fixture
def nodes(kube: FakeKube, cluster: Cluster, clock: FakeClock) -> NodesGate:
    """The gate of three healthy nodes."""
    for name in ("controller-1", "controller-2", "worker-1"):
        add_node(kube, name)
    return NodesGate(kube, clock, cluster)


def test_ready_checkpointers_hold(checkpoint: CheckpointGate) -> None:
    """Ready everywhere, and only the checkpointer's own copies run."""
    assert checkpoint.check().kind is VerdictKind.HOLDS


def test_active_checkpoint_is_said_but_stops_nobody(checkpoint: CheckpointGate, kube: FakeKube) -> None:
    """A copy stands in where a pod is gone; bringing that back is the next step's work, so this one goes on."""
    add_pod(kube, "x", name="copy", labels={CHECKPOINT_OF: "kube-apiserver"})
    verdict = checkpoint.check()
    assert verdict.kind is VerdictKind.HOLDS
    assert verdict.reason.endswith("standby pods run for kube-apiserver on controller-1")


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


def test_healthy_nodes_hold(nodes: NodesGate) -> None:
    """All Ready by a fresh heartbeat, without pressure."""
    assert nodes.check().reason == "3 of 3 nodes Ready"


@pytest.mark.parametrize(
    ("conditions", "said"),
    [
        ({"Ready": "False"}, "node worker-1 is not Ready (False)"),
        ({"Ready": "Unknown"}, "node worker-1 is not Ready (Unknown)"),
        ({"MemoryPressure": "True"}, "node worker-1 has MemoryPressure (True)"),
        ({"DiskPressure": "Unknown"}, "node worker-1 has DiskPressure (Unknown)"),
    ],
)
def test_node_conditions(nodes: NodesGate, kube: FakeKube, conditions: dict[str, str], said: str) -> None:
    """Not Ready, under pressure, or not known to be without: each keeps the gate from holding."""
    add_node(kube, "worker-1", conditions=conditions)
    verdict = nodes.check()
    assert verdict.kind is VerdictKind.PENDING
    assert said in verdict.reason


def test_old_heartbeat_is_not_ready(nodes: NodesGate, kube: FakeKube, clock: FakeClock) -> None:
    """With no controller-manager to notice, `Ready` outlives the kubelet: its Lease doesn't."""
    clock.sleep(39)
    assert nodes.check().kind is VerdictKind.HOLDS
    clock.sleep(2)
    assert "no fresh heartbeat: the last was 41 s ago" in nodes.check().reason


def test_node_without_heartbeat(nodes: NodesGate, kube: FakeKube) -> None:
    """A kubelet that never renewed its Lease is not known to live."""
    add_node(kube, "worker-2", renewed="")
    assert "worker-2 has no heartbeat" in nodes.check().reason


def test_missing_node_is_named(nodes: NodesGate, kube: FakeKube) -> None:
    """A machine of the inventory that isn't in the cluster is a problem, not one node less to look at."""
    kube.delete(kinds.NODES, "controller-2")
    assert nodes.check().reason == "node controller-2 is not in the cluster"


def test_cordoned_controller_does_not_hold(nodes: NodesGate, kube: FakeKube) -> None:
    """A surge needs a controller that takes pods; a worker that its operator cordoned is none of ours."""
    add_node(kube, "worker-1", cordoned=True)
    assert nodes.check().kind is VerdictKind.HOLDS
    add_node(kube, "controller-1", cordoned=True)
    assert "kubectl uncordon controller-1" in nodes.check().reason


def test_critical_pods_hold(kube: FakeKube) -> None:
    """Ready critical pods hold; copies, finished, leaving and uncritical ones are left out."""
    add_pod(kube, "a", priority_class="system-node-critical")
    critical = "system-cluster-critical"
    add_pod(kube, "b", crashed(), priority_class=critical, labels={CHECKPOINT_OF: "kube-apiserver"})
    add_pod(kube, "c", crashed(), priority_class=critical, phase="Succeeded")
    add_pod(kube, "d", crashed(), priority_class=critical, deleting=True)
    add_pod(kube, "e", crashed())
    assert CriticalPodsGate(kube).check().reason == "1 of 1 critical pods Ready"


def test_critical_pod_that_fails_is_explained(kube: FakeKube) -> None:
    """Which pod, which container, and why."""
    pod = add_pod(kube, "dns", crashed(), priority_class="system-cluster-critical")
    kube.log_texts[pod, "main", False] = "panic: no upstream\n"
    verdict = CriticalPodsGate(kube).check()
    assert verdict.kind is VerdictKind.BROKEN
    assert f"pod {pod}" in verdict.reason and "panic: no upstream" in verdict.reason


def test_no_critical_pod_at_all_is_unknown(kube: FakeKube) -> None:
    """All of none is not health."""
    assert CriticalPodsGate(kube).check().kind is VerdictKind.UNKNOWN


def test_api_away_is_unknown(checkpoint: CheckpointGate, nodes: NodesGate, kube: FakeKube) -> None:
    """None of them raises, and none of them takes silence for an answer."""
    kube.unavailable = True
    gates: list[Gate] = [checkpoint, nodes, CriticalPodsGate(kube)]
    assert [gate.check().kind for gate in gates] == [VerdictKind.UNKNOWN] * 3


def test_node_problem_names_the_command_that_shows_more(nodes: NodesGate, kube: FakeKube) -> None:
    """The remedy is about the node that the reason names."""
    add_node(kube, "worker-1", conditions={"DiskPressure": "True"})
    assert "kubectl describe node worker-1" in nodes.check().remedy


def test_unanswered_question_names_what_to_check(nodes: NodesGate, kube: FakeKube) -> None:
    """Where the API's error has no remedy of its own, the API server is what to check."""
    kube.unavailable = True
    assert "kubectl get --raw '/readyz?verbose'" in nodes.check().remedy


def test_checkpoints_that_cannot_be_listed_are_unknown(
    checkpoint: CheckpointGate, kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API may fail between two reads: what the first one found is no answer to the second."""
    every = kube.list

    def only_workloads(*arguments: Any, labels: str = "", **more: Any) -> tuple[KubeObject, ...]:
        if labels == CHECKPOINT_OF:
            raise ApiUnavailable("connection reset")
        return every(*arguments, labels=labels, **more)

    monkeypatch.setattr(kube, "list", only_workloads)
    verdict = checkpoint.check()
    assert (verdict.kind, verdict.reason) == (VerdictKind.UNKNOWN, "checkpoints: connection reset")
