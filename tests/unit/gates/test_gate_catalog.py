"""Which gates stand behind which release."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_daemonset, add_node, add_pod, running
from upgrader.errors import Blocked
from upgrader.gates.apiserver_gate import ApiServerGate
from upgrader.gates.critical_pods_gate import CriticalPodsGate
from upgrader.gates.gate_catalog import GateCatalog, with_own_policy
from upgrader.gates.nodes_gate import NodesGate
from upgrader.gates.protector_gate import ProtectorGate
from upgrader.model.cluster import Cluster
from upgrader.model.gate_settings import GatePolicy, WorkloadGate
from upgrader.model.health_before import HealthBefore
from upgrader.model.outcome import VerdictKind
from upgrader.model.version import KubernetesVersion
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


@pytest.mark.parametrize(
    ("workers", "asked", "seconds"), [(8, 1.0, 1.0), (899, 1.0, 3.0), (899, 4.0, 4.0), (4999, 1.0, 5.0)]
)
def test_gates_are_checked_less_often_on_a_large_cluster(
    kube: FakeKube, cluster: Cluster, workers: int, asked: float, seconds: float
) -> None:
    """A second for every 300 nodes and never over five, unless the operator asks for more; also a user's gates."""
    before = HealthBefore(tuple(f"w{number}" for number in range(workers)))
    cluster = replace(cluster, controllers=cluster.controllers[:1])
    catalog = GateCatalog(kube, FakeClock(), cluster, GatePolicy(3, asked, 120.0), before)
    own = catalog.of_workload(WorkloadGate("daemonset", "ns", "cni", GatePolicy(3, asked, 120.0)))
    for run in (*catalog.of_cluster(), own, catalog.of_kubeadm(KubernetesVersion(1, 37, 1))):
        assert run.policy.interval_seconds == pytest.approx(seconds)


def test_port_that_only_the_kubelet_knows_is_refused(kube: FakeKube, cluster: Cluster) -> None:
    """A planned kube-apiserver whose port comes from a ConfigMap, or is none: its gate would ask nothing."""
    catalog = GateCatalog(kube, FakeClock(), cluster, GatePolicy(5, 2.0, 60.0))
    env = {"name": "PORT", "valueFrom": {"configMapKeyRef": {"name": "ports", "key": "api"}}}
    for given in ("$(PORT)", "https"):
        container = {"name": "kube-apiserver", "args": [f"--secure-port={given}"], "env": [env]}
        pod = {"template": {"spec": {"containers": [container]}}}
        text = json.dumps({"kind": "Deployment", "metadata": {"name": "kube-apiserver"}, "spec": pod})
        with pytest.raises(Blocked, match=re.escape(f"--secure-port={given}")) as caught:
            catalog.of_release("kube-apiserver", text, namespace="kube-system", target=None)
        assert "number" in caught.value.remedy


@pytest.mark.parametrize("policy", [GatePolicy(3, 1.0, 5.0), GatePolicy(30, 1.0, 120.0)])
def test_a_large_cluster_has_time_for_its_checks(kube: FakeKube, cluster: Cluster, policy: GatePolicy) -> None:
    """However the operator sets the deadline and the number of checks, they fit into it as on a small cluster."""
    before = HealthBefore(tuple(f"w{number}" for number in range(4999)))
    run = GateCatalog(kube, FakeClock(), cluster, policy, before).of_cluster()[0]
    assert run.policy.interval_seconds == 1.0


def test_gate_of_the_users_own(kube: FakeKube, cluster: Cluster) -> None:
    """A gate that upgrader.yaml names asks for that workload, by its own patience."""
    catalog = GateCatalog(kube, FakeClock(), cluster, GatePolicy(5, 2.0, 60.0))
    run = catalog.of_workload(WorkloadGate("daemonset", "ns", "cni", GatePolicy(1, 1.0, 10.0)))
    assert run.gate.name == "daemonset/cni"
    assert run.policy.deadline_seconds == 10.0


SETS = """
kind: StatefulSet
metadata: {name: db-a, namespace: shop, labels: {rollout-group: db}, annotations: {rollout-max-unavailable: "2"}}
spec: {replicas: 4, updateStrategy: {type: OnDelete}}
---
kind: StatefulSet
metadata: {name: db-b, namespace: shop, labels: {rollout-group: db}}
spec: {replicas: 3, template: {spec: {terminationGracePeriodSeconds: 300}}}
---
kind: StatefulSet
metadata: {name: queue}
spec: {updateStrategy: {type: OnDelete}, minReadySeconds: 10}
---
kind: StatefulSet
metadata: {name: cache}
spec: {replicas: 3}
---
kind: Deployment
metadata: {name: web}
---
kind: StatefulSet
metadata: {name: test, annotations: {helm.sh/hook: test}}
"""


def test_stateful_sets_of_a_chart(kube: FakeKube, cluster: Cluster) -> None:
    """One gate each, and one for all of a group; where Helm waits for no pod, with time to replace the pods."""
    catalog = GateCatalog(kube, FakeClock(), cluster, GatePolicy(5, 2.0, 60.0))
    for of in (catalog.of_release, catalog.of_undo):
        found = of("shop", SETS, namespace="apps", target=None)
        assert [(run.gate.name, run.policy.deadline_seconds) for run in found[:-2]] == [
            ("deployment/web", 60.0),
            ("statefulset/queue", 60.0 + 130.0),
            ("statefulset/cache", 60.0),
            ("rollout-group/shop/db", 60.0 + 2 * 120.0 + 3 * 390.0),
        ]


def test_group_that_upgrader_yaml_has_too(kube: FakeKube, cluster: Cluster) -> None:
    """The file says how long it may take: one gate, with the file's deadline."""
    catalog = GateCatalog(kube, FakeClock(), cluster, GatePolicy(5, 2.0, 60.0))
    own = catalog.own("shop", SETS, namespace="apps", target=None)
    given = tuple(
        catalog.of_workload(WorkloadGate("rolloutGroup", namespace, "db", GatePolicy(1, 1.0, 7200.0)))
        for namespace in ("shop", "other")
    )
    joined = with_own_policy(own, given)
    assert [run.policy.deadline_seconds for run in joined if run.gate.name == "rollout-group/shop/db"] == [7200.0]
    assert len(joined) == len(own) + 1


def test_gates_of_a_protector_share_what_they_have_seen(kube: FakeKube, cluster: Cluster) -> None:
    """Whether a cell is counted takes minutes to see: longer than one step's gates may take."""
    catalog = GateCatalog(kube, FakeClock(), cluster, GatePolicy(5, 2.0, 60.0))
    gates = [catalog.of_workload(WorkloadGate("protector", "shop", "web", GatePolicy())).gate for _ in range(2)]
    assert all(isinstance(gate, ProtectorGate) and gate.memory is catalog.memory.protectors for gate in gates)


def test_port_is_the_rendered_one(kube: FakeKube, cluster: Cluster) -> None:
    """Each instance is asked at the port that the chart gives it; 6443 where it gives none."""

    def port(container: str) -> int:
        template = f"{{template: {{spec: {{containers: [{container}]}}}}}}"
        text = f"kind: Deployment\nmetadata: {{name: kube-apiserver}}\nspec: {template}\n"
        catalog = GateCatalog(kube, FakeClock(), cluster, GatePolicy())
        found = catalog.own("kube-apiserver", text, namespace="kube-system", target=None)[1].gate
        assert isinstance(found, ApiServerGate)
        return found.port

    assert port("{name: kube-apiserver, args: ['--secure-port=7443']}") == 7443
    assert port("{name: kube-apiserver, command: [kube-apiserver, '--secure-port=8443']}") == 8443
    assert port("{name: other, args: ['--secure-port=7443']}") == 6443


def test_rollback_asks_for_no_worker(kube: FakeKube, cluster: Cluster) -> None:
    """Its gates have the same names, and leave out the nodes that are no controllers."""
    catalog = GateCatalog(kube, FakeClock(), cluster, GatePolicy())
    *_, nodes, pods = (run.gate for run in catalog.of_undo("", "", namespace="kube-system", target=None))
    assert isinstance(nodes, NodesGate) and nodes.controllers_only
    assert isinstance(pods, CriticalPodsGate) and pods.controllers_only


def test_daemonset_on_a_worker_that_is_down(kube: FakeKube, cluster: Cluster) -> None:
    """The gate of a rollout leaves out workers that are down; what is missing elsewhere is still missing."""
    for name in ("controller-1", "controller-2", "worker-1"):
        add_node(kube, name)
    kube.silent_kubelets = set()
    add_daemonset(kube, "b", desired=2, numberReady=1, numberAvailable=1)
    add_pod(kube, "b", node="controller-1", daemon=True)
    add_pod(kube, "b", running(ready=False), node="worker-1", daemon=True)
    gate = gates(kube, cluster, "", "DaemonSet/b")[0].gate
    assert gate.check().kind is VerdictKind.PENDING
    add_node(kube, "worker-1", conditions={"Ready": "Unknown"})
    gate = gates(kube, cluster, "", "DaemonSet/b")[0].gate
    assert gate.check().reason == "DaemonSet kube-system/b: 1 of 1 pods updated, Ready and available"
    add_daemonset(kube, "b", desired=3, numberReady=1, numberAvailable=1)
    assert "of 2 pods, 1 Ready, 1 available" in gate.check().reason
