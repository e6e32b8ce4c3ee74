"""The gate of the critical pods: all of them on controllers, elsewhere those of workloads that are short of some."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_daemonset, add_deployment, add_down_node, add_node, add_pod, crashed, running
from upgrader.gates.critical_pods_gate import CriticalPodsGate
from upgrader.gates.critical_workloads import read_health_before
from upgrader.gates.kubernetes_kinds import STATEFUL_SETS, WORKLOADS
from upgrader.gates.node_health import NodeHealth, NodeMemory
from upgrader.model.cluster import Cluster
from upgrader.model.health_before import HealthBefore
from upgrader.model.outcome import VerdictKind
from upgrader.model.workload import CHECKPOINT_OF
from upgrader.ports import Kind

CRITICAL = "system-cluster-critical"
NODE_CRITICAL = "system-node-critical"


@pytest.fixture
def gate(kube: FakeKube, cluster: Cluster, clock: FakeClock) -> CriticalPodsGate:
    """The gate of a cluster with a critical pod on a controller, and two workers."""
    for name in ("controller-1", "controller-2", "worker-1", "worker-2"):
        add_node(kube, name)
    kube.silent_kubelets = set()
    add_pod(kube, "a", priority_class="system-node-critical")
    return CriticalPodsGate(kube, NodeHealth(kube, clock, ("controller-1", "controller-2"), NodeMemory()), cluster)


def critical(kube: FakeKube, kind: Kind, name: str) -> None:
    """Give an existing workload's pods a critical priority class."""
    found: dict[str, Any] = dict(kube.get(kind, name, "kube-system") or {})
    found["spec"]["template"] = {"spec": {"priorityClassName": CRITICAL}}
    kube.put(kind, found)


def agents(kube: FakeKube, ready: int, *containers: dict[str, Any]) -> None:
    """A critical DaemonSet on both workers, whose pod on worker-2 has these containers."""
    add_daemonset(kube, desired=2, numberReady=ready)
    critical(kube, WORKLOADS["DaemonSet"], "agent")
    add_pod(kube, "agent", node="worker-1", daemon=True, priority_class=CRITICAL)
    add_pod(kube, "agent", *containers, node="worker-2", daemon=True, priority_class=CRITICAL)


def test_critical_pods_hold(gate: CriticalPodsGate, kube: FakeKube) -> None:
    """Ready critical pods hold; copies, finished, leaving and uncritical ones are left out."""
    add_pod(kube, "b", crashed(), priority_class=CRITICAL, labels={CHECKPOINT_OF: "kube-apiserver"})
    add_pod(kube, "c", crashed(), priority_class=CRITICAL, phase="Succeeded")
    add_pod(kube, "d", crashed(), priority_class=CRITICAL, deleting=True)
    add_pod(kube, "e", crashed())
    assert gate.check().reason == "all critical pods on controllers are Ready (1)"


def test_critical_pod_that_fails_is_explained(gate: CriticalPodsGate, kube: FakeKube) -> None:
    """Which pod, which container, and why."""
    pod = add_pod(kube, "dns", crashed(), priority_class=CRITICAL)
    kube.log_texts[pod, "main", False] = "panic: no upstream\n"
    verdict = gate.check()
    assert verdict.kind is VerdictKind.BROKEN
    assert f"pod {pod}" in verdict.reason and "panic: no upstream" in verdict.reason


@pytest.mark.parametrize("node", ["controller-1", "worker-2"])
def test_network_plugin_in_a_namespace_of_its_own(gate: CriticalPodsGate, kube: FakeKube, node: str) -> None:
    """flannel's DaemonSet is in kube-flannel: without its pod, no other starts on that node."""
    add_daemonset(kube, "flannel", desired=2, numberReady=1, namespace="kube-flannel")
    found: dict[str, Any] = dict(kube.get(WORKLOADS["DaemonSet"], "flannel", "kube-flannel") or {})
    found["spec"]["template"] = {"spec": {"priorityClassName": NODE_CRITICAL}}
    kube.put(WORKLOADS["DaemonSet"], found)
    more: dict[str, Any] = {"daemon": True, "namespace": "kube-flannel", "priority_class": NODE_CRITICAL}
    add_pod(kube, "flannel", crashed(), node=node, **more)
    verdict = gate.check()
    assert verdict.kind is VerdictKind.BROKEN
    assert f"pod flannel-1-{node}" in verdict.reason


def test_others_cluster_critical_pods_are_their_owners_affair(gate: CriticalPodsGate, kube: FakeKube) -> None:
    """Outside of kube-system only what a node can't do without is the run's: any application may call itself critical
    to the cluster.
    """
    add_pod(kube, "shop", crashed(), namespace="shop", priority_class=CRITICAL)
    assert gate.check().reason == "all critical pods on controllers are Ready (1)"


def test_no_critical_pod_at_all_is_unknown(gate: CriticalPodsGate, kube: FakeKube) -> None:
    """All of none is not health; nor are those of others all that there is."""
    add_pod(kube, "a")
    add_pod(kube, "flannel", daemon=True, namespace="kube-flannel", priority_class=NODE_CRITICAL)
    assert gate.check().kind is VerdictKind.UNKNOWN


def test_failing_pod_on_a_worker(gate: CriticalPodsGate, kube: FakeKube) -> None:
    """A workload that is short of a pod on a healthy worker is explained as one on a controller is."""
    agents(kube, 1, crashed())
    verdict = gate.check()
    assert verdict.kind is VerdictKind.BROKEN
    assert "pod agent-1-worker-2 on worker-2" in verdict.reason


def test_failing_replica_on_a_worker(gate: CriticalPodsGate, kube: FakeKube) -> None:
    """A replica of a Deployment or a StatefulSet counts, also beside as many Ready ones as are wanted."""
    add_deployment(kube, "dns", replicas=2)
    found: dict[str, Any] = dict(kube.get(WORKLOADS["Deployment"], "dns", "kube-system") or {})
    found["status"]["replicas"] = 3
    kube.put(STATEFUL_SETS, found)
    critical(kube, STATEFUL_SETS, "dns")
    add_pod(kube, "dns", running(ready=False), node="worker-1", priority_class=CRITICAL)
    assert "pod dns-1-worker-1" in gate.check().reason


@pytest.mark.parametrize("why", ["down", "cordoned", "new"])
def test_pod_on_an_absent_worker_does_not_count(gate: CriticalPodsGate, kube: FakeKube, why: str) -> None:
    """A worker that reboots, is drained or has just joined can't run its pods, whatever the step did."""
    agents(kube, 1, running(ready=False))
    add_node(kube, "worker-2", cordoned=why == "cordoned", conditions={"Ready": "Unknown"} if why == "down" else None)
    known = HealthBefore(("worker-1",) if why == "new" else ("worker-1", "worker-2"))
    assert replace(gate, health_before=known).check().kind is VerdictKind.HOLDS


def test_what_was_not_ready_before_is_not_asked_for(gate: CriticalPodsGate, kube: FakeKube, cluster: Cluster) -> None:
    """Neither on a controller nor on a worker; the verdict names it."""
    agents(kube, 1, crashed())
    pod = add_pod(kube, "dns", crashed(), priority_class=CRITICAL)
    health_before = read_health_before(kube, cluster)
    assert health_before == HealthBefore(("worker-1", "worker-2"), ("DaemonSet agent", "Deployment dns"))
    verdict = replace(gate, health_before=health_before).check()
    assert verdict.kind is VerdictKind.HOLDS
    assert verdict.reason.endswith(
        "ignored, because they were not Ready before the run: DaemonSet agent, Deployment dns"
    )
    # Another revision of the same workload has other names.
    add_pod(kube, "dns", crashed(), name=pod, revision=2, priority_class=CRITICAL)
    assert replace(gate, health_before=health_before).check().kind is VerdictKind.HOLDS


def test_workload_that_lacks_pods_only_where_no_node_is_up_is_asked_for(
    gate: CriticalPodsGate, kube: FakeKube, cluster: Cluster
) -> None:
    """A dead worker doesn't make a network plugin unhealthy that works on all others: if a run breaks it, that is
    found.
    """
    agents(kube, 1, running(ready=False))
    add_down_node(kube, "worker-2")
    health_before = read_health_before(kube, cluster)
    assert health_before == HealthBefore(("worker-1",))
    known = replace(gate, health_before=health_before)
    assert known.check().kind is VerdictKind.HOLDS
    add_pod(kube, "agent", crashed(), node="worker-1", daemon=True, priority_class=CRITICAL)
    assert known.check().kind is VerdictKind.BROKEN
    # What fails elsewhere as well was unhealthy.
    assert read_health_before(kube, cluster).unready == ("DaemonSet agent",)


def test_replica_on_a_dead_worker_is_lacking(gate: CriticalPodsGate, kube: FakeKube, cluster: Cluster) -> None:
    """A Deployment's pod there is to run elsewhere: until it does, the Deployment is unhealthy."""
    add_deployment(kube, "dns", readyReplicas=0)
    critical(kube, WORKLOADS["Deployment"], "dns")
    add_pod(kube, "dns", running(ready=False), node="worker-2", priority_class=CRITICAL)
    add_down_node(kube, "worker-2")
    assert read_health_before(kube, cluster).unready == ("Deployment dns",)


def test_baseline_leaves_out_unhealthy_workers(gate: CriticalPodsGate, kube: FakeKube, cluster: Cluster) -> None:
    """What was down when the run began isn't waited for in it."""
    add_node(kube, "worker-2", conditions={"Ready": "False"})
    assert read_health_before(kube, cluster).workers == ("worker-1",)


def test_rollback_asks_for_controllers_only(gate: CriticalPodsGate, kube: FakeKube) -> None:
    """A pod that fails on a worker doesn't keep the control plane from being rolled back."""
    agents(kube, 1, crashed())
    assert replace(gate, controllers_only=True).check().kind is VerdictKind.HOLDS


def test_large_cluster_costs_few_requests(gate: CriticalPodsGate, kube: FakeKube) -> None:
    """Of 500 nodes with a critical pod each, a healthy check reads no more than the controllers' pods."""
    add_daemonset(kube, desired=500)
    critical(kube, WORKLOADS["DaemonSet"], "agent")
    for number in range(500):
        add_pod(kube, "agent", node=f"worker-{number}", daemon=True, priority_class=CRITICAL)
    found: list[int] = []
    every = kube.list

    def counted(*arguments: Any, **more: Any) -> Any:
        found.append(len(items := every(*arguments, **more)))
        return items

    kube.list = counted  # type: ignore[method-assign]
    assert gate.check().kind is VerdictKind.HOLDS
    assert len(found) == 5 and sum(found) < 5
