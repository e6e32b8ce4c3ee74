"""Carries a pipeline out for a command: run folder, journal, display, availability probe, report and exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from upgrader.availability.guard import guarded
from upgrader.availability.phases import Phases
from upgrader.availability.probe import AvailabilityProbe
from upgrader.cli.locking import HeldLock
from upgrader.cli.wiring import Session
from upgrader.engine.history import prune
from upgrader.engine.journal import JOURNAL, Journal, read_journal
from upgrader.engine.report import Report, fold
from upgrader.engine.runner import Runner, RunResult
from upgrader.engine.stop import StopRequest, stop_on_signals
from upgrader.errors import Interrupted, JournalError, RollbackFailed, StepFailed
from upgrader.model.availability import Availability
from upgrader.model.event import AvailabilityMeasured, Event, Note
from upgrader.model.settings import OnFailure
from upgrader.pipeline import Pipeline
from upgrader.ports import Reporter
from upgrader.ui.reporters import choose_reporter
from upgrader.ui.summary import print_report

__all__ = ["carry_out"]


def carry_out(
    session: Session,
    pipeline: Pipeline,
    *,
    label: str,
    on_failure: OnFailure | None = None,
    undisturbed: bool = False,
    held: HeldLock | None = None,
) -> None:
    """Run a pipeline and print its report. Raises what its outcome means (StepFailed, RollbackFailed, Interrupted).

    `label` ends the run's name: the target version, or what else the run is for. `on_failure` None means policy's.
    `undisturbed`: a step that disturbs the API's clients more than the settings allow has failed.
    `held` is the cluster's lock; only what has to work without the API goes without.
    """
    policy = on_failure or session.settings.on_failure
    result, report, folder = _run(session, pipeline, label, policy, undisturbed, held)
    print_report(report, folder)
    match result.outcome:
        case "rolled-back":
            raise StepFailed(
                f"The run failed and was rolled back; the cluster is healthy.\n{result.reason}", remedy=result.remedy
            )
        case "failed":
            raise RollbackFailed(result.reason, remedy=result.remedy or "Look at the cluster before anything else.")
        case "interrupted":
            raise Interrupted(result.reason, remedy=result.remedy)


def _run(
    session: Session, pipeline: Pipeline, label: str, on_failure: OnFailure, undisturbed: bool, held: HeldLock | None
) -> tuple[RunResult, Report, Path]:
    settings, tools = session.settings, session.tools
    stop = held.stop if held else StopRequest()
    name = f"{tools.clock.now():%Y%m%dT%H%M%S}-{label}"
    runs = settings.folder / "runs"
    prune(runs, settings.keep_runs)
    folder = runs / name
    folder.mkdir(mode=0o700, parents=True)
    path = folder / JOURNAL
    journal = Journal(path, tools.clock)
    try:
        with choose_reporter(sys.stderr) as display, stop_on_signals(stop, lambda text: display.emit(Note(text))):
            probe = _probe(session, display)
            others: list[Reporter] = [*([Phases(probe.enter)] if probe else []), *([held.lock] if held else [])]
            reporter = _Everyone(journal, display, *others)
            if held and held.lock.taken_over:
                reporter.emit(held.lock.taken_over)
            runner = Runner(
                kube=tools.kube,
                clock=tools.clock,
                reporter=reporter,
                stop=stop,
                on_failure=on_failure,
                recovery=session.recovery(),
                patience_seconds=settings.recovery.patience_seconds,
            )
            if probe and undisturbed:
                pipeline = guarded(pipeline, probe.counts, settings.limits)
            with _probing(probe, reporter):
                result = runner.run(pipeline, run=name, target=label, folder=str(folder))
    finally:
        journal.close()
        report = fold(read_journal(path))
        _write_report(folder / "report.json", report)
    return result, report, folder


def _probe(session: Session, display: Reporter) -> AvailabilityProbe | None:
    """What asks the API all the while, as its clients do, and shows what they see; None when it is turned off."""
    settings = session.settings
    rate = settings.availability.requests_per_second
    if rate <= 0:
        return None
    return AvailabilityProbe(
        settings.kubeconfig,
        context=session.cluster.context,
        requests_per_second=rate,
        addresses=settings.availability.addresses,
        on_change=lambda seen: display.emit(_measured(seen)),
    )


@contextmanager
def _probing(probe: AvailabilityProbe | None, reporter: Reporter) -> Iterator[None]:
    """Probe all the while, and journal what was seen at the end."""
    if probe is None:
        yield
        return
    with probe:
        try:
            yield
        finally:
            reporter.emit(_measured(probe.stop()))


def _measured(seen: Availability) -> AvailabilityMeasured:
    return AvailabilityMeasured(
        seen.requests,
        seen.failed,
        seen.raw_failed,
        seen.longest_gap_ms,
        failures=tuple(map(str, seen.failures[:20])),
        raw_failures=tuple(map(str, seen.raw_failures[:20])),
        latency=seen.latency,
        watches=seen.watches,
        phases=tuple(phase for phase in seen.phases if phase.requests),
    )


class _Everyone:
    """A reporter that tells several; the journal first, for what is shown must be on disk."""

    def __init__(self, *reporters: Reporter) -> None:
        self._reporters = reporters

    def emit(self, event: Event) -> None:
        for reporter in self._reporters:
            reporter.emit(event)


def _write_report(path: Path, report: Report) -> None:
    try:
        path.touch(mode=0o600)
        path.write_text(json.dumps(report.as_json(), indent=2) + "\n")
    except OSError as error:
        raise JournalError(
            f"{path} can't be written: {error.strerror}; the run's outcome: {report.outcome}",
            remedy=f"All that it would say is in {JOURNAL} beside it.",
        ) from error
