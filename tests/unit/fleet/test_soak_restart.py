"""The restart of a pod in a soak: which one, and when it counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testkit.fakes.kube import FakeKube
from upgrader.errors import ApiError
from upgrader.fleet import soak_restart
from upgrader.fleet.events import ChosenPod
from upgrader.fleet.soak_restart import restart_pod, restarted
from upgrader.gates.kubernetes_kinds import LEASES, PODS, WORKLOADS
from upgrader.ports import Kube

SCHEDULER, MANAGER = "kube-scheduler", "kube-controller-manager"
NOTHING = (
    "neither kube-scheduler nor kube-controller-manager has a pod that can be restarted: one that doesn't lead, of two "
    "or more which are all ready"
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
    assert chosen == ChosenPod(SCHEDULER, "s-b", "uid-s-b")
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
    assert restarted(kube, None) == ChosenPod(MANAGER, "m-a", "uid-m-a")


def test_pod_that_leads_by_now() -> None:
    """One that has become the leader since it was chosen isn't evicted: another one is chosen."""
    kube = FakeKube()
    put(kube, SCHEDULER, "s-a", "s-b", leader="s-b_5f0c")
    assert restarted(kube, ChosenPod(SCHEDULER, "s-b", "uid-s-b")) == ChosenPod(SCHEDULER, "s-a", "uid-s-a")
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


def test_outside_of_windows() -> None:
    """A pod whose eviction was refused until its window closed isn't evicted later, nor is another one chosen; one that
    was replaced counts.
    """
    kube = FakeKube()
    put(kube, SCHEDULER, "s-a", "s-b", leader="s-a_5f0c")
    chosen = ChosenPod(SCHEDULER, "s-b", "uid-s-b")
    said = restarted(kube, chosen, may_begin=False)
    assert said == "pod kube-system/s-b was not evicted yet, and is not outside of the cluster's windows"
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


def test_cluster_of_a_kubeconfig(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the one that the kubeconfig leads to which is asked."""
    kube = FakeKube()
    put(kube, SCHEDULER, "s-a", "s-b", leader="s-a_5f0c")

    @contextmanager
    def open_api(kubeconfig: Path, timeout_seconds: float) -> Iterator[Kube]:
        assert kubeconfig == Path("k")
        yield kube

    monkeypatch.setattr(soak_restart, "open_api", open_api)
    assert restart_pod(Path("k"), None, may_begin=True) == ChosenPod(SCHEDULER, "s-b", "uid-s-b")
