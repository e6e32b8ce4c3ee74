"""Carries a pipeline out for a command: run folder, journal, display, availability probe, report and exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from upgrader.availability.guard import guarded
from upgrader.availability.phases import Phases
from upgrader.cli.locking import HeldLock
from upgrader.cli.probing import probe_of, probing
from upgrader.cli.wiring import Session
from upgrader.engine.execution.cordoned_nodes import cordoned
from upgrader.engine.execution.runner import Runner, RunResult
from upgrader.engine.execution.step_inputs import step_inputs
from upgrader.engine.execution.stop_request import StopRequest, stop_on_signals
from upgrader.engine.history.past_runs import prune
from upgrader.engine.journal.atomic import write_atomic
from upgrader.engine.journal.decode import UnknownEvent
from upgrader.engine.journal.journal_file import JOURNAL, Journal, read_journal
from upgrader.engine.state.report import Report, fold
from upgrader.engine.state.run_state import state_of
from upgrader.errors import Interrupted, JournalError, RollbackFailed, StepFailed, UpgraderError
from upgrader.model.event import Event, Note, RollbackRequested, RunResumed, RunStarted
from upgrader.model.plan import Plan
from upgrader.model.settings import OnFailure
from upgrader.pipeline import Pipeline
from upgrader.ports import Reporter
from upgrader.ui.reporters import choose_reporter
from upgrader.ui.summary import print_report

__all__ = ["carry_on", "carry_out"]


def carry_out(
    session: Session,
    pipeline: Pipeline,
    *,
    label: str,
    on_failure: OnFailure | None = None,
    plan: Plan | None = None,
    held: HeldLock | None = None,
) -> None:
    """Run a pipeline and print its report. Raises what its outcome means (StepFailed, RollbackFailed, Interrupted).

    `label` ends the run's name: the target version, or what else the run is for. `on_failure` None means policy's.
    `plan` is what an upgrade was made from: it is recorded, for whoever has to go on with the run, and a step that
    disturbs the API's clients more than the settings allow has failed. `held` is the cluster's lock; only what has to
    work without the API goes without.
    """
    settings, clock = session.settings, session.tools.clock
    name = f"{clock.now():%Y%m%dT%H%M%S}-{label}"
    runs = settings.folder / "runs"
    prune(runs, settings.keep_runs)
    folder = runs / name
    folder.mkdir(mode=0o700, parents=True)
    began = RunStarted(
        name,
        label,
        tuple(item.step.name for item in pipeline.steps),
        f"runs/{name}",
        came_from=str(plan.current) if plan else "",
        on_failure=on_failure or settings.on_failure,
        inputs=step_inputs(plan) if plan else (),
    )
    job = _Job(folder, pipeline, plan is not None, (), lambda runner, steps: runner.run(steps, began))
    journal = Journal(folder / JOURNAL, clock)
    _raise(_reported(session, job, journal, held), upgrade=plan is not None)


def carry_on(
    session: Session, pipeline: Pipeline, *, folder: Path, why: RunResumed | RollbackRequested, held: HeldLock
) -> None:
    """Go on with the run whose journal is in `folder`, in the same journal, and print its report.

    Raises what its outcome means, as `carry_out` does; but a rollback that somebody asked for has not failed.
    """
    path = folder / JOURNAL
    records = read_journal(path)
    state = state_of(records)
    earlier = tuple(record.event for record in records)
    forward = isinstance(why, RunResumed)
    job = _Job(folder, pipeline, forward, earlier, lambda runner, steps: runner.go_on(steps, state, why))
    journal = Journal.reopen(path, session.tools.clock)
    result = _reported(session, job, journal, held)
    if forward or result.outcome != "rolled-back":
        _raise(result, upgrade=True)


@dataclass(frozen=True)
class _Job:
    """What the runner has to do; `earlier` is what the run did in other processes."""

    folder: Path
    pipeline: Pipeline
    undisturbed: bool
    """Whether a step that disturbs the API's clients too much has failed."""
    earlier: tuple[Event | UnknownEvent, ...]
    work: Callable[[Runner, Pipeline], RunResult]


def _reported(session: Session, job: _Job, journal: Journal, held: HeldLock | None) -> RunResult:
    """Do the job, and report it: in a file, however it ends, and in print."""
    try:
        result = _run(session, job, journal, held)
    except BaseException:
        with suppress(UpgraderError):  # what ended the run is what must be told
            _close(job.folder, journal)
        raise
    print_report(_close(job.folder, journal), job.folder)
    return result


def _close(folder: Path, journal: Journal) -> Report:
    journal.close()
    report = fold(read_journal(folder / JOURNAL))
    _write_report(folder / "report.json", report)
    return report


def _run(session: Session, job: _Job, journal: Journal, held: HeldLock | None) -> RunResult:
    settings, tools = session.settings, session.tools
    stop = held.stop if held else StopRequest()
    with choose_reporter(sys.stderr) as display, stop_on_signals(stop, lambda text: display.emit(Note(text))):
        display.catch_up(job.earlier)
        probe = probe_of(session, display)
        others: list[Reporter] = [*([Phases(probe.enter)] if probe else []), *([held.lock] if held else [])]
        mirror = session.mirror(job.folder / JOURNAL, job.folder.name, lambda text: display.emit(Note(text)))
        reporter = _Everyone(journal, display, mirror, *others)
        if held and held.lock.taken_over:
            reporter.emit(held.lock.taken_over)
        runner = Runner(
            kube=tools.kube,
            clock=tools.clock,
            reporter=reporter,
            stop=stop,
            recovery=session.recovery(),
            patience_seconds=settings.recovery.patience_seconds,
        )
        pipeline = job.pipeline
        if probe and job.undisturbed:
            pipeline = guarded(pipeline, probe.counts, settings.limits)
        with probing(probe, reporter):
            result = job.work(runner, pipeline)
        for words in cordoned(tools.kube):
            reporter.emit(Note(words))
        return result


def _raise(result: RunResult, *, upgrade: bool) -> None:
    """Only an upgrade is resumed; everything else is idempotent as a whole, and is simply run again."""
    match result.outcome:
        case "rolled-back":
            raise StepFailed(
                f"The run failed and was rolled back; the cluster is healthy.\n{result.reason}", remedy=result.remedy
            )
        case "failed":
            remedy = result.remedy or "Look at the cluster before anything else."
            again = "\nThen `upgrader resume` tries again what failed." if upgrade else ""
            raise RollbackFailed(result.reason, remedy=f"{remedy}{again}")
        case "interrupted":
            remedy = result.remedy if upgrade else "Run the same command again to go on."
            raise Interrupted(result.reason, remedy=remedy)


class _Everyone:
    """A reporter that tells several; the journal first, for what is shown must be on disk."""

    def __init__(self, *reporters: Reporter) -> None:
        self._reporters = reporters

    def emit(self, event: Event) -> None:
        for reporter in self._reporters:
            reporter.emit(event)


def _write_report(path: Path, report: Report) -> None:
    try:
        write_atomic(path, (json.dumps(report.as_json(), indent=2) + "\n").encode())
    except OSError as error:
        raise JournalError(
            f"{path} can't be written: {error.strerror}; the run's outcome: {report.outcome}",
            remedy=f"All that it would say is in {JOURNAL} beside it.",
        ) from error
