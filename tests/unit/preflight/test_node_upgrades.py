"""The nodes of the plan can be upgraded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.preflight.conftest import World
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.model.node_settings import DrainPolicy, NodePool, NodeSource, OnBlocked
from upgrader.model.plan import NodeChange, PlannedNodes
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.context import PODS
from upgrader.preflight.node_upgrades import check_node_upgrades
from upgrader.steps.nodes.kinds import BUDGETS

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
    return {item.id: item for item in run_checks(context, [("nodes", check_node_upgrades)])}


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
    assert "has no file kubelet" in found(world, source=source)["nodes.source"].title
    (tmp_path / "v1.37.1").mkdir()
    (tmp_path / "v1.37.1" / "kubelet").touch()
    assert found(world, source=source) == {}
