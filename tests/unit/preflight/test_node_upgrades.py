"""The nodes of the plan can be upgraded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.preflight.conftest import CONTROLLER, World
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.model.kubelet_config import KubeletConfig
from upgrader.model.node_configuration import ContainerRuntime, NodeConfiguration
from upgrader.model.node_mark import MARK, NodeMark
from upgrader.model.node_settings import ArchitectureSource, DrainPolicy, NodePool, NodeSource, OnBlocked
from upgrader.model.observed import ObservedNode
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.context import PODS
from upgrader.preflight.node_sources import check_node_sources
from upgrader.preflight.node_upgrades import check_node_upgrades
from upgrader.preflight.nodes import check_nodes
from upgrader.steps.nodes.api_resources import BUDGETS, NODES
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.release.plan import Action, PlannedRelease
from upgrader.steps.step_document import NodeChange

OLD, NEW = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
PACKAGES = NodeSource("packages")


@pytest.fixture
def world() -> World:
    """A cluster with a worker that the inventory lists, and a pod of a Deployment on it."""
    world = World()
    world.cluster = replace(world.cluster, workers=(Host("worker-1", "10.0.0.3"),))
    add_pod(world, "web")
    return world


def add_pod(world: World, name: str, owner: str = "ReplicaSet", node: str = "worker-1", **more: Any) -> None:
    """A pod; `owner` is the kind of its controller."""
    owners = [{"kind": owner, "name": "its", "controller": True}] if owner else []
    meta = {"name": name, "namespace": "default", "labels": {"app": name}, "ownerReferences": owners}
    world.kube.put(PODS, {"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": "Running"}, **more})


def add_budget(world: World, **status: int) -> None:
    """A budget over the pod `web`."""
    spec = {"selector": {"matchLabels": {"app": "web"}}}
    world.kube.put(BUDGETS, {"metadata": {"name": "pdb", "namespace": "default"}, "spec": spec, "status": status})


def found(
    world: World, *, policy: OnBlocked = "fail", source: NodeSource = PACKAGES, node: str = "worker-1"
) -> Mapping[str, Finding]:
    """The findings of a plan that upgrades a worker, by id."""
    pool = NodePool("workers", drain=DrainPolicy(on_blocked=policy))
    step = PlannedNodes(pool, (NodeChange(node, OLD, NEW),), NEW, source, 300.0, 1, Path("/playbooks"))
    context = world.context()
    assert context.plan is not None
    context = replace(context, plan=replace(context.plan, steps=(step,)))
    return {
        item.id: item
        for item in run_checks(context, [("nodes", check_node_upgrades), ("node-sources", check_node_sources)])
    }


def test_nothing_is_found_where_nothing_is_in_the_way(world: World) -> None:
    """Pods with a controller, and a budget that allows an eviction."""
    add_budget(world, disruptionsAllowed=1, expectedPods=3, desiredHealthy=2)
    assert found(world) == {}


def test_nothing_is_asked_where_no_node_is_upgraded(world: World) -> None:
    """Who upgrades no nodes is not told of their budgets."""
    add_budget(world, disruptionsAllowed=0, expectedPods=3, desiredHealthy=3)
    assert list(check_node_upgrades(world.context())) == []


@pytest.mark.parametrize(("policy", "severity"), [("fail", "error"), ("skip-node", "warning"), ("force", "warning")])
def test_budget_that_never_allows_a_drain(world: World, policy: OnBlocked, severity: str) -> None:
    """It is named with one of its pods and the node; the policy decides whether the run would fail by it."""
    add_budget(world, disruptionsAllowed=0, expectedPods=3, desiredHealthy=3)
    finding = found(world, policy=policy)["nodes.drain-blocked"]
    assert finding.severity == severity
    assert "default/pdb (pod default/web on worker-1)" in finding.title


@pytest.mark.parametrize("label", ["longhorn.io/component", "kubevirt.io/created-by"])
def test_budget_that_its_owner_lifts_in_a_drain(world: World, label: str) -> None:
    """Longhorn's and KubeVirt's allow nothing until the node is drained; editing them would lose data or machines."""
    world.kube.put(
        PODS,
        {
            "metadata": {
                "name": "instance",
                "namespace": "default",
                "labels": {label: "it"},
                "ownerReferences": [{"kind": "InstanceManager", "name": "its", "controller": True}],
            },
            "spec": {"nodeName": "worker-1"},
            "status": {"phase": "Running"},
        },
    )
    world.kube.put(
        BUDGETS,
        {
            "metadata": {"name": "instance", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {label: "it"}}},
            "status": {"disruptionsAllowed": 0, "expectedPods": 1, "desiredHealthy": 1},
        },
    )
    findings = found(world)
    assert [(item.id, item.severity) for item in findings.values()] == [("nodes.drain-lifted", "warning")]
    assert "edit poddisruptionbudget" not in findings["nodes.drain-lifted"].remedy


def test_budget_that_allows_none_now(world: World) -> None:
    """It may allow one by the time of the drain: a warning."""
    add_budget(world, disruptionsAllowed=0, expectedPods=3, desiredHealthy=2)
    assert found(world)["nodes.drain-waits"].severity == "warning"


def test_budget_of_pods_on_other_nodes_is_no_matter(world: World) -> None:
    """Only nodes of the plan are drained."""
    world.kube.delete(PODS, "web", "default")
    add_pod(world, "web", node="worker-2")
    add_budget(world, disruptionsAllowed=0, expectedPods=3, desiredHealthy=3)
    assert found(world) == {}


@pytest.mark.parametrize(("policy", "severity"), [("fail", "error"), ("force", "warning")])
def test_pod_without_a_controller(world: World, policy: OnBlocked, severity: str) -> None:
    """A drain would end it for good."""
    add_pod(world, "alone", "")
    finding = found(world, policy=policy)["nodes.bare-pods"]
    assert (finding.severity, "default/alone on worker-1" in finding.title) == (severity, True)


def test_node_that_the_inventory_lacks(world: World) -> None:
    """Ansible can't reach it; a controller's name in the group of workers doesn't count."""
    finding = found(world, node="worker-9")["nodes.not-in-inventory"]
    assert "worker-9" in finding.title and "`workers`" in finding.remedy
    assert "nodes.not-in-inventory" in found(world, node="controller-1")


def test_source_without_a_checksum(world: World) -> None:
    """Nothing is installed that can't be verified."""
    finding = found(world, source=NodeSource("url", url="https://x"))["nodes.source"]
    assert "no SHA-256 of the kubelet v1.37.1" in finding.title


def test_folder_without_the_files(world: World, tmp_path: Path) -> None:
    """Each file with a checksum must be there; once it is, nothing is found."""
    source = NodeSource("folder", f"{tmp_path}/{{version}}", sha256={"v1.37.1": {"kubelet": "a" * 64}})
    assert "missing files:" in found(world, source=source)["nodes.source"].title
    (tmp_path / "v1.37.1").mkdir()
    (tmp_path / "v1.37.1" / "kubelet").touch()
    assert found(world, source=source) == {}


def cordoned(world: World, name: str, *, planned: bool, releases_change: bool) -> tuple[str, str]:
    """Severity and remedy of the cordon that an interrupted upgrade of a node has left."""
    mark = NodeMark("swap", cordoned=True)
    node = world.node(name)
    node["metadata"]["annotations"] = {MARK: mark.text()}
    node["spec"]["unschedulable"] = True
    world.kube.put(NODES, node)
    context = world.context()
    assert context.plan is not None
    action: Action = "upgrade" if releases_change else "unchanged"
    release = PlannedRelease(ReleaseSpec("kubernetes", "kube-system", Path("/c")), action, "", "", "", ())
    changes = (NodeChange(name, OLD, NEW),) if planned else ()
    pools = PlannedNodes(NodePool("workers"), changes, NEW, PACKAGES, 300.0, 1, Path("/playbooks"))
    context = replace(context, plan=replace(context.plan, steps=(release, pools)))
    finding = next(item for item in check_nodes(context) if item.id == "nodes.cordoned")
    return finding.severity, finding.remedy


@pytest.mark.parametrize(
    ("name", "planned", "releases_change", "severity"),
    [
        ("worker-1", True, True, "info"),
        (CONTROLLER, True, False, "info"),
        (CONTROLLER, True, True, "error"),
        (CONTROLLER, False, False, "error"),
        ("worker-1", False, False, "warning"),
    ],
)
def test_cordon_that_an_interrupted_upgrade_has_left(
    world: World, name: str, planned: bool, releases_change: bool, severity: str
) -> None:
    """The run that takes the node up lifts it: nobody must, least of all by hand, as nobody could say then how far the
    node is. Where the run doesn't get there, `resume` does.
    """
    found, remedy = cordoned(world, name, planned=planned, releases_change=releases_change)
    assert found == severity and "kubectl uncordon" not in remedy
    assert ("upgrader resume" in remedy) == (severity != "info")


@pytest.mark.parametrize(
    ("config", "told"),
    [
        (KubeletConfig("kind: KubeletConfiguration"), False),
        (KubeletConfig("a: 1"), True),
        (KubeletConfig("kind: KubeletConfiguration", immutable=True), True),
        (None, False),  # kubeadm didn't make this cluster
    ],
)
def test_nodes_that_join_later_are_thought_of(world: World, config: KubeletConfig | None, told: bool) -> None:
    """Where kubeadm's own record can't be changed, only they are configured otherwise; said also if no node changes."""
    world.observed = replace(world.observed, kubelet=config)
    wanted = NodeConfiguration({"maxPods": 150})
    step = PlannedNodes(NodePool("workers"), (), NEW, PACKAGES, 300.0, 1, Path("/p"), configuration=wanted)
    context = world.context()
    assert context.plan is not None
    context = replace(context, plan=replace(context.plan, steps=(step,)))
    ids = [
        item.id for item in run_checks(context, [("nodes", check_node_upgrades), ("node-sources", check_node_sources)])
    ]
    assert ids == (["nodes.kubelet-config"] if told else [])


def test_archive_of_containerd_has_to_be_there(world: World, tmp_path: Path) -> None:
    """Of a folder; what an address or a repository has is found out by the nodes."""
    archive = tmp_path / "containerd.tar.gz"

    def ids(runtime: ContainerRuntime) -> list[str]:
        step = PlannedNodes(
            NodePool("workers"), (NodeChange("worker-1", OLD, NEW),), NEW, PACKAGES, 300.0, 1, Path("/p")
        )
        step = replace(step, configuration=NodeConfiguration(runtime=runtime))
        context = world.context()
        assert context.plan is not None
        context = replace(context, plan=replace(context.plan, steps=(step,)))
        return [
            item.id
            for item in run_checks(context, [("nodes", check_node_upgrades), ("node-sources", check_node_sources)])
        ]

    folder = ContainerRuntime("2.1.4", "folder", str(archive), "a" * 64)
    assert ids(folder) == ["nodes.source"]
    archive.touch()
    assert ids(folder) == ids(ContainerRuntime("2.1.4", "packages")) == []


def test_source_of_each_architecture_that_is_upgraded(world: World, tmp_path: Path) -> None:
    """A node's own architecture decides; one that no node has need not be complete."""
    own = ArchitectureSource(str(tmp_path / "arm"), sha256={"v1.37.1": {"kubelet": "b" * 64}})
    empty = ArchitectureSource(str(tmp_path / "s390x"))
    source = NodeSource(
        "folder", str(tmp_path), sha256={"v1.37.1": {"kubelet": "a" * 64}}, architectures={"arm64": own, "s390x": empty}
    )
    (tmp_path / "kubelet").touch()

    def titles(architecture: str) -> list[str]:
        world.observed = replace(world.observed, nodes={"worker-1": ObservedNode(architecture=architecture)})
        return [item.title for item in found(world, source=source).values()]

    assert titles("amd64") == []
    assert titles("arm64") == [f"missing files: {tmp_path}/arm/kubelet"]
    assert titles("s390x") == ["`nodes.source` has no SHA-256 of the kubelet v1.37.1 for s390x"]
