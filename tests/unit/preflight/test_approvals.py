"""Where a run will wait for a person is shown before it begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.unit.preflight.conftest import World
from upgrader.model.node_settings import NodePool, NodeSource
from upgrader.model.release import ReleaseSpec
from upgrader.preflight.approvals import check_approvals
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.plan import Plan
from upgrader.steps.playbook.plan import PlannedPlaybook
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.step_document import NodeChange


def test_approvals(world: World) -> None:
    """A step that changes something is named, with how long it waits; one that changes nothing won't wait."""
    context = world.context()
    same = PlannedRelease(ReleaseSpec("kubernetes", "kube-system", Path("/c")), "unchanged", "", "", "", ())
    steps = (PlannedPlaybook(Path("/p/extra.yml"), None), same)
    context = replace(context, plan=Plan(context.observed.server, context.target, steps))
    assert list(check_approvals(context)) == []
    pool = PlannedNodes(NodePool("gpu"), (), context.target, NodeSource("packages"), 300.0, 1, Path("/p"))
    unchanged = replace(context, plan=Plan(context.observed.server, context.target, (pool,)))
    assert list(check_approvals(replace(unchanged, approvals={"nodes-gpu": 60.0}))) == []
    changed = replace(pool, nodes=(NodeChange("n1", context.observed.server, context.target),))
    upgraded = replace(unchanged, plan=Plan(context.observed.server, context.target, (changed,)))
    (found,) = check_approvals(replace(upgraded, approvals={"nodes-gpu": 60.0}))
    assert "before the step nodes-gpu" in found.title
    waits = replace(context, approvals={"extra": 7200.0, "kubernetes": 60.0})
    (found,) = check_approvals(waits)
    assert (found.id, found.severity, found.blocking) == ("approvals.needed", "info", False)
    assert "before the step extra" in found.title and "120 min" in found.diagnosis and "approve extra" in found.remedy
