"""Which group versions of the API may be missing during a run, or while another process rolls it back."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.engine.state.run_state import RunState
from upgrader.gates.continuity.served_groups import removed_by
from upgrader.model.release import RestorePoint
from upgrader.ports import Helm
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.release.plan import PlannedRelease

__all__ = ["removed_by_plan", "removed_by_undo"]


def removed_by_plan(plan: Plan) -> frozenset[str]:
    """The group versions that an upgrade's plan removes."""
    return frozenset().union(*(removed_by(step.before, step.after) for step in planned_of(plan, PlannedRelease)))


def removed_by_undo(helm: Helm, state: RunState) -> frozenset[str]:
    """What the run removed, which is missing until it is undone, and what the run brought, which its undo removes.

    Which of both the run's baseline has depends on when it was taken. Raises HelmError when Helm can't read a revision.
    """
    points = [step.restore_point for step in state.steps]
    return frozenset().union(*(_changed(helm, point) for point in points if point is not None and point.release))


def _changed(helm: Helm, point: RestorePoint) -> Iterator[str]:
    kept = point.revision or 0
    later = [each.number for each in helm.history(point.release, point.namespace) if each.number > kept]
    before = helm.manifest(point.release, point.namespace, kept) if kept and later else ""
    for number in later:
        after = helm.manifest(point.release, point.namespace, number)
        yield from removed_by(before, after) | removed_by(after, before)
