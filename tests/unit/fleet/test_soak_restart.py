"""The restart of a pod in a soak: which one, and when it counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.engine.locks.cluster_lock import acquire
from upgrader.engine.locks.lease_object import Holder
from upgrader.errors import ApiError
from upgrader.fleet import soak_restart
from upgrader.fleet.events import ChosenPod
from upgrader.fleet.model import FleetCluster
from upgrader.fleet.soak_restart import restart_pod, restarted
from upgrader.gates.kubernetes_kinds import LEASES, NAMESPACES, PODS, WORKLOADS
from upgrader.ports import Kube

SCHEDULER, MANAGER = "kube-scheduler", "kube-controller-manager"
NOTHING = (
    "neither kube-scheduler nor kube-controller-manager has a pod that can be restarted: at least two pods must "
    "exist, all must be Ready, and one must not be the leader"
)


def put_pod(kube: FakeKube, component: str, name: str, *, ready: bool = True, uid: str = "") -> None:
    owner = {"kind": "ReplicaSet", "name": f"{component}-5d4f8c7b9", "uid": "r", "controller": True}
    kube.put(
        PODS,
        {
            "metadata": {
                "name": name,
                "uid": uid or f"uid-{name}",
                "labels": {"app.kubernetes.io/name": component, "pod-template-hash": "5d4f8c7b9"},
                "ownerReferences": [owner],
            },
            "spec": {"nodeName": f"node-of-{name}", "containers": [{"name": component}]},
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            },
        },
        "kube-system",
    )


def put(kube: FakeKube, component: str, *pods: str, leader: str) -> None:
    kube.put(
        WORKLOADS["Deployment"],
        {"metadata": {"name": component}, "spec": {"replicas": len(pods), "template": {}}},
        "kube-system",
    )
    for name in pods:
        put_pod(kube, component, name)
    kube.put(LEASES, {"metadata": {"name": component}, "spec": {"holderIdentity": leader}}, "kube-system")


@pytest.mark.parametrize("leader", ["s-a_5f0c", "node-of-s-a_5f0c"])
def test_follower_is_evicted_once(leader: str) -> None:
    """The leader stays, by its pod's name or by its node's; the eviction of the pod that was chosen is repeated without
    effect, and the restart is over once as many pods are ready as before.
    """
    kube = FakeKube()
    put(kube, SCHEDULER, "s-a", "s-b", leader=leader)
    chosen = restarted(kube, None)
    assert chosen == ChosenPod(SCHEDULER, "s-b", "uid-s-b", 2)
    assert kube.get(PODS, "s-b", "kube-system"), "nothing is evicted before it is written down"
    assert isinstance(chosen, ChosenPod)
    assert restarted(kube, chosen) == "pod kube-system/s-b was evicted"
    put_pod(kube, SCHEDULER, "s-c", ready=False)
    waits = "Deployment kube-system/kube-scheduler has 1 of 2 ready pods since s-b was evicted"
    assert restarted(kube, chosen) == waits and kube.get(PODS, "s-c", "kube-system")
    put_pod(kube, SCHEDULER, "s-c")
    assert restarted(kube, chosen) == ""


def test_pod_of_the_same_name_is_another_one() -> None:
    """By its UID, a pod that was replaced counts as that, whatever it is called."""
    kube = FakeKube()
    put(kube, SCHEDULER, "s-a", "s-b", leader="s-a_5f0c")
    assert restarted(kube, ChosenPod(SCHEDULER, "s-b", "uid-of-before")) == ""
    assert kube.get(PODS, "s-b", "kube-system")


def test_only_where_it_costs_no_leader() -> None:
    """Not the only pod, nor one beside another that isn't ready or is terminating, nor one of which it isn't known
    whether it leads; then the other component's, if it has one.
    """
    kube = FakeKube()
    assert restarted(kube, None) == NOTHING
    put(kube, SCHEDULER, "s-a", leader="s-a_5f0c")
    assert restarted(kube, None) == NOTHING
    put(kube, SCHEDULER, "s-a", "s-b", leader="gone_5f0c")
    assert restarted(kube, None) == NOTHING
    put(kube, SCHEDULER, "s-a", "s-b", leader="s-a_5f0c")
    put_pod(kube, SCHEDULER, "s-a", ready=False)
    assert restarted(kube, None) == NOTHING
    put_pod(kube, SCHEDULER, "s-a")
    kube.lingering.add("s-a")
    kube.evict("s-a", "kube-system", uid="uid-s-a")
    assert restarted(kube, None) == NOTHING
    put(kube, MANAGER, "m-a", "m-b", leader="m-b_5f0c")
    assert restarted(kube, None) == ChosenPod(MANAGER, "m-a", "uid-m-a", 2)


def test_pod_that_leads_by_now() -> None:
    """One that has become the leader since it was chosen isn't evicted: another one is chosen."""
    kube = FakeKube()
    put(kube, SCHEDULER, "s-a", "s-b", leader="s-b_5f0c")
    assert restarted(kube, ChosenPod(SCHEDULER, "s-b", "uid-s-b")) == ChosenPod(SCHEDULER, "s-a", "uid-s-a", 2)
    assert kube.get(PODS, "s-b", "kube-system")


def test_budgets_are_respected() -> None:
    """An eviction that a budget refuses waits, and says so; so does a pod that takes its time to end."""
    kube = FakeKube()
    put(kube, SCHEDULER, "s-a", "s-b", leader="s-a_5f0c")
    chosen = ChosenPod(SCHEDULER, "s-b", "uid-s-b")
    kube.refused_evictions["s-b"] = ApiError("it would violate the pod's disruption budget")
    assert restarted(kube, chosen) == (
        "pod kube-system/s-b can't be evicted: it would violate the pod's disruption budget"
    )
    kube.refused_evictions.clear()
    kube.lingering.add("s-b")
    assert restarted(kube, chosen) == "pod kube-system/s-b was evicted"
    assert restarted(kube, chosen) == "pod kube-system/s-b, which was evicted, is still terminating"


@pytest.mark.parametrize("left", [None, 0, 1])
def test_component_that_is_gone_was_not_restarted(left: int | None) -> None:
    """A Deployment that was deleted or scaled down since its pod was chosen shows nothing: it is not a success."""
    kube = FakeKube()
    put(kube, SCHEDULER, "s-a", leader="s-a_5f0c")
    if left is None:
        kube.delete(WORKLOADS["Deployment"], SCHEDULER, "kube-system")
    else:
        kube.patch(WORKLOADS["Deployment"], SCHEDULER, {"spec": {"replicas": left}}, "kube-system")
    said = restarted(kube, ChosenPod(SCHEDULER, "s-b", "uid-s-b"))
    assert isinstance(said, str) and "kube-system/kube-scheduler" in said


@pytest.mark.parametrize("may_begin", [True, False])
def test_scaling_down_is_no_restart(may_begin: bool) -> None:
    """A chosen pod that is gone because there are fewer replicas now shows nothing, although all others are ready: in a
    window, another one is chosen; as many ready pods as when it was chosen show that one has started.
    """
    kube = FakeKube()
    put(kube, SCHEDULER, "s-a", "s-b", "s-c", leader="s-a_5f0c")
    chosen = restarted(kube, None)
    assert chosen == ChosenPod(SCHEDULER, "s-b", "uid-s-b", 3)
    kube.delete(PODS, "s-b", "kube-system")
    kube.patch(WORKLOADS["Deployment"], SCHEDULER, {"spec": {"replicas": 2}}, "kube-system")
    said = (
        "Deployment kube-system/kube-scheduler was scaled from 3 to 2 after s-b was chosen: no pod has shown that it "
        "can start again"
    )
    assert restarted(kube, chosen, may_begin=may_begin) == (
        ChosenPod(SCHEDULER, "s-c", "uid-s-c", 2) if may_begin else said
    )
    kube.patch(WORKLOADS["Deployment"], SCHEDULER, {"spec": {"replicas": 3}}, "kube-system")
    assert restarted(kube, chosen, may_begin=may_begin) != ""
    put_pod(kube, SCHEDULER, "s-d")
    assert restarted(kube, chosen, may_begin=may_begin) == ""


def test_outside_of_windows() -> None:
    """A pod whose eviction was refused until its window closed isn't evicted later, nor is another one chosen; one that
    was replaced counts.
    """
    kube = FakeKube()
    put(kube, SCHEDULER, "s-a", "s-b", leader="s-a_5f0c")
    chosen = ChosenPod(SCHEDULER, "s-b", "uid-s-b")
    said = restarted(kube, chosen, may_begin=False)
    assert said == "pod kube-system/s-b is not evicted outside of the cluster's windows"
    put(kube, SCHEDULER, "s-a", "s-b", leader="s-b_5f0c")
    assert restarted(kube, chosen, may_begin=False) == said and kube.get(PODS, "s-b", "kube-system")
    assert restarted(kube, ChosenPod(SCHEDULER, "s-c", "uid-s-c"), may_begin=False) == ""


@pytest.mark.parametrize("much", ["name", "uid"])
def test_pod_without_a_name_of_kubernetes(much: str) -> None:
    """Another team's API may answer anything: no megabytes of it go to the journal, which is that of all clusters and
    is read up to a limit.
    """
    kube, long = FakeKube(), "s" * (1 << 20)
    name, uid = (long, "u") if much == "name" else ("s-b", long)
    put(kube, SCHEDULER, "s-a", name, leader="s-a_5f0c")
    put_pod(kube, SCHEDULER, name, uid=uid)
    assert restarted(kube, None) == NOTHING


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[FakeKube]:
    """Each time that the cluster's API was opened; the cluster can restart a pod."""
    kube, opened = FakeKube(), list[FakeKube]()
    kube.raw_answers["/version"] = json.dumps({"gitVersion": "v1.37.1"})
    kube.put(NAMESPACES, {"metadata": {"name": "kube-system", "uid": "u1"}})
    assert acquire(kube, FakeClock(), Holder("ann", "elsewhere", "r"), take_over=False, note=lambda _: None).release()
    put(kube, SCHEDULER, "s-a", "s-b", leader="s-a_5f0c")

    @contextmanager
    def open_api(kubeconfig: Path, timeout_seconds: float) -> Iterator[Kube]:
        assert kubeconfig == Path("k")
        opened.append(kube)
        yield kube

    monkeypatch.setattr(soak_restart, "open_api", open_api)
    return opened


def cluster_in(folder: Path, uid: str = "u1") -> FleetCluster:
    return FleetCluster("a", folder, uid, {})


def test_cluster_of_a_kubeconfig(opened: list[FakeKube], tmp_path: Path) -> None:
    """It is the one that the kubeconfig leads to which is asked, all of it over one connection."""
    chosen = restart_pod(Path("k"), cluster_in(tmp_path), None, may_begin=True)
    assert chosen == ChosenPod(SCHEDULER, "s-b", "uid-s-b", 2) and len(opened) == 1


def test_cluster_in_which_nothing_is_restarted(opened: list[FakeKube], tmp_path: Path) -> None:
    """None is chosen in another cluster than the inventory's, nor in one that a process may be changing."""
    said = restart_pod(Path("k"), cluster_in(tmp_path, "u2"), None, may_begin=True)
    assert isinstance(said, str) and said.startswith("no pod is restarted: its kubeconfig points to the cluster with")
    lock = acquire(opened[0], FakeClock(), Holder("ann", "elsewhere", "r"), take_over=False, note=lambda _: None)
    said = restart_pod(Path("k"), cluster_in(tmp_path), None, may_begin=True)
    assert said == "no pod is restarted: its lock, the Lease kube-system/upgrader, is held by ann, r"
    assert lock.release()
    assert restart_pod(Path("k"), cluster_in(tmp_path), None, may_begin=True) != said
