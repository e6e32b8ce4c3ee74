"""The nodes that upgrader.yaml has left alone are in the cluster, and in no pool; those of Windows are among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.preflight.conftest import CONTROLLER, World
from upgrader.model.finding import Finding
from upgrader.model.node_settings import LeftAlone, NodePool, NodeSource, NodesSettings
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.nodes import check_nodes
from upgrader.steps.nodes.api_resources import NODES
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.step_document import NodeChange

OLD, NEW = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
WINDOWS = {"kubernetes.io/os": "windows"}
GPU = NodePool("gpu", {"pool": "gpu"})


@pytest.fixture
def world() -> World:
    """A cluster with a node of Windows, one that the pool selects, and a Virtual Kubelet."""
    world = World()
    world.kube.put(NODES, {"metadata": {"name": CONTROLLER}, "status": {}})
    for name, labels in {"win-1": WINDOWS, "gpu-1": {"pool": "gpu"}, "virtual": None}.items():
        world.kube.put(NODES, {"metadata": {"name": name, "labels": labels}, "status": {}})
    return world


def found(world: World, *alone: LeftAlone, upgraded: str = "") -> Mapping[str, Finding]:
    """Those of this check, by id, with these entries and a plan that upgrades a node."""
    settings = NodesSettings(NodeSource("packages"), (NodePool("controllers"), GPU), left_alone=alone)
    changes = (NodeChange(upgraded, OLD, NEW),) if upgraded else ()
    step = PlannedNodes(NodePool("workers"), changes, NEW, settings.source, 300.0, 1, Path("/playbooks"))
    context = world.context()
    assert context.plan is not None
    context = replace(context, node_settings=settings, plan=replace(context.plan, steps=(step,)))
    wanted = ("nodes.left-alone", "nodes.windows")
    return {item.id: item for item in run_checks(context, [("nodes", check_nodes)]) if item.id.startswith(wanted)}


def test_nodes_that_are_there_can_be_left_alone(world: World) -> None:
    """By labels or names, also one whose kubelet has never told a version."""
    assert found(world, LeftAlone("f:1", WINDOWS), LeftAlone("f:2", names=("virtual",))) == {}


@pytest.mark.parametrize(
    ("entry", "severity", "told"),
    [
        (LeftAlone("upgrader.yaml:7", {"os": "windows", "a": "b"}), "warning", "nodes with the labels os=windows,a=b"),
        (LeftAlone("upgrader.yaml:7", names=("win-1", "win-2")), "error", "win-2"),
    ],
)
def test_entry_that_selects_no_node(world: World, entry: LeftAlone, severity: str, told: str) -> None:
    """With file and line: misspelt, it would have the run upgrade what is to be left alone. A pool of an autoscaler
    may have no node now: that is only a warning.
    """
    finding = found(world, entry)["nodes.left-alone-missing"]
    assert finding.severity == severity
    assert finding.title == f"upgrader.yaml:7: `nodes.leftAlone` selects {told}, but the cluster has none"


def test_node_of_a_pool_and_a_controller_can_not_be_left_alone(world: World) -> None:
    """Either could be meant; both are named, with what contradicts."""
    finding = found(world, LeftAlone("upgrader.yaml:7", names=(CONTROLLER, "gpu-1", "win-1")))[
        "nodes.left-alone-in-pool"
    ]
    assert finding.severity == "error"
    assert finding.title.startswith("upgrader.yaml:7: ")
    assert finding.title.endswith(f"also upgraded: {CONTROLLER} (a controller), gpu-1 (in the pool gpu)")


def test_windows_is_not_upgraded(world: World) -> None:
    """A node of Windows that the plan would upgrade is refused, and the message has what to write."""
    finding = found(world, upgraded="win-1")["nodes.windows"]
    assert finding.severity == "error" and finding.title.startswith("win-1: ")
    assert "`nodes: {leftAlone: [{selector: {kubernetes.io/os: windows}}]}`" in finding.remedy
    assert found(world, upgraded="gpu-1") == {}
