"""`upgrader rollback`: undo what a run did, newest step first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from upgrader.app.execution import FinishedRun, continue_run
from upgrader.app.existing_run import ExistingRun, existing_run
from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import lock_holder
from upgrader.app.rollback_checks import check_kubelets, check_unchanged
from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.errors import UsageError
from upgrader.model.event import RollbackRequested
from upgrader.model.settings import PlaybookSettings

__all__ = ["ProposedRollback", "RunToRollBack", "run_to_roll_back"]


@dataclass(frozen=True)
class ProposedRollback:
    """What a rollback would undo."""

    run: ExistingRun
    why: RollbackRequested
    state: RunState
    """The run's state as it will be once the rollback has begun."""

    @property
    def steps(self) -> tuple[StepState, ...]:
        """The steps that are undone, in this order, by the playbooks that upgrader.yaml names now."""
        return tuple(self._as_it_is_now(step) for step in self.state.rollback_order if step.to_undo)

    def _as_it_is_now(self, step: StepState) -> StepState:
        if step.restore_point is None or step.restore_point.release:
            return step
        wanted = (item for item in self.run.session.settings.pipeline if isinstance(item, PlaybookSettings))
        undo = next((item.undo for item in wanted if item.name == step.name), None)
        return replace(step, restore_point=replace(step.restore_point, playbook=undo.name if undo else ""))

    def execute(self) -> FinishedRun:
        """Undo them all, and check the gates after each."""
        run = self.run
        pipeline = run.session.builder.since(self.state.health_before).rollback(self.state)
        return continue_run(run, pipeline, why=self.why, plan=None)


@dataclass(frozen=True)
class RunToRollBack:
    """A run that may be rolled back; `named` says whether the operator named it."""

    run: ExistingRun
    named: bool

    def propose(self, to: str) -> ProposedRollback:
        """Keep the step `to` and those before it; "" keeps none. Raises UsageError where that makes no sense.

        Raises ChangedMeanwhile or Blocked where what happened since forbids it.
        """
        run = self.run
        if not self.named:
            _check_meant(run)
        begun = [step.name for step in run.state.steps]
        if to and to not in begun:
            raise UsageError(
                f"--to {to}: run {run.state.run} doesn't have this step, or has not started it",
                remedy=f"Name one of the steps that it has started: {', '.join(begun) or 'none'}",
            )
        why = RollbackRequested(run.state.run, lock_holder(), to)
        proposed = ProposedRollback(run, why, follow(run.state, why, run.session.tools.clock.now()))
        with run.front_end.busy():
            check_unchanged(run.session.tools.helm, proposed.steps)
            check_kubelets(run.session.tools.kube, run.state.current, run.state.target, proposed.steps)
        return proposed


@contextmanager
def run_to_roll_back(
    folder: Path, name: str | None, front_end: FrontEnd, *, take_over: bool
) -> Iterator[RunToRollBack]:
    """Lock the cluster and find the run (None: the newest upgrade)."""
    with existing_run(folder, name, front_end, take_over=take_over) as run:
        yield RunToRollBack(run, named=name is not None)


def _check_meant(run: ExistingRun) -> None:
    """Who takes a dead run's lock means that run, which may have ended before its journal was written anywhere."""
    dead = run.held.lock.taken_over
    if dead is not None and run.state.outcome == "succeeded":
        name = run.folder.name
        raise UsageError(
            f"{dead.holder} still held the cluster's lock, but the newest run, {name}, succeeded: there is no "
            "interrupted run to roll back",
            remedy=f"To roll back that run: upgrader rollback --run {name}",
        )
