"""`upgrader resume`: continue a run that was interrupted, from this machine or another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from upgrader.app.execution import FinishedRun, continue_run
from upgrader.app.existing_run import ExistingRun, existing_run, newer_records
from upgrader.app.front_end import FrontEnd
from upgrader.app.hops import hops_left, skips_of
from upgrader.app.locking import lock_holder, own_name
from upgrader.app.resumable import left_to_resume
from upgrader.app.wiring import Session
from upgrader.engine.execution.next_action import Action, next_action
from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.errors import UsageError
from upgrader.model.api_lifecycle import Minor, parse_minor
from upgrader.model.event import RunResumed
from upgrader.model.own_steps import BAKE
from upgrader.model.release import RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import Pipeline
from upgrader.steps.images.bundle.reading import Bundle
from upgrader.steps.images.import_images import ImportImagesStep
from upgrader.steps.plan import Plan, changed_inputs, step_inputs
from upgrader.steps.playbook.undone_by_hand import undone_by_hand

__all__ = ["ResumableRun", "ResumedRun", "resumable_run"]


@dataclass(frozen=True)
class ResumedRun:
    """Everything that is needed to continue."""

    run: ExistingRun
    why: RunResumed
    pipeline: Pipeline
    plan: Plan | None
    """Of the whole run; None when it is rolling back."""
    next: Action
    """What is done first."""

    def execute(self) -> FinishedRun:
        """Run it to its end."""
        return continue_run(self.run, self.pipeline, why=self.why, plan=self.plan)


@dataclass(frozen=True)
class ResumableRun:
    """A run that can be continued."""

    run: ExistingRun
    why: RunResumed
    resumed: RunState
    """The run's state as it will be once it is resumed."""
    bundle: Bundle | None = None
    """Where images come from, where they are still to be imported."""
    done: str = ""
    """The step whose changes were taken back by hand; "": none."""

    @property
    def goal(self) -> KubernetesVersion | None:
        """The version that is reached by further hops, once this run has reached its own; None where none follows."""
        state = self.resumed
        return hops_left(replace(state, outcome="succeeded"))

    def prepare(self, *, accept_changes: bool) -> ResumedRun:
        """Build what is left to do: forward, or back if it was rolling back.

        Raises UsageError where the pipeline, or without `accept_changes` the inputs, changed since the run began.
        """
        session = self.run.session.at(self.resumed.target) if self.resumed.target else self.run.session
        with self.run.front_end.busy():
            pipeline, plan = _pipeline(session, self.resumed, self.bundle, accept_changes=accept_changes)
        if self.done:
            pipeline = undone_by_hand(pipeline, self.done, own_name())
        return ResumedRun(replace(self.run, session=session), self.why, pipeline, plan, next_action(self.resumed))


@contextmanager
def resumable_run(
    folder: Path, name: str | None, front_end: FrontEnd, *, take_over: bool, done: str = ""
) -> Iterator[ResumableRun]:
    """Lock the cluster and find the run. `done` is a step whose changes were taken back by hand.

    Raises UsageError where nothing is left to do, or where `done` is no playbook whose rollback has failed.
    """
    with existing_run(folder, name, front_end, take_over=take_over) as run:
        why = RunResumed(run.state.run, lock_holder())
        now = run.session.tools.clock.now()
        resumed = follow(run.state, why, now)
        _refuse_over(run.state, now)
        _refuse_newer(resumed)
        if done:
            _refuse_done(run.state, done)
        imports = resumed.step(ImportImagesStep.NAME)
        if ImportImagesStep.NAME in resumed.planned and (imports is None or imports.phase == "applying"):
            with run.session.bundle() as bundle:
                yield ResumableRun(run, why, resumed, bundle, done)
        else:
            yield ResumableRun(run, why, resumed, done=done)


def _refuse_over(state: RunState, now: datetime) -> None:
    if left_to_resume(state, now):
        return
    back = "`upgrader rollback` undoes it. " if state.outcome == "succeeded" else ""
    goal = hops_left(state)
    on = f"Run `upgrader run --to {goal}` to continue." if goal is not None else "`upgrader run` starts a new one."
    raise UsageError(
        f"there is nothing to resume: run {state.run} has ended ({state.outcome})",
        remedy=f"{back}{on}",
    )


def _refuse_newer(state: RunState) -> None:
    """What this version doesn't know it would not do, or would do again. A rollback isn't refused for that."""
    if state.unknown and not state.rolling_back:
        raise UsageError(
            newer_records(state),
            remedy="Resume it with the version of upgrader that wrote them. Or undo it with this one: upgrader "
            "rollback.",
        )


def _refuse_done(state: RunState, done: str) -> None:
    """A person's word counts only for what upgrader has tried to undo and could not: a playbook."""
    stuck = [step.name for step in state.steps if step.phase == "undo-failed" and _is_playbook(step)]
    if done in stuck:
        return
    step = state.step(done)
    why = "the run doesn't have this step, or has not started it"
    if step is not None:
        why = "its rollback has not failed"
        if not _is_playbook(step):
            why = "it isn't a playbook: upgrader can undo it from any state, and tries again"
    remedy = f"`--done` is for a playbook whose rollback has failed: {', '.join(stuck)}." if stuck else ""
    raise UsageError(
        f"step {done} of run {state.run} can't be marked as done: {why}",
        remedy=remedy or "Resume without `--done`.",
    )


def _is_playbook(step: StepState) -> bool:
    return step.restore_point is not None and replace(step.restore_point, playbook="", begun=0) == RestorePoint()


def _pipeline(
    session: Session, state: RunState, bundle: Bundle | None, *, accept_changes: bool
) -> tuple[Pipeline, Plan | None]:
    builder = session.builder.since(state.health_before)
    if state.rolling_back:
        return builder.rollback(state), None
    emulated = _emulated(state)
    plan = builder.replan(state, session.intended(emulated), session.observe(), emulated)
    pipeline = builder.upgrade(plan, state.planned, bundle, skips_of(state))
    names = tuple(item.step.name for item in pipeline.steps)
    if set(names) ^ set(state.planned) == {BAKE}:
        was, back = ("on", "off") if BAKE in names else ("off", "on")
        raise UsageError(
            f"`policy.bake` in upgrader.yaml was switched {was} after run {state.run} started, but the steps "
            "of a run can't change",
            remedy=f"Switch it {back} until this run has ended; or run `upgrader rollback`, then start a new run.",
        )
    if names != state.planned:
        raise UsageError(
            f"the pipeline has changed since run {state.run} began: from {', '.join(state.planned)} to "
            f"{', '.join(names)}",
            remedy="Restore `pipeline` in upgrader.yaml; or run `upgrader rollback`, then start a new run.",
        )
    changed = changed_inputs(state.inputs, step_inputs(plan))
    if changed and not accept_changes:
        raise UsageError(
            f"the chart, values or playbook of these steps changed since run {state.run} began: {', '.join(changed)}",
            remedy="Restore them; or continue with them as they are now: --accept-changes (completed steps are not "
            "repeated); or undo the run: upgrader rollback.",
        )
    return pipeline, plan


def _emulated(state: RunState) -> Minor | None:
    """As the run began: what answers in the middle of it may emulate, or not."""
    try:
        return parse_minor(state.emulated)
    except ValueError as error:
        raise UsageError(
            f"the journal of run {state.run} is invalid: {state.emulated!r} is not a minor version to emulate",
            remedy="Start a new run with: upgrader run",
        ) from error
