"""`upgrader run`: carry the plan out."""

from __future__ import annotations

import getpass
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from upgrader.assemble import assemble
from upgrader.availability.probe import AvailabilityProbe
from upgrader.cli.wiring import Session, open_session
from upgrader.engine.journal import Journal, read_journal
from upgrader.engine.lock import folder_lock
from upgrader.engine.report import Report, fold
from upgrader.engine.runner import Runner, RunResult
from upgrader.engine.stop import StopRequest, stop_on_signals
from upgrader.errors import Inhibited, Interrupted, RollbackFailed, StepFailed
from upgrader.model.event import AvailabilityMeasured, Event, Note
from upgrader.model.plan import Plan
from upgrader.ports import Reporter
from upgrader.preflight.checks import inhibits
from upgrader.ui.plan import print_plan
from upgrader.ui.reporters import choose_reporter
from upgrader.ui.summary import print_report

__all__ = ["run"]


@click.command()
@click.option(
    "--to", metavar="VERSION", help="Kubernetes version to go to (default: kubernetesVersion in upgrader.yaml)."
)
@click.option("--yes", "-y", is_flag=True, help="Don't ask before starting.")
@click.pass_obj
def run(folder: Path, to: str | None, yes: bool) -> None:
    """Upgrade the cluster: plan, check, then step by step, each followed by its health gates.

    A step that fails is rolled back, and the earlier steps of this run after it, unless policy says otherwise.

    \b
    Exit codes: 0 done, 2 wrong usage or files, 3 inhibited by a check, 4 failed and rolled back with the cluster
    healthy, 5 needs a person, 6 another run is at work, 130 interrupted.
    """
    with open_session(folder, to) as session, folder_lock(folder, _holder()):
        observed = session.observe()
        findings = session.preflight(observed)
        planned = session.plan(observed)
        print_plan(planned, findings, diff=False)
        if inhibits(findings):
            raise Inhibited(
                "the run was refused by a check; nothing was changed", remedy="Mend what is marked as error or unknown."
            )
        if not yes:
            click.confirm("Start?", abort=True, err=True)
        result, report, path = _carry_out(session, planned)
    print_report(report, path)
    _exit(result)


def _carry_out(session: Session, planned: Plan) -> tuple[RunResult, Report, Path]:
    """Run the pipeline with journal, display and availability probe; the report is written on every way out."""
    settings, tools, stop = session.settings, session.tools, StopRequest()
    name = tools.clock.now().strftime("%Y%m%dT%H%M%S") + f"-{planned.target}"
    runs = settings.folder / "runs" / name
    runs.mkdir(mode=0o700, parents=True)
    journal = Journal(runs / "journal.jsonl", tools.clock)
    with choose_reporter(sys.stderr) as display:
        reporter = _Everyone(journal, display)
        runner = Runner(
            kube=tools.kube, clock=tools.clock, reporter=reporter, stop=stop, on_failure=settings.on_failure
        )
        pipeline = assemble(planned, settings, session.cluster, tools)
        try:
            with (
                stop_on_signals(stop, lambda text: display.emit(Note(text))),
                _probing(session, reporter),
            ):
                result = runner.run(pipeline, run=name, target=str(planned.target), folder=str(runs))
        finally:
            journal.close()
            report = fold(read_journal(runs / "journal.jsonl"))
            _write_report(runs / "report.json", report)
    return result, report, runs


@contextmanager
def _probing(session: Session, reporter: Reporter) -> Iterator[None]:
    """Ask the API all the while, as its clients do, and put what they saw into the journal at the end."""
    rate = session.settings.availability.requests_per_second
    if rate <= 0:
        yield
        return
    with AvailabilityProbe(session.settings.kubeconfig, requests_per_second=rate) as probe:
        try:
            yield
        finally:
            seen = probe.stop()
            reporter.emit(
                AvailabilityMeasured(
                    seen.requests,
                    seen.failed,
                    seen.raw_failed,
                    seen.longest_gap_ms,
                    tuple(map(str, seen.failures[:20])),
                )
            )


class _Everyone:
    """A reporter that tells several; the journal first, for what is shown must be on disk."""

    def __init__(self, *reporters: Reporter) -> None:
        self._reporters = reporters

    def emit(self, event: Event) -> None:
        for reporter in self._reporters:
            reporter.emit(event)


def _write_report(path: Path, report: Report) -> None:
    path.touch(mode=0o600)
    path.write_text(json.dumps(report.as_json(), indent=2) + "\n")


def _holder() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _exit(result: RunResult) -> None:
    """Turn a run's end into its exit code."""
    match result.outcome:
        case "rolled-back":
            raise StepFailed(
                f"the run failed and was rolled back; the cluster is healthy.\n{result.reason}", remedy=result.remedy
            )
        case "failed":
            raise RollbackFailed(result.reason, remedy=result.remedy or "Look at the cluster before anything else.")
        case "interrupted":
            raise Interrupted(result.reason, remedy=result.remedy)
