"""The gate of the nodes: whose kubelet lives is seen by this machine's clock, and not every worker counts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_node
from upgrader.gates import kubernetes_kinds as kinds
from upgrader.gates.critical_workloads import read_health_before
from upgrader.gates.node_health import NodeHealth, NodeMemory
from upgrader.gates.nodes_gate import NodesGate
from upgrader.model.cluster import Cluster
from upgrader.model.health_before import HealthBefore, IntOrPercent
from upgrader.model.outcome import VerdictKind

CONTROLLERS = ("controller-1", "controller-2")
WORKERS = tuple(f"worker-{number}" for number in range(1, 21))


@pytest.fixture
def nodes(kube: FakeKube, cluster: Cluster, clock: FakeClock) -> NodesGate:
    """The gate of three healthy nodes, whose kubelets were seen to live."""
    for name in (*CONTROLLERS, "worker-1"):
        add_node(kube, name)
    kube.silent_kubelets = set()
    health = NodeHealth(kube, clock, CONTROLLERS, NodeMemory())
    health.glance()
    return NodesGate(health, cluster)


@pytest.fixture
def many(nodes: NodesGate, kube: FakeKube) -> NodesGate:
    """The same in a run that began with twenty healthy workers, two of which may become unhealthy."""
    for name in WORKERS:
        add_node(kube, name)
    return replace(nodes, health_before=HealthBefore(WORKERS), spare=IntOrPercent(percent=10))


def later(gate: NodesGate, clock: FakeClock) -> str:
    """What the gate says six seconds later: workers aren't read more often than every five."""
    clock.sleep(6)
    return gate.check().reason


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


@pytest.mark.parametrize("ahead", [timedelta(seconds=45), timedelta(seconds=-45), timedelta(hours=3)])
def test_operators_clock_does_not_matter(
    kube: FakeKube, cluster: Cluster, clock: FakeClock, ahead: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Live kubelets are alive, and a dead one is dead, whatever this machine's wall clock says."""
    for name in (*CONTROLLERS, "worker-1"):
        add_node(kube, name)
    kube.silent_kubelets = set()
    monkeypatch.setattr(clock, "now", lambda: FakeClock().now() + ahead)
    health = NodeHealth(kube, clock, CONTROLLERS, NodeMemory())
    health.glance()
    gate = NodesGate(health, cluster)
    assert gate.check().reason == "3 of 3 nodes Ready"
    kube.silent_kubelets = {"controller-2"}
    clock.sleep(39)
    assert gate.check().kind is VerdictKind.HOLDS
    clock.sleep(2)
    assert "controller-2 has no heartbeat: its kubelet has not renewed its Lease for 41 s" in gate.check().reason


def test_heartbeat_that_was_not_watched_is_unknown(kube: FakeKube, cluster: Cluster, clock: FakeClock) -> None:
    """One reading shows a time by another machine's clock: that the kubelet lives is known with the next renewal."""
    for name in (*CONTROLLERS, "worker-1"):
        add_node(kube, name)
    kube.silent_kubelets = set()
    gate = NodesGate(NodeHealth(kube, clock, CONTROLLERS, NodeMemory()), cluster)
    first = gate.check()
    assert first.kind is VerdictKind.UNKNOWN and "has shown no heartbeat yet" in first.reason
    # The workers are asked for once the controllers are healthy, and then watched from there.
    assert "worker-1 has shown no heartbeat yet" in later(gate, clock)
    assert later(gate, clock) == "3 of 3 nodes Ready"


def test_renewal_between_two_distant_readings_may_be_old(kube: FakeKube, cluster: Cluster, clock: FakeClock) -> None:
    """A Lease that changed at some time in the last minute shows that the kubelet lived then, not that it lives."""
    for name in CONTROLLERS:
        add_node(kube, name)
    health = NodeHealth(kube, clock, CONTROLLERS, NodeMemory())
    gate = NodesGate(health, cluster, controllers_only=True)
    kube.silent_kubelets = set()
    health.glance()
    clock.sleep(60)
    assert gate.check().kind is VerdictKind.UNKNOWN
    clock.sleep(1)
    assert gate.check().kind is VerdictKind.HOLDS


def test_slow_heartbeats_are_allowed_for(nodes: NodesGate, kube: FakeKube, clock: FakeClock) -> None:
    """A kubelet that is configured to renew seldom says so in its Lease."""
    for name in CONTROLLERS:
        lease = {"metadata": {"name": name, "namespace": "kube-node-lease"}}
        kube.put(kinds.LEASES, {**lease, "spec": {"renewTime": "2026-02-01T00:00:00Z", "leaseDurationSeconds": 120}})
    controllers = replace(nodes, controllers_only=True)
    assert controllers.check().kind is VerdictKind.HOLDS
    kube.silent_kubelets = set(CONTROLLERS)
    clock.sleep(100)
    assert controllers.check().kind is VerdictKind.HOLDS


def test_glances_are_rare_and_quiet(nodes: NodesGate, kube: FakeKube, clock: FakeClock) -> None:
    """What is read while Helm waits costs one list in ten seconds, and an API that is away is no news."""
    asked: list[str] = []
    every = kube.list
    kube.list = lambda kind, *more, **some: asked.append(kind.plural) or every(kind, *more, **some)  # type: ignore
    for _ in range(20):
        nodes.health.glance()
        clock.sleep(1)
    assert asked == ["leases"]
    kube.unavailable = True
    clock.sleep(10)
    nodes.health.glance()


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


def test_few_workers_may_become_unhealthy(many: NodesGate, kube: FakeKube, clock: FakeClock) -> None:
    """Two of twenty that reboot are named and allowed, the third is one too many: the step may be to blame."""
    later(many, clock)
    for name in WORKERS[:2]:
        add_node(kube, name, conditions={"Ready": "Unknown"})
    assert later(many, clock) == "20 of 22 nodes Ready; unhealthy, of at most 2 allowed: worker-1, worker-2"
    add_node(kube, "worker-3", conditions={"Ready": "Unknown"})
    assert "(and 2 more, 2 of 20 workers may be unhealthy)" in later(many, clock)


def test_workers_of_before_the_run_count(many: NodesGate, kube: FakeKube, clock: FakeClock) -> None:
    """Those that join, that were down already, or that are removed meanwhile say nothing of a step."""
    later(many, clock)
    for name in ("new-1", "new-2", "new-3", "new-4"):
        add_node(kube, name, conditions={"Ready": "False"}, renewed="")
    for name in WORKERS[:5]:
        kube.delete(kinds.NODES, name)
    assert later(many, clock) == "17 of 17 nodes Ready"


def test_controller_is_never_spared(many: NodesGate, kube: FakeKube) -> None:
    """The budget is the workers'."""
    add_node(kube, "controller-1", conditions={"Ready": "Unknown"})
    assert many.check().reason == "node controller-1 is not Ready (Unknown): Ready is Unknown"


def test_only_worker_is_not_spared(nodes: NodesGate, kube: FakeKube, clock: FakeClock) -> None:
    """An upgrade that takes down all workers there are isn't a coincidence."""
    gate = replace(nodes, health_before=HealthBefore(("worker-1",)), spare=IntOrPercent(count=5))
    add_node(kube, "worker-1", conditions={"Ready": "Unknown"})
    assert later(gate, clock).startswith("node worker-1 is not Ready")


def test_rollback_asks_for_controllers_only(many: NodesGate, kube: FakeKube) -> None:
    """However many workers are down: a rollback of the control plane succeeds without them."""
    for name in WORKERS:
        add_node(kube, name, conditions={"Ready": "Unknown"})
    assert replace(many, controllers_only=True).check().reason == "2 of 2 controllers Ready"


def test_absent_workers(nodes: NodesGate, kube: FakeKube, clock: FakeClock) -> None:
    """Down, cordoned, new or silent: known to be so, which a kubelet that was only not watched for long isn't."""
    for name in ("down", "cordoned", "new", "silent", "fine"):
        add_node(kube, name, cordoned=name == "cordoned", conditions={"Ready": "False"} if name == "down" else None)
    kube.silent_kubelets = {"silent"}
    known = ("worker-1", "down", "cordoned", "silent", "fine")
    assert nodes.health.absent(known) == {"down", "cordoned", "new"}
    clock.sleep(41)
    assert nodes.health.absent(known) == {"down", "cordoned", "new", "silent"}
    assert "new" not in nodes.health.absent(None)


def test_node_problem_names_the_command_that_shows_more(nodes: NodesGate, kube: FakeKube) -> None:
    """The remedy is about the node that the reason names."""
    add_node(kube, "worker-1", conditions={"DiskPressure": "True"})
    assert "kubectl describe node worker-1" in nodes.check().remedy


def test_unanswered_question_names_what_to_check(nodes: NodesGate, kube: FakeKube) -> None:
    """Where the API's error has no remedy of its own, the API server is what to check."""
    kube.unavailable = True
    assert "kubectl get --raw '/readyz?verbose'" in nodes.check().remedy


def test_node_that_never_had_a_heartbeat_is_no_news(
    nodes: NodesGate, kube: FakeKube, cluster: Cluster, clock: FakeClock
) -> None:
    """A virtual kubelet may report its status alone, and renew no Lease: it was so before the run."""
    for name in ("virtual-1", "virtual-2"):
        add_node(kube, name)
        kube.delete(kinds.LEASES, name, "kube-node-lease")
    before = read_health_before(kube, cluster)
    assert before.workers == ("worker-1",)
    gate = replace(nodes, health_before=before, spare=IntOrPercent(percent=10))
    assert later(gate, clock) == "3 of 3 nodes Ready"
    kube.delete(kinds.LEASES, "worker-1", "kube-node-lease")
    nodes.health.memory.heartbeats.clear()
    assert "worker-1 has no heartbeat" in later(replace(gate, spare=IntOrPercent()), clock) + gate.check().reason
