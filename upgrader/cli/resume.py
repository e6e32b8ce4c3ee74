"""`upgrader resume`: go on with a run that was interrupted, from this machine or another."""

from __future__ import annotations

from pathlib import Path

import click

from upgrader.assemble import assemble
from upgrader.cli.carry_out import carry_on
from upgrader.cli.locking import TAKE_OVER, lock_holder
from upgrader.cli.past import RUN, past_work
from upgrader.cli.wiring import Session
from upgrader.engine.execution.next_action import Action, Begin, End, GoOn, Hold, Undo, next_action
from upgrader.engine.execution.step_inputs import changed_inputs, step_inputs
from upgrader.engine.state.run_state import RunState, follow
from upgrader.errors import UsageError
from upgrader.model.event import RunResumed
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import Pipeline
from upgrader.reassemble import plan_again, way_back
from upgrader.ui.runs import print_run

__all__ = ["resume"]


@click.command()
@RUN
@click.option(
    "--accept-changes",
    is_flag=True,
    help="Go on although charts, values or playbooks have changed since the run began; use them as they are now.",
)
@click.option("--yes", "-y", is_flag=True, help="Don't ask before starting.")
@TAKE_OVER
@click.pass_obj
def resume(folder: Path, name: str | None, accept_changes: bool, yes: bool, take_over: bool) -> None:
    """Go on with a run that was interrupted, or failed: forward, or back where it was on its way back.

    The journal is found in this folder, in the cluster, or on its controllers. A step that was cut off is looked at
    first: what is at work still is waited for, what is done is not done again. Then the run goes on, with all gates,
    and ends as it would have ended. Of a run that failed, what could not be taken back is tried again; where policy
    says to stop at a failure, the step that failed is.

    \b
    Exit codes: as of `upgrader run`; 2 also when there is nothing to go on with, or the run's inputs have changed, 5
    also when somebody else has changed the release that the run was at.
    """
    with past_work(folder, name, take_over=take_over) as work:
        why = RunResumed(work.state.run, lock_holder())
        state = follow(work.state, why)
        _refuse_over(work.state, state)
        print_run(work.run.report)
        session = work.session.at(KubernetesVersion.parse(state.target))
        pipeline = _pipeline(session, state, accept_changes)
        click.echo(f"Next: {_words(next_action(state))}", err=True)
        if not yes:
            click.confirm("Go on?", abort=True, err=True)
        carry_on(session, pipeline, folder=work.folder, why=why, held=work.held)


def _refuse_over(state: RunState, resumed: RunState) -> None:
    """A run that was cut off goes on even if only its end is missing; one that has ended must have something to do."""
    if not state.over and (state.outcome != "failed" or not isinstance(next_action(resumed), End)):
        return
    back = "`upgrader rollback` takes it back; " if state.outcome == "succeeded" else ""
    raise UsageError(
        f"there is nothing to go on with: run {state.run} has ended ({state.outcome})",
        remedy=f"{back}`upgrader run` begins a new one.",
    )


def _words(action: Action) -> str:
    match action:
        case Begin():
            return f"begin {action.step}"
        case GoOn():
            return f"{action.step} was cut off: see how far it got, and complete it"
        case Hold():
            return f"hold the gates of {action.step}"
        case Undo():
            return f"go back: undo {action.step}"
        case End():
            return f"nothing but to write down that the run has ended ({action.outcome})"


def _pipeline(session: Session, state: RunState, accept_changes: bool) -> Pipeline:
    if state.going_back:
        return way_back(state, session.settings, session.cluster, session.tools)
    plan = plan_again(state, session.intended(), session.observe(), session.tools.helm)
    pipeline = assemble(plan, session.settings, session.cluster, session.tools)
    names = tuple(item.step.name for item in pipeline.steps)
    if names != state.planned:
        raise UsageError(
            f"the pipeline is no longer that of run {state.run}: it was {', '.join(state.planned)}, and is "
            f"{', '.join(names)}",
            remedy="Put `pipeline` in upgrader.yaml back, or `upgrader rollback` and begin anew.",
        )
    changed = changed_inputs(state.inputs, step_inputs(plan))
    if changed and not accept_changes:
        raise UsageError(
            f"since run {state.run} began, the chart, the values or the playbook have changed of: {', '.join(changed)}",
            remedy="Put them back; or go on with them as they are now: --accept-changes (a step that is done already "
            "is not done again); or take the run back: upgrader rollback.",
        )
    return pipeline
