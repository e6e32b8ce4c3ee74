"""Whether a node is back with a kubelet that was just started."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_pod, waiting
from upgrader.gates.kubernetes_kinds import LEASES, NODES
from upgrader.gates.node_return import NodeReturn
from upgrader.model.version import KubernetesVersion

NEW = KubernetesVersion(1, 37, 1)


@pytest.fixture
def kube() -> FakeKube:
    """One worker with a live kubelet of the new version."""
    kube = FakeKube()
    kube.silent_kubelets = set()
    put(kube)
    lease: dict[str, Any] = {"metadata": {"name": "worker-1"}, "spec": {"renewTime": "2026-01-01T00:00:00+00:00"}}
    kube.put(LEASES, lease, "kube-node-lease")
    return kube


def put(kube: FakeKube, version: str = "v1.37.1", ready: str = "True", name: str = "worker-1") -> None:
    """The node's status."""
    conditions = [{"type": "Ready", "status": ready, "message": "says the kubelet"}]
    status = {"nodeInfo": {"kubeletVersion": version}, "conditions": conditions}
    kube.put(NODES, {"metadata": {"name": name}, "status": status})


def asked(kube: FakeKube, times: int = 5, unready: tuple[str, ...] = ()) -> list[str]:
    """What is missing, each time that it is asked."""
    missing = NodeReturn(kube, unready).back("worker-1", NEW)
    return [missing() for _ in range(times)]


def test_live_node_is_back_after_two_heartbeats(kube: FakeKube) -> None:
    """The first reading may be of a heartbeat from before the restart: two later ones count."""
    first, second, third, *_ = asked(kube)
    assert first == "its kubelet has renewed its Lease 0 times (2 needed)"
    assert second == "its kubelet has renewed its Lease 1 times (2 needed)"
    assert third == ""


def test_ready_node_with_a_dead_kubelet_is_not_back(kube: FakeKube) -> None:
    """`Ready` outlives a kubelet for 40 s: without a heartbeat that changes it says nothing."""
    kube.silent_kubelets = {"worker-1"}
    assert set(asked(kube)) == {"its kubelet has renewed its Lease 0 times (2 needed)"}


def test_old_version_is_not_back(kube: FakeKube) -> None:
    """The old kubelet that was started again is not the new one."""
    put(kube, "v1.36.3")
    assert asked(kube)[-1] == "its kubelet reports v1.36.3"


def test_node_that_is_not_ready_says_why(kube: FakeKube) -> None:
    """In the words of its own condition."""
    put(kube, ready="False")
    assert asked(kube)[-1] == "it is not Ready (False): says the kubelet"
    assert NodeReturn(kube).problem("worker-1") == "is not Ready (False): says the kubelet"


def test_missing_node_is_not_back(kube: FakeKube) -> None:
    """A node that was deleted doesn't count as healthy."""
    kube.delete(NODES, "worker-1")
    assert asked(kube)[-1] == "it is not in the cluster"
    assert NodeReturn(kube).problem("worker-1") == "is not in the cluster"


def test_critical_pods_of_the_node_must_be_ready(kube: FakeKube) -> None:
    """A node whose pod network doesn't work is not back; what wasn't Ready before the run isn't asked for."""
    critical = {"node": "worker-1", "daemon": True, "priority_class": "system-node-critical"}
    name = add_pod(kube, "cilium", waiting("CrashLoopBackOff"), **critical)  # type: ignore[arg-type]
    assert asked(kube)[-1] == f"its critical pods are not Ready: {name}"
    assert asked(kube, unready=("DaemonSet cilium",))[-1] == ""


def test_node_without_its_network_plugin_is_not_back(kube: FakeKube) -> None:
    """flannel's pod is in kube-flannel: until it is Ready, no other pod starts on the node."""
    more: dict[str, Any] = {"daemon": True, "namespace": "kube-flannel", "priority_class": "system-node-critical"}
    name = add_pod(kube, "flannel", waiting("ContainerCreating"), node="worker-1", **more)
    assert asked(kube)[-1] == f"its critical pods are not Ready: {name}"


class Counting(FakeKube):
    """Counts requests, by what they ask for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def _check(self, what: str) -> None:
        self.asked[" ".join(what.split()[:2])] += 1
        super()._check(what)


def many(count: int) -> tuple[Counting, dict[str, tuple[KubernetesVersion, ...]]]:
    """Live workers of the new version."""
    kube = Counting()
    kube.silent_kubelets = set()
    names = [f"worker-{number}" for number in range(1, count + 1)]
    for name in names:
        put(kube, name=name)
        lease = {"metadata": {"name": name}, "spec": {"renewTime": "2026-01-01T00:00:00+00:00"}}
        kube.put(LEASES, lease, "kube-node-lease")
    return kube, dict.fromkeys(names, (NEW,))


def test_many_nodes_cost_one_request_a_round() -> None:
    """Until their kubelets live, each is read once, and all heartbeats together; then each is read once more."""
    kube, versions = many(100)
    missing = NodeReturn(kube).all_back(versions)
    rounds = [missing(tuple(versions)) for _ in range(3)]
    assert set(rounds[0].values()) == {"its kubelet has renewed its Lease 0 times (2 needed)"}
    assert set(rounds[2].values()) == {""}
    assert kube.asked == {"list leases": 3, "get nodes": 200, "list pods": 100}


def test_many_dead_kubelets_are_not_asked_each_time() -> None:
    """What their nodes say is at most ten rounds old, and is what is said of them at the end."""
    kube, versions = many(100)
    kube.silent_kubelets = set(versions)
    missing = NodeReturn(kube).all_back(versions)
    missing(tuple(versions))
    put(kube, ready="Unknown")
    for _ in range(19):
        found = missing(tuple(versions))
    assert found["worker-1"] == "it is not Ready (Unknown): says the kubelet"
    assert kube.asked["list leases"] == 20
    assert kube.asked["get nodes"] == 200


def test_the_last_of_many_nodes_are_read_each_time() -> None:
    """Heartbeats that were read together count for those that are left, too."""
    kube, versions = many(8)
    missing = NodeReturn(kube).all_back(versions)
    missing(tuple(versions))
    missing(tuple(versions))
    assert missing(("worker-1", "worker-2")) == {"worker-1": "", "worker-2": ""}
