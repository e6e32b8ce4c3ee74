"""A new run that finds nodes which an earlier one left in the middle, and doesn't have its journal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.steps.nodes.fleet import NEW, OLD, Fleet
from upgrader.errors import StepFailed
from upgrader.model.node_mark import NodeMark
from upgrader.model.node_settings import NodePool, NodeSource, NodesSettings
from upgrader.model.observed import Observed, ObservedNode
from upgrader.model.version import KubernetesVersion
from upgrader.steps.nodes.plan import NodePlanner
from upgrader.steps.step_document import NodeChange

DONE, AS_BEFORE = str(NEW), str(OLD)


@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize("fails", [False, True])
def test_killed_at_any_request_a_new_run_takes_it_up(at_once: int, fails: bool) -> None:
    """Without the journal of the run that died: the nodes are upgraded; one that fails goes back to the version that
    it had before either run.
    """
    for lives in range(1000):
        fleet = Fleet("worker-1", "worker-2")
        died = fleet.dies(lives, at_once)
        upgraded = {name for name, found in fleet.state().items() if found == DONE}
        fleet.never_ready |= {"worker-1"} if fails else set()
        planned = replace(fleet.step(at_once=at_once, max_failed=1).planned, nodes=plan_again(fleet))
        fleet.step(planned=planned).apply(fleet.notes.append)
        failed = fails and "worker-1" not in upgraded
        expected = {"worker-1": AS_BEFORE if failed else DONE, "worker-2": DONE}
        assert fleet.state() == expected, f"killed at request {lives}"
        if not died:
            break
    assert lives > 20


def plan_again(fleet: Fleet) -> tuple[NodeChange, ...]:
    """What a new run plans, from what it observes."""
    nodes = [fleet.node(name) for name in fleet.names]
    kubelets = {
        node["metadata"]["name"]: KubernetesVersion.parse(node["status"]["nodeInfo"]["kubeletVersion"])
        for node in nodes
    }
    marks = {node["metadata"]["name"]: ObservedNode(mark=NodeMark.of(node)) for node in nodes}
    settings = NodesSettings(NodeSource("packages"), (NodePool("controllers"), NodePool("workers")))
    _, workers = NodePlanner(settings, (), NEW, Path("/playbooks")).plan(Observed(NEW, kubelets, {}, nodes=marks))
    return workers.nodes


def test_new_run_completes_a_node_that_could_not_be_put_back() -> None:
    """It was repaired, whichever kubelet is in place: a new run doesn't fail for what failed another."""
    fleet = Fleet("worker-1")
    fleet.never_ready.add("worker-1")
    fleet.irreparable.add("worker-1")
    with pytest.raises(StepFailed):
        fleet.step().apply(fleet.notes.append)
    fleet.never_ready.clear()
    fleet.irreparable.clear()
    fleet.ran.clear()
    step = fleet.step()
    planned = replace(step.planned, nodes=(NodeChange("worker-1", OLD, NEW, again=True),))
    replace(step, planned=planned).apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": DONE}
    assert fleet.ran == ["upgrade-node.yml worker-1"]
