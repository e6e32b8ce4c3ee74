"""Executes a pipeline as a run: run folder, lock, journal and its replicas, display, availability probe, report."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from upgrader.app.existing_run import ExistingRun
from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import HeldLock
from upgrader.app.probing import probe_of, probing, recording
from upgrader.app.removed_apis import removed_by_plan, removed_by_undo
from upgrader.app.run_observers import observing
from upgrader.app.wiring import Session
from upgrader.config.yaml_document import shown
from upgrader.engine.execution.cordoned_nodes import cordoned
from upgrader.engine.execution.runner import Runner, RunResult
from upgrader.engine.execution.stop_request import StopRequest, stop_on_signals
from upgrader.engine.history.kept_runs import prune
from upgrader.engine.history.past_runs import newest_run
from upgrader.engine.journal.journal_file import JOURNAL, Journal, read_journal
from upgrader.engine.locks.group_notes import GroupNotes
from upgrader.engine.state.event_fold import fold
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ApiError, Interrupted, RollbackFailed, StepFailed, UpgraderError, UsageError
from upgrader.gates.availability.phases import Phases
from upgrader.gates.availability.series_file import SERIES
from upgrader.gates.availability_gate import with_availability_gates
from upgrader.gates.bake_gate import baked_together
from upgrader.gates.continuity.continuity import Continuity
from upgrader.gates.continuity.host_names import HostNames
from upgrader.gates.shared_reads import SharedReads
from upgrader.model.emulation import minor_text
from upgrader.model.event import (
    ChangedSeverity,
    Event,
    Note,
    RollbackRequested,
    RunResumed,
    RunStarted,
    SkippedCheck,
    Warned,
)
from upgrader.model.finding import Finding
from upgrader.model.first_words import first_words
from upgrader.model.health_before import HealthBefore
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import OnFailure, ReleaseSettings, Settings
from upgrader.model.skips import NO_SKIPS, Skips
from upgrader.model.version import KubernetesVersion
from upgrader.model.webhook_ref import WebhookRef
from upgrader.pipeline import Pipeline
from upgrader.ports import Clock, Reporter
from upgrader.preflight.down_controllers import down_controllers
from upgrader.rendering import Templates
from upgrader.reporting.report.formats import write_reports
from upgrader.reporting.report.plan_diffs import DIFFS, keep_diffs
from upgrader.steps.plan import Plan, step_inputs
from upgrader.system_errors import run_ended_by_the_system

__all__ = ["FinishedRun", "NewRun", "continue_run", "execute_run"]

_WARNINGS = 40
"""How many warnings of checks a journal has at most."""


@dataclass(frozen=True)
class FinishedRun:
    """A run that ended, and its folder; `error` is its outcome as an error for the caller."""

    state: RunState
    folder: Path
    error: UpgraderError | None = None
    """StepFailed, RollbackFailed or Interrupted; None for a success and for a requested rollback."""


@dataclass(frozen=True)
class NewRun:
    """What a run is to do, and what its journal records of it."""

    kind: RunKind
    pipeline: Pipeline
    on_failure: OnFailure | None = None
    """None: policy's."""
    plan: Plan | None = None
    """An upgrade's: it is recorded, so that the run can be resumed, and the run compares."""
    health_before: HealthBefore | None = None
    """Recorded for a later `resume`."""
    findings: Sequence[Finding] = ()
    """Those that the operator overruled are recorded: why the run was started."""
    skips: Skips = NO_SKIPS
    """Recorded for a later `resume`: those that only a step of the run could find."""
    goal: KubernetesVersion | None = None
    """The final version of an upgrade over several minors."""
    campaign: str = ""
    """The fleet's campaign that begins it; "": none."""
    compare: bool = False
    """Whether a step fails that disturbs the API's clients more than the settings allow, or after which something works
    worse than before.
    """
    usual_seconds: Mapping[str, float] = field(default_factory=dict)
    """Step → how long it took in earlier runs."""


def execute_run(session: Session, front_end: FrontEnd, new: NewRun, *, held: HeldLock | None) -> FinishedRun:
    """Execute a run to its end. `held` is the cluster's lock; None only for what must work without the API."""
    settings, clock, plan = session.settings, session.tools.clock, new.plan
    target = plan.target if plan else None
    name = f"{clock.now():%Y%m%dT%H%M%S}-{target if new.kind is RunKind.UPGRADE else new.kind}"
    runs = settings.folder / "runs"
    before = newest_run(runs)
    # One that was killed, and isn't resumed: what it switched off is switched on at the end of this one.
    left = before.state.webhooks_off if before else ()
    prune(runs, settings.keep_runs)
    folder = runs / name
    _make(folder)
    began = RunStarted(
        name,
        new.kind,
        tuple(item.step.name for item in new.pipeline.steps),
        f"runs/{name}",
        target=target,
        current=plan.current if plan else None,
        mixed=plan.mixed if plan else (),
        goal=new.goal,
        campaign=new.campaign,
        emulated=minor_text(plan.emulated) if plan and plan.emulated else "",
        on_failure=new.on_failure or settings.on_failure,
        inputs=step_inputs(plan) if plan else (),
        sequence=held.lock.sequence if held else 0,
        health_before=new.health_before,
        skipped=(
            *(SkippedCheck(item.id, item.title, item.skipped) for item in new.findings if item.skipped),
            *(SkippedCheck(each, "if a step of the run finds it", new.skips.reason) for each in new.skips.of_a_run),
        ),
        severities=tuple(
            ChangedSeverity(item.id, item.title, item.changed_from, item.severity)
            for item in new.findings
            if item.changed_from
        ),
        warnings=_warnings(new.findings),
    )
    watched = new.compare or plan is not None
    compares = _continuity(session, removed_by_plan(plan) if plan else (), new.health_before) if watched else None
    expected = _expected_seconds(new.pipeline, new.usual_seconds) if plan else None
    # kubeadm's static pods end kept connections as they do: an undo that stopped for that would end nowhere better.
    enforced = watched and new.kind is not RunKind.ADOPT_UNDO
    job = _Job(
        folder, new.pipeline, enforced, None, lambda runner, steps: runner.run(steps, began), compares, left, expected
    )
    journal = _journal(folder, clock)
    if plan:
        keep_diffs(folder / DIFFS, [step.document(None) for step in plan.every_step])
    result, state = _reported(session, front_end, job, journal, held)
    return FinishedRun(state, folder, _past_the_dead(session, state, _error(result, state, session.settings)))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise _not_created(folder, folder, error) from error


def _journal(folder: Path, clock: Clock) -> Journal:
    try:
        return Journal(folder / JOURNAL, clock)
    except OSError as error:
        raise _not_created(folder / JOURNAL, folder, error) from error


def _not_created(path: Path, folder: Path, error: OSError) -> UsageError:
    return UsageError(
        f"{path} can't be created: {error.strerror}; nothing was changed",
        remedy=f"The run needs it for its journal. Check: df {folder.parent}",
    )


def continue_run(
    run: ExistingRun, pipeline: Pipeline, *, why: RunResumed | RollbackRequested, plan: Plan | None
) -> FinishedRun:
    """Resume an upgrade, or roll it back, in the same journal.

    `plan` is that of what is left to do; None for what goes back.
    """
    session, path = run.session, run.folder / JOURNAL
    earlier = fold(read_journal(path))
    forward = isinstance(why, RunResumed)
    removed = removed_by_plan(plan) if plan else removed_by_undo(session.tools.helm, earlier)
    compares = _continuity(session, removed, earlier.health_before, sentinel_is_gone=run.others_since)
    job = _Job(
        run.folder,
        pipeline,
        forward,
        earlier,
        lambda runner, steps: runner.resume(steps, earlier, why),
        compares,
        earlier.webhooks_off,
    )
    journal = Journal.reopen(path, session.tools.clock)
    result, state = _reported(session, run.front_end, job, journal, run.held)
    error = None if state.rolled_back_as_requested else _error(result, state, session.settings)
    error = _past_the_dead(session, state, error)
    if error is not None and not run.newest:
        error.remedy = naming(error.remedy, run.folder.name)
    return FinishedRun(state, run.folder, error)


def naming(text: str, run: str) -> str:
    """The same, with the run in each command that would otherwise be of the newest upgrade."""
    return re.sub(r"(?<![\w/.-])upgrader (?:resume|rollback)(?! --run)(?![\w-])", rf"\g<0> --run {run}", text)


def _warnings(findings: Sequence[Finding]) -> tuple[Warned, ...]:
    """The findings that didn't block the run, for reports; a limit, as journals are copied to Secrets."""
    found = (item for item in findings if item.severity == "warning" and not item.skipped)
    return tuple(Warned(item.id, item.title, item.diagnosis[:1000], item.remedy) for item in found)[:_WARNINGS]


def _expected_seconds(pipeline: Pipeline, usual: Mapping[str, float]) -> float | None:
    """The time that these steps took in earlier runs; None where one that changes something has none."""
    unknown = [item.step.name for item in pipeline.steps if item.changes and item.step.name not in usual]
    return None if unknown else sum(usual.get(item.step.name, 0.0) for item in pipeline.steps)


@dataclass(frozen=True)
class _Job:
    """What the runner has to do; `earlier` is the run's state from other processes."""

    folder: Path
    pipeline: Pipeline
    enforce_availability: bool
    """Whether a step that disturbs the API's clients too much fails."""
    earlier: RunState | None
    work: Callable[[Runner, Pipeline], RunResult]
    continuity: Continuity | None
    """What each step is compared with; only upgrades are."""
    webhooks_off: tuple[WebhookRef, ...]
    """Guard's webhooks that earlier processes may have left off."""
    expected_seconds: float | None = None
    """How long it probably takes; None: unknown."""


def _continuity(
    session: Session, removed: Collection[str], health_before: HealthBefore | None, *, sentinel_is_gone: bool = False
) -> Continuity:
    clock = session.tools.clock
    return Continuity(
        SharedReads(session.tools.kube, clock, session.memory.reads, session.settings.shortest_interval_seconds),
        clock,
        controllers=tuple(host.name for host in session.cluster.controllers),
        removed=removed,
        policy=session.builder.since(health_before).gates.scaled,
        sentinel_is_gone=sentinel_is_gone,
        node_called=HostNames(session.tools.hosts, session.cluster.controllers),
    )


def _reported(
    session: Session, front_end: FrontEnd, job: _Job, journal: Journal, held: HeldLock | None
) -> tuple[RunResult, RunState]:
    """Do the job, and write a report however it ends."""
    try:
        result = _run(session, front_end, job, journal, held)
    except BaseException as error:
        state = None
        with suppress(UpgraderError, OSError):  # the error that ended the run matters more
            state = _close(job.folder, journal)
        kind = state.kind if state is not None else RunKind.UPGRADE
        if isinstance(error, OSError) and (ended := run_ended_by_the_system(error, job.folder, kind)) is not None:
            raise ended from error
        raise
    return result, _close(job.folder, journal)


def _close(folder: Path, journal: Journal) -> RunState:
    journal.close()
    state = fold(read_journal(folder / JOURNAL))
    write_reports(folder, state, journal=JOURNAL, templates=Templates.of_user(os.environ))
    return state


def _run(session: Session, front_end: FrontEnd, job: _Job, journal: Journal, held: HeldLock | None) -> RunResult:
    settings, tools, webhooks = session.settings, session.tools, session.webhooks
    stop, compares = held.stop if held else StopRequest(), job.continuity
    with (
        front_end.display() as display,
        stop_on_signals(stop, lambda text: display.emit(Note(text))),
        recording(job.folder / SERIES, display) as series,
        observing(session, job.pipeline, job.earlier, lambda text: display.emit(Note(text))) as observers,
    ):
        if job.earlier:
            display.catch_up(job.earlier)
        if job.expected_seconds is not None:
            display.expect(job.expected_seconds)
        probe = probe_of(session, display, series, must_answer=job.enforce_availability and job.earlier is None)
        groups = {item.step.name: item.groups for item in job.pipeline.steps}
        locks: list[Reporter] = [held.lock, GroupNotes(held.lock, groups)] if held else []
        others: list[Reporter] = [*([Phases(probe.enter)] if probe else []), *locks]
        mirror = session.mirror(job.folder / JOURNAL, job.folder.name, lambda text: display.emit(Note(text)))
        # `webhooks` is the last one: what it adds to an event comes behind it everywhere.
        reporter = _CompositeReporter(journal, display, mirror, *others, *observers, webhooks)
        if held and held.lock.taken_over:
            reporter.emit(held.lock.taken_over)
        runner = Runner(
            kube=tools.kube,
            clock=tools.clock,
            reporter=reporter,
            stop=stop,
            recovery=session.recovery(lambda: compares is not None and compares.pods_were_admitted),
            patience_seconds=settings.recovery.patience_seconds,
            continuity=compares,
            before_end=lambda outcome: webhooks.remind() if outcome == "interrupted" else webhooks.switch_on(),
            folder=job.folder,
            typed=display.approval,
            confirm_lock=held.confirm if held else lambda: None,
            asked=lambda: session.memory.reads.asked,
        )
        pipeline = job.pipeline
        if probe and job.enforce_availability:
            limits = partial(settings.limits, controllers=len(session.cluster.controllers))
            pipeline = with_availability_gates(pipeline, probe.counts, limits)
        if compares:
            pipeline = compares.around(pipeline)
        pipeline = baked_together(pipeline, settings.bake_seconds, tools.clock)
        with probing(probe, reporter), webhooks.during(reporter.emit, job.webhooks_off):
            result = job.work(runner, pipeline)
        for warning in cordoned(tools.kube):
            reporter.emit(Note(warning))
        return result


def _error(result: RunResult, state: RunState, settings: Settings) -> UpgraderError | None:
    """Only an upgrade is resumed; every other kind is idempotent, and is run again."""
    upgrade = state.kind is RunKind.UPGRADE
    match result.outcome:
        case "succeeded":
            return None
        case "rolled-back":
            where = f" at {state.left_at}" if state.left_at else ""
            left = state.left_failing
            what = f"and was rolled back; the cluster is healthy{where}"
            if left is not None:
                what = f"and was rolled back; the control plane is healthy{where}, but {first_words(left.undo_reason)}"
            if state.untouched:
                what = f"before it changed anything; the cluster is unchanged{where}"
            remedies = [result.remedy, *_left_to_repair(state, result.remedy), *_once_fixed(state, settings)]
            remedy = "\n".join(filter(None, remedies))
            return StepFailed(f"The run failed {what}.\n{result.reason}", remedy=remedy)
        case "failed":
            remedy = result.remedy or "Check the cluster before anything else."
            said = not upgrade or "upgrader resume" in remedy
            again = "" if said else "\nThen run `upgrader resume` to retry what failed."
            return RollbackFailed(result.reason, remedy=f"{remedy}{again}")
        case "interrupted":
            return Interrupted(result.reason, remedy=result.remedy if upgrade else "Run the same command again.")


def _past_the_dead(session: Session, state: RunState, error: UpgraderError | None) -> UpgraderError | None:
    """With the way on where a controller that won't be back keeps an upgrade from each of its ends."""
    if state.kind is RunKind.UPGRADE and isinstance(error, RollbackFailed):
        tools = session.tools
        with suppress(ApiError):
            for name in down_controllers(tools.kube, tools.hosts, session.cluster):
                error.remedy += (
                    f"\nController {name} is down. If its machine is permanently gone, `upgrader resume` can't "
                    f"complete the run: upgrader controllers remove {name} --dead\nThen start a new one: upgrader run"
                )
    return error


def _left_to_repair(state: RunState, told: str) -> Iterator[str]:
    """What the rollback couldn't repair, where the remedy of what failed doesn't say it already."""
    left = state.left_failing
    if left is not None and left.undo_remedy not in told:
        yield left.undo_remedy


def _once_fixed(state: RunState, settings: Settings) -> Iterator[str]:
    """Where the cause may be, and the command that comes after it."""
    failed = state.failure
    values = {item.name: item.values_file for item in settings.pipeline if isinstance(item, ReleaseSettings)}
    file = values.get(failed.name) if failed is not None else None
    if file is not None and file.is_file():
        yield f"Its values are in {shown(file)}."
    if state.kind is RunKind.UPGRADE:
        yield f"Then: upgrader run --to {state.goal or state.target}"


class _CompositeReporter:
    """Sends events to several reporters; the journal comes first, so that what is shown is on disk."""

    def __init__(self, *reporters: Reporter) -> None:
        self._reporters = reporters

    def emit(self, event: Event) -> None:
        for reporter in self._reporters:
            reporter.emit(event)
