"""The steps around a pool's upgrade in a run: forward, resumed, and undone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.steps.nodes.test_builder import NEW, NODES, OLD, builder, names, observed, state
from upgrader.app.run_inputs import named_inputs
from upgrader.cli.ui.plan_markdown import plan_markdown
from upgrader.engine.state.run_state import StepState
from upgrader.errors import UsageError
from upgrader.model.node_settings import NodePool
from upgrader.model.observed import Observed, ObservedNode
from upgrader.model.release import RestorePoint
from upgrader.model.surge import SURGE, Surge
from upgrader.steps.plan import Plan, changed_inputs, observed_after, step_inputs
from upgrader.steps.plan_document import PlanDocument
from upgrader.steps.surge.plan import PlannedSurge

ADD, REMOVE = Path("/c/add.yml"), Path("/c/remove.yml")
POOL = NodePool("workers", surge=Surge(1, ADD, REMOVE))
WITH_SURGE = replace(NODES, pools=(NodePool("controllers"), POOL))
STEPS = ["nodes-controllers", "surge-workers", "nodes-workers", "end-surge-workers"]
POINT = RestorePoint(surge="workers")


def with_left(found: Observed, name: str = "surge-1") -> Observed:
    """With a surge node that an earlier run has left."""
    node = ObservedNode({SURGE: "workers"})
    return replace(found, kubelets={**found.kubelets, name: OLD}, nodes={**found.nodes, name: node})


def surges(plan: Plan) -> list[tuple[str, str]]:
    """(Name, action) of the steps of surges."""
    return [(step.name, step.action) for step in plan.steps if isinstance(step, PlannedSurge)]


def test_pool_is_upgraded_between_the_steps_of_its_surge() -> None:
    """Each with the gates of the cluster; what was added is what a rollback removes."""
    one = builder(WITH_SURGE)
    pipeline = one.forward(one.plan((), observed()))
    assert names(pipeline) == ["stage-nodes", *STEPS]
    assert [item.changes for item in pipeline.steps[1:]] == [True] * 4
    assert [run.gate.name for run in pipeline.steps[2].gates] == ["nodes", "critical-pods"]
    assert pipeline.steps[2].step.capture() == POINT
    assert pipeline.steps[4].step.capture() is None


def test_pool_with_nothing_to_change_gets_no_nodes() -> None:
    """The steps are there all the same, so that a run that is resumed has them."""
    one = builder(WITH_SURGE)
    plan = one.plan((), observed(NEW, NEW))
    assert surges(plan) == [("surge-workers", "unchanged"), ("end-surge-workers", "unchanged")]
    assert [item.changes for item in one.forward(plan).steps] == [False] * 5


def test_surge_node_of_an_earlier_run_is_not_upgraded_but_removed() -> None:
    """Whatever its kubelet, and also where no node of its pool changes."""
    one = builder(WITH_SURGE)
    plan = one.plan((), with_left(observed(NEW, NEW)))
    assert surges(plan) == [("surge-workers", "unchanged"), ("end-surge-workers", "remove")]
    assert [step.action for step in plan.steps if not isinstance(step, PlannedSurge)] == ["unchanged", "unchanged"]
    assert plan.steps[-1].summary == "drain and remove the surge nodes (remove.yml); there already: surge-1"
    after = observed_after(plan, with_left(observed(NEW, NEW)))
    assert ("surge-1" in after.nodes, "surge-1" in after.kubelets) == (False, False)


def test_labelled_node_of_the_inventory_is_upgraded_as_any_other() -> None:
    """No label takes a node out of the cluster's own ones."""
    one = builder(WITH_SURGE)
    found = with_left(observed(NEW, OLD), "worker-1")
    plan = one.plan((), found)
    assert surges(plan) == [("surge-workers", "add"), ("end-surge-workers", "remove")]
    assert [getattr(step, "there", ()) for step in plan.steps] == [()] * 4
    assert [step.action for step in plan.steps if step.name == "nodes-workers"] == ["upgrade"]


def test_resumed_run_removes_what_it_has_added() -> None:
    """Also where all nodes of the pool were upgraded before the interruption, or its surge nodes have gone."""
    one = builder(WITH_SURGE)
    begun = replace(state(StepState("surge-workers", "passed", restore_point=POINT)), planned=tuple(STEPS))
    plan = one.replan(begun, (), observed(NEW, NEW))
    assert surges(plan) == [("surge-workers", "add"), ("end-surge-workers", "remove")]
    not_begun = replace(state(), planned=tuple(STEPS))
    assert surges(one.replan(not_begun, (), observed())) == surges(plan)
    unneeded = replace(state(StepState("surge-workers", "passed")), planned=tuple(STEPS))
    assert surges(one.replan(unneeded, (), observed(NEW, NEW))) == [
        ("surge-workers", "unchanged"),
        ("end-surge-workers", "unchanged"),
    ]
    assert surges(one.replan(unneeded, (), with_left(observed(NEW, NEW))))[1] == ("end-surge-workers", "remove")


def test_run_that_began_without_a_surge_is_resumed_without_it() -> None:
    """A run keeps its steps."""
    planned = ("nodes-controllers", "nodes-workers")
    plan = builder(WITH_SURGE).replan(replace(state(), planned=planned), (), observed())
    assert [step.name for step in plan.steps] == [*planned]


def test_rollback_removes_surge_nodes() -> None:
    """By the playbook that upgrader.yaml names; a journal can't have anything else removed."""
    begun = state(StepState("surge-workers", "passed", restore_point=POINT))
    pipeline = builder(WITH_SURGE).rollback(begun)
    assert names(pipeline) == ["surge-workers"]
    assert [run.gate.name for run in pipeline.steps[0].undo_gates] == ["nodes", "critical-pods"]
    for nodes in (NODES, None):
        with pytest.raises(UsageError, match=r"no pool in upgrader\.yaml has that `surge`"):
            builder(nodes).rollback(begun)


def test_plan_shows_a_surge() -> None:
    """In the JSON and in Markdown, with what undoes it."""
    plan = builder(WITH_SURGE).plan((), observed())
    document = PlanDocument.of(plan, (), {})
    shown = {step.name: (step.kind, step.action, str(step.undo)) for step in document.steps}
    assert shown["surge-workers"] == ("surge", "add", "the surge nodes are drained and removed")
    assert shown["end-surge-workers"] == ("surge", "remove", "not needed")
    assert "1 more node during nodes-workers (add.yml)" in plan_markdown(document)


def test_saved_plan_is_bound_to_both_playbooks() -> None:
    """As to any other that runs on this machine."""
    found = dict(named_inputs(builder(WITH_SURGE).settings))
    assert (found["the playbook of surge-workers"], found["the undo of surge-workers"]) == (ADD, REMOVE)


def test_changed_playbook_or_number_is_a_changed_input(tmp_path: Path) -> None:
    """A resume notices it; nothing else of the pool's upgrade is changed by it."""
    add, remove = tmp_path / "add.yml", tmp_path / "remove.yml"
    for each in (add, remove):
        each.write_text("[]\n")

    def inputs(nodes: int) -> Plan:
        pool = replace(POOL, surge=Surge(nodes, add, remove))
        return builder(replace(NODES, pools=(NodePool("controllers"), pool))).plan((), observed())

    before, more = step_inputs(inputs(1)), step_inputs(inputs(2))
    assert changed_inputs(before, more) == ("surge-workers", "end-surge-workers")
    add.write_text("- hosts: localhost\n")
    assert changed_inputs(before, step_inputs(inputs(1))) == ("surge-workers",)


def test_digest_of_a_plan_tells_surges_apart() -> None:
    """Equal digests mean the same run from the same start."""
    digests = {builder(nodes).plan((), observed()).digest for nodes in (NODES, WITH_SURGE)}
    assert len(digests) == 2
