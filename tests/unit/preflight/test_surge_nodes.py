"""Surge nodes that an earlier run has left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.unit.preflight.conftest import World
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.model.node_mark import MARK, NodeMark
from upgrader.model.node_settings import NodePool
from upgrader.model.surge import SURGE, Surge
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.access_rights import check_access
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.context import NODES
from upgrader.preflight.nodes import check_nodes
from upgrader.steps.surge.plan import PlannedSurge

NEW = KubernetesVersion(1, 37, 1)
POOL = NodePool("workers", surge=Surge(1, Path("/c/add.yml"), Path("/c/remove.yml")))


def found(world: World, *steps: PlannedSurge) -> dict[str, Finding]:
    """The findings of a plan with these steps, by id."""
    context = world.context()
    assert context.plan is not None
    context = replace(context, plan=replace(context.plan, steps=(*context.plan.steps, *steps)))
    return {item.id: item for item in run_checks(context, [("nodes", check_nodes), ("access", check_access)])}


def test_left_node_is_named_and_how_to_remove_it(world: World) -> None:
    """Where no run takes it up, it costs money for ever, and gets no new kubelet."""
    world.node("surge-1", labels={SURGE: "workers"})
    left = found(world)["nodes.surge-left"]
    assert left.severity == "warning"
    assert left.title == "surge-1: a surge node of the pool workers, left by an earlier run"
    assert "kubectl drain surge-1" in left.remedy and f"kubectl label node surge-1 {SURGE}-" in left.remedy
    unneeded = PlannedSurge(POOL, True, NEW, needed=False)
    assert found(world, unneeded)["nodes.surge-left"].severity == "warning"


def test_node_that_the_run_takes_up_is_only_told_of(world: World) -> None:
    """Its cordon, which a removal has made that didn't end, is no finding of its own; somebody else's is."""
    mark = NodeMark("drain", cordoned=True, before=NEW).text()
    node = world.node("surge-1", labels={SURGE: "workers"}, annotations={MARK: mark})
    node["spec"]["unschedulable"] = True
    world.kube.put(NODES, node)
    step = PlannedSurge(POOL, True, NEW, needed=True)
    assert {id_: item.severity for id_, item in found(world, step).items()} == {"nodes.surge-left": "info"}
    del node["metadata"]["annotations"]
    world.kube.put(NODES, node)
    assert set(found(world, step)) == {"nodes.surge-left", "nodes.cordoned"}


def test_labelled_node_of_the_inventory_is_the_clusters_own(world: World) -> None:
    """It is upgraded, and never removed; who has meant something else is told."""
    world.node("worker-1", labels={SURGE: "workers"})
    world.cluster = replace(world.cluster, workers=(Host("worker-1", "10.0.0.3"),))
    findings = found(world)
    assert set(findings) == {"nodes.surge-listed"}
    assert f"kubectl label node worker-1 {SURGE}-" in findings["nodes.surge-listed"].remedy


def test_right_to_delete_nodes_is_only_asked_for_a_surge(world: World) -> None:
    """A machine that is gone may leave its Node."""
    world.kube.denied = {("delete", "nodes")}
    assert "access.missing" not in found(world)
    missing = found(world, PlannedSurge(POOL, True, NEW, needed=True))["access.missing"]
    assert "delete nodes" in missing.title
