"""Which nodes a run upgrades, in which step, and how many at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from upgrader.model.health_before import IntOrPercent
from upgrader.model.node_configuration import NodeConfiguration
from upgrader.model.node_mark import NodeMark
from upgrader.model.node_settings import DetachPolicy, LeftAlone, NodePool, NodeSource, NodesSettings
from upgrader.model.observed import Observed, ObservedNode
from upgrader.model.version import KubernetesVersion
from upgrader.steps.nodes.plan import NodePlanner, PlannedNodes
from upgrader.steps.step_document import NodeChange

OLD, NEW = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
GPU = {"pool": "gpu"}


def planned(*pools: NodePool, **nodes: ObservedNode | KubernetesVersion) -> tuple[PlannedNodes, ...]:
    """The steps of a cluster with controller `c1` and these nodes, all of the old version unless one is given."""
    settings = NodesSettings(NodeSource("packages"), (NodePool("controllers"), *pools, NodePool("workers")))
    kubelets = {name: node if isinstance(node, KubernetesVersion) else OLD for name, node in nodes.items()}
    found = {name: node if isinstance(node, ObservedNode) else ObservedNode() for name, node in nodes.items()}
    return NodePlanner(settings, {"c1"}, NEW, Path("/playbooks")).plan(Observed(NEW, kubelets, {}, nodes=found))


def shown(steps: tuple[PlannedNodes, ...]) -> dict[str, list[str]]:
    """Step → its nodes."""
    return {step.name: [str(node) for node in step.nodes] for step in steps}


def test_controllers_come_first_and_other_workers_last() -> None:
    """A worker is in the first pool whose labels it has; a controller is never in a pool of workers."""
    gpu = NodePool("gpu", GPU)
    found = planned(gpu, c1=ObservedNode(GPU), w1=ObservedNode({**GPU, "zone": "a"}), w2=ObservedNode())
    assert list(shown(found)) == ["nodes-controllers", "nodes-gpu", "nodes-workers"]
    assert shown(found)["nodes-controllers"] == ["c1 v1.36.3 → v1.37.1"]
    assert shown(found)["nodes-gpu"] == ["w1 v1.36.3 → v1.37.1"]
    assert shown(found)["nodes-workers"] == ["w2 v1.36.3 → v1.37.1"]


def test_node_that_is_left_alone_is_named_and_not_upgraded() -> None:
    """By labels or by name, with its kubelet's version; a percentage is of the others, and the plan's digest too."""
    alone = (LeftAlone("upgrader.yaml:1", {"os": "windows"}), LeftAlone("upgrader.yaml:2", names=("vk", "old")))
    settings = NodesSettings(
        NodeSource("packages"),
        (NodePool("controllers"), NodePool("workers", max_unavailable=IntOrPercent(percent=50))),
        left_alone=alone,
    )
    nodes = {"win": ObservedNode({"os": "windows"}), **{name: ObservedNode() for name in ("vk", "old", "w1", "w2")}}
    kubelets = {**dict.fromkeys(nodes, OLD), "old": KubernetesVersion(1, 35, 0)}

    def plan(left_alone: tuple[LeftAlone, ...], names: list[str]) -> PlannedNodes:
        planner = NodePlanner(replace(settings, left_alone=left_alone), {"c1"}, NEW, Path("/playbooks"))
        there = Observed(NEW, kubelets, {}, nodes={name: nodes[name] for name in names})
        controllers, workers = planner.plan(there)
        assert controllers.summary == "nothing to change"
        return workers

    workers = plan(alone, list(nodes))
    assert [node.node for node in workers.nodes] == ["w1", "w2"]
    assert workers.at_once == 1
    assert workers.summary == (
        "2 nodes: v1.36.3 → v1.37.1; left alone: old, kubelet v1.35.0; left alone: vk, win, kubelet v1.36.3"
    )
    assert plan(alone, ["win"]).summary == "nothing to change; left alone: win, kubelet v1.36.3"
    assert plan(alone, ["win"]).action == "unchanged"
    assert plan((), ["w1", "w2"]).fingerprint == workers.fingerprint


def test_upgraded_nodes_are_left_alone() -> None:
    """A pool of which all have the target, or a newer patch of it, is unchanged; its step is there all the same."""
    controllers, workers = planned(c1=NEW, w1=KubernetesVersion(1, 37, 2), w2=OLD)
    assert (controllers.action, controllers.summary) == ("unchanged", "nothing to change")
    assert (workers.action, workers.summary) == ("upgrade", "1 node: v1.36.3 → v1.37.1")
    assert [node.node for node in workers.nodes] == ["w2"]


@pytest.mark.parametrize(
    ("reported", "marked", "before"),
    [
        (NEW, OLD, OLD),
        (OLD, OLD, OLD),
        (KubernetesVersion(1, 37, 0), OLD, KubernetesVersion(1, 37, 0)),  # what another run has put there
        (NEW, None, NEW),  # nobody knows
    ],
)
def test_node_that_was_left_in_the_middle_is_upgraded_whatever_it_reports(
    reported: KubernetesVersion, marked: KubernetesVersion | None, before: KubernetesVersion
) -> None:
    """Its kubelet may be new, and the node still cordoned. If it fails, it goes back to what its mark says."""
    settings = NodesSettings(NodeSource("packages"), (NodePool("controllers"), NodePool("workers")))
    mark = NodeMark("swap", cordoned=True, before=marked)
    observed = Observed(NEW, {"w1": reported}, {}, nodes={"w1": ObservedNode(mark=mark)})
    _, workers = NodePlanner(settings, {"c1"}, NEW, Path("/playbooks")).plan(observed)
    assert workers.nodes == (NodeChange("w1", before, NEW),)


def test_node_that_could_not_be_put_back_is_upgraded_again() -> None:
    """It isn't put back first: that has failed before, and would fail this run for what failed another."""
    (_, workers) = planned(w1=ObservedNode(mark=NodeMark("back", cordoned=True, why="disk full", before=OLD)))
    assert workers.nodes == (NodeChange("w1", OLD, NEW, again=True),)


@pytest.mark.parametrize(
    ("share", "at_once"),
    [
        (IntOrPercent(count=1), 1),
        (IntOrPercent(count=3), 3),
        (IntOrPercent(percent=20), 2),
        (IntOrPercent(percent=5), 1),
    ],
)
def test_number_at_once_is_of_the_whole_pool(share: IntOrPercent, at_once: int) -> None:
    """A percentage is of all nodes of the pool, upgraded or not, rounded down, and at least one."""
    nodes = {f"w{number}": ObservedNode(GPU) for number in range(9)}
    steps = planned(NodePool("gpu", GPU, share), **nodes, w9=ObservedNode(GPU))
    assert steps[1].at_once == at_once


def test_share_never_exceeds_what_there_is() -> None:
    """Nor is it nothing."""
    limits = (IntOrPercent(count=5), IntOrPercent(count=0), IntOrPercent(percent=100))
    assert [limit.at_once(3) for limit in limits] == [3, 1, 3]


def test_nodes_of_the_right_version_are_told_by_what_they_are_configured_with() -> None:
    """A node that nobody knows, and one with another configuration, get it; a newer node keeps its programs, and so
    everything; without a configuration, the versions alone decide.
    """
    wanted = NodeConfiguration({"maxPods": 150})
    known = {
        "c1": ObservedNode(configured=wanted.fingerprint),
        "w1": ObservedNode(),
        "w2": ObservedNode(configured="other"),
        "w3": ObservedNode(configured=wanted.fingerprint),
        "w4": ObservedNode(),
    }
    kubelets = {**dict.fromkeys(known, NEW), "w3": OLD, "w4": KubernetesVersion(1, 37, 2)}
    settings = NodesSettings(NodeSource("packages"), (NodePool("controllers"), NodePool("workers")))
    observed = Observed(NEW, kubelets, {}, nodes=known)

    def plan(configuration: NodeConfiguration) -> tuple[PlannedNodes, ...]:
        made = NodePlanner(replace(settings, configuration=configuration), {"c1"}, NEW, Path("/p"))
        return made.plan(observed)

    controllers, workers = plan(wanted)
    assert (controllers.action, [node.node for node in workers.nodes]) == ("unchanged", ["w1", "w2", "w3"])
    assert workers.summary == "3 nodes: v1.36.3 → v1.37.1; kubelet: maxPods"
    behind = replace(workers, pool=replace(workers.pool, detach=DetachPolicy()))
    assert behind.summary == f"{workers.summary}; out of the load balancer during its upgrade"
    assert [node.configured for node in workers.nodes] == ["", "other", wanted.fingerprint]
    assert [node.node for node in plan(NodeConfiguration())[1].nodes] == ["w3"]
