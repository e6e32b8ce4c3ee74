"""Which gates stand behind which release."""

from __future__ import annotations

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from upgrader.gates.release_gates import GateCatalog
from upgrader.model.cluster import Cluster
from upgrader.model.settings import GatePolicy, WorkloadGate
from upgrader.pipeline import GateRun


def manifest(*workloads: str) -> str:
    """A rendered chart with these workloads, each `Kind/name`."""
    documents = [
        f"kind: {kind}\nmetadata: {{name: {name}}}\n" for kind, _, name in (w.partition("/") for w in workloads)
    ]
    return "---\n".join(documents)


def gates(kube: FakeKube, cluster: Cluster, release: str, *workloads: str) -> tuple[GateRun, ...]:
    """The catalog's answer for a release."""
    catalog = GateCatalog(kube, FakeClock(), cluster, GatePolicy(5, 2.0, 60.0))
    return catalog.of_release(release, manifest(*workloads), namespace="kube-system", target=None)


@pytest.mark.parametrize(
    ("release", "workloads", "names"),
    [
        ("pod-checkpointer", ["DaemonSet/pod-checkpointer"], ["daemonset/pod-checkpointer", "checkpoint"]),
        ("kube-apiserver", ["Deployment/kube-apiserver"], ["deployment/kube-apiserver", "apiserver"]),
        ("kubernetes", ["Deployment/a", "DaemonSet/b"], ["deployment/a", "daemonset/b"]),
        ("", [], []),
    ],
)
def test_gates_of_a_release(
    kube: FakeKube, cluster: Cluster, release: str, workloads: list[str], names: list[str]
) -> None:
    """One gate a workload, the release's own, and the cluster's behind every step."""
    found = [run.gate.name for run in gates(kube, cluster, release, *workloads)]
    assert found == [*names, "nodes", "critical-pods"]


def test_policy_is_the_settings(kube: FakeKube, cluster: Cluster) -> None:
    """How often, how far apart and for how long is the operator's to say."""
    run = gates(kube, cluster, "")[0]
    assert run.policy == GatePolicy(5, 2.0, 60.0)


def test_gate_of_the_users_own(kube: FakeKube, cluster: Cluster) -> None:
    """A gate that upgrader.yaml names asks for that workload, by its own patience."""
    catalog = GateCatalog(kube, FakeClock(), cluster, GatePolicy(5, 2.0, 60.0))
    run = catalog.of_workload(WorkloadGate("daemonset", "ns", "cni", GatePolicy(1, 1.0, 10.0)))
    assert run.gate.name == "daemonset/cni"
    assert run.policy.deadline_seconds == 10.0
