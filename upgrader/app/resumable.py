"""Whether the newest upgrade has anything left to do, and whether it can still be continued."""

from __future__ import annotations

from datetime import datetime

from upgrader.app.locking import lock_holder
from upgrader.engine.execution.next_action import End, next_action
from upgrader.engine.history.run_discovery import DiscoveredRun, DiscoveredRuns
from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.run_state import RunState
from upgrader.model.event import RunResumed
from upgrader.model.run_kind import RunKind

__all__ = ["builds_on", "built_on", "left_to_resume", "newest_upgrade", "upgrade_to_resume"]


def left_to_resume(state: RunState, now: datetime) -> bool:
    """Whether `resume` would continue it. An interrupted run is resumed even if only its end is missing; one that has
    ended must have work left.
    """
    resumed = follow(state, RunResumed(state.run, lock_holder()), now)
    return not state.over and (state.outcome != "failed" or not isinstance(next_action(resumed), End))


def newest_upgrade(found: DiscoveredRuns) -> DiscoveredRun | None:
    """The one that commands mean that name no run; None where there is none."""
    return next((run for run in reversed(found.runs) if run.state.is_upgrade), None)


def upgrade_to_resume(found: DiscoveredRuns, now: datetime) -> str:
    """The newest upgrade's name where something is left to do of it, and it can be continued; "" where not."""
    newest = newest_upgrade(found)
    if newest is None or built_on(newest, found) is not None or not left_to_resume(newest.state, now):
        return ""
    return newest.name


def built_on(run: DiscoveredRun, found: DiscoveredRuns) -> DiscoveredRun | None:
    """The later run whose changes build on this one's, so that this one can't be continued any more; None: it can."""
    later = found.runs[found.runs.index(run) + 1 :]
    return next((each for each in later if builds_on(each.state, run.state)), None)


def builds_on(later: RunState, run: RunState) -> bool:
    """Whether the changes of a later run build on this one's."""
    if not any(step.to_undo for step in later.steps):
        return False
    if later.kind is RunKind.MIGRATE_STORAGE:
        return _other_minor(run)
    return later.kind is not RunKind.RENEW_CERTIFICATES  # no version depends on when a certificate ends


def _other_minor(state: RunState) -> bool:
    """Whether the run led from one minor to another, or can't be known not to have."""
    return state.current is None or state.target is None or state.target.minors_after(state.current) != 0
