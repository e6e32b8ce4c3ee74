"""Runs a pipeline: apply, check the gates, next step; on a failure, undo in reverse order.

Every event is emitted before the next action; the journal is one of the listeners, so the disk always shows how far
the run got. The restore point of a step is captured, and on disk, before the step changes anything. The next action
depends only on the emitted events (`next_action.py`), so an interrupted run resumes in another process as it would
have continued in its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from upgrader.engine.execution.api_lifeline import ApiLifeline
from upgrader.engine.execution.approval import await_approval
from upgrader.engine.execution.gatekeeper import hold_all
from upgrader.engine.execution.next_action import Action, Begin, CheckGates, Complete, End, Undo, next_action
from upgrader.engine.execution.rollback_progress import RollbackProgress
from upgrader.engine.execution.stop_request import StopRequest
from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.run_state import RunState
from upgrader.errors import (
    ApiError,
    ApiLost,
    ApiUnavailable,
    ChangedMeanwhile,
    HelmError,
    HelmUnfinished,
    Interrupted,
    RollbackStalled,
    StepFailed,
    UpgraderError,
)
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.continuity.continuity import Continuity
from upgrader.gates.rollback_needs import is_refusal
from upgrader.model.event import (
    BaselineTaken,
    Event,
    Note,
    RollbackRequested,
    RunEnded,
    RunResumed,
    RunStarted,
    StepApplied,
    StepApproved,
    StepEnded,
    StepInspected,
    StepStarted,
    UndoEnded,
    UndoStarted,
)
from upgrader.model.outcome import RunOutcome
from upgrader.model.release import RECOVERED_RELEASE, RestorePoint
from upgrader.pipeline import Beside, GateRun, Pipeline, PipelineStep, Step
from upgrader.ports import Clock, Kube, Recovery, Reporter
from upgrader.system_errors import refusals_fail_the_step
from upgrader.wait_and_retry import wait_for_hosts

__all__ = ["REPLACEMENTS", "RunResult", "Runner"]

T = TypeVar("T")

UNDO_ATTEMPTS = 4
"""How often an undo is attempted when it loses the API, or when the API refuses it."""
UNDO_PAUSE_SECONDS = 15.0
"""Pause before the next attempt while the API answers: what stops Helm may pass as well. The first time that an API
refuses an undo there is none: the controllers are examined at once."""

REPLACEMENTS = 2
"""How often a rollback replaces pods that are too slow for it: after that, something else is to blame."""

_CLOCKS_AGREE_SECONDS = 5.0
"""The API server tells its time to the second, and an answer takes some: less than this is no difference."""
_CLOCKS_DIFFER_SECONDS = 10 * 366 * 86400.0
"""A journal that says more is damaged, or forged."""

_STOPS_LATER = (
    "the run will stop after this step, because a change is not interrupted halfway: an active Helm process "
    "continues. A second signal stops the run immediately; an active Helm process then completes the change, or rolls "
    "it back"
)


@dataclass(frozen=True)
class RunResult:
    """How a run ended, and why (`reason` is empty when it succeeded)."""

    outcome: RunOutcome
    reason: str = ""
    remedy: str = ""


class Runner:
    """Executes one pipeline, once."""

    def __init__(
        self,
        *,
        kube: Kube,
        clock: Clock,
        reporter: Reporter,
        stop: StopRequest,
        recovery: Recovery,
        patience_seconds: float,
        continuity: Continuity | None = None,
        before_end: Callable[[RunOutcome], None] = lambda _: None,
        folder: Path | None = None,
        typed: Callable[[], StepApproved | None] | None = None,
        confirm_lock: Callable[[], None] = lambda: None,
        asked: Callable[[], int] = lambda: 0,
    ) -> None:
        """`patience_seconds`: how long the API may be unreachable before `recovery` restores it; infinity: never.

        `continuity` is that of the pipeline's gates; None where nothing is compared. `before_end` is called when
        nothing is left to do, or the run is interrupted, before that is recorded; it raises no UpgraderError. `folder`
        is the run's, in which a file may approve a step; `typed` is the answer on its terminal: see `await_approval`.
        `confirm_lock` asks the API whether the cluster's lock is still this process's, and has `stop` end the run if it
        isn't. `asked` counts the requests of all gates.
        """
        self._kube = kube
        self._clock = clock
        self._reporter = reporter
        self._stop = stop
        self._patience_seconds = patience_seconds
        self._continuity = continuity
        self._before_end = before_end
        self._folder = folder
        self._typed = typed
        self._confirm_lock = confirm_lock
        self._asked = asked
        self._lifeline = ApiLifeline(
            kube=kube,
            clock=clock,
            reporter=reporter,
            recovery=recovery,
            patience_seconds=patience_seconds,
            admitted=lambda: continuity is not None and continuity.pods_were_admitted,
        )
        self._state = RunState()
        self._beside: tuple[Beside, ...] = ()
        self._told_to_stop = False
        self._overdue = False
        """Whether the last failed step has already waited too long for the API."""
        self._ahead: Mapping[str, float] = {}
        """Step → by how many seconds the clock of its process was ahead of the API server's; only of earlier ones."""
        self._later: dict[str, timedelta] = {}
        """Step → by how much later it began by this machine's clock than the journal says, if by more than is usual."""

    def run(self, pipeline: Pipeline, began: RunStarted) -> RunResult:
        """Run to the end and return the result.

        Raises only for a bug, a second Ctrl-C, and a disk that takes no record of what would be done next.
        """
        return self._work(pipeline, began)

    def resume(self, pipeline: Pipeline, state: RunState, why: RunResumed | RollbackRequested) -> RunResult:
        """The same for a run that another process began. The pipeline must have every step that is left to do.

        Raises ChangedMeanwhile, and leaves the run as it was, where its changes were changed outside of it.
        """
        self._state = state
        self._ahead = {step.name: step.clock_ahead for step in state.steps if step.clock_ahead is not None}
        for name in self._ahead:
            self._later_here(name)  # now: the API server may be slower, or silent, where it is needed
        return self._work(pipeline, why)

    def _work(self, pipeline: Pipeline, first: Event) -> RunResult:
        self._beside = tuple(item.beside for item in pipeline.steps if item.beside is not None)
        for each in self._beside:
            each.end_if(lambda: self._stop.requested)
        try:
            return self._act(pipeline, first)
        finally:
            for each in self._beside:
                each.end(wait=True)

    def _act(self, pipeline: Pipeline, first: Event) -> RunResult:
        started = self._clock.monotonic()
        items = {item.step.name: item for item in pipeline.steps}
        self._emit(first)
        self._take_baseline()
        while True:
            action = next_action(self._state)
            if isinstance(action, End):
                result = RunResult(action.outcome, action.reason, action.remedy)
                break
            try:
                if isinstance(action, Begin | Undo) and not self._overdue:
                    # A machine that slept learns of a lost lock only some seconds after it has woken up.
                    self._confirm_lock()
                self._stop.check(safe=_safe_to_stop(action))
                self._execute(action, items[action.step])
            except Interrupted as error:
                result = RunResult("interrupted", error.message, error.remedy)
                break
        self._before_end(result.outcome)
        self._emit(RunEnded(self._state.run, result.outcome, self._clock.monotonic() - started, result.reason))
        self._end_comparison()  # only now: a run without an end is resumed, and needs its sentinel
        return result

    def _take_baseline(self) -> None:
        """Before the first step, or from the journal: what works now has to work after each step."""
        if self._continuity is None or isinstance(next_action(self._state), End):
            return
        if self._state.baseline is None:
            begun = bool(self._state.steps)
            self._emit(BaselineTaken(self._continuity.take(self._note, begun=begun)))
        elif (renewed := self._continuity.again(self._state.baseline)) is not None:
            self._emit(BaselineTaken(renewed))
        assert self._state.baseline is not None and self._state.baseline_taken is not None
        self._continuity.compare_with(self._state.baseline, self._state.baseline_taken)

    def _end_comparison(self) -> None:
        if self._continuity is not None:
            try:
                self._continuity.end(keep_sentinel=not self._state.over)
            except ApiError as error:
                self._note(
                    f"objects of the continuity gates could not be deleted; the next run deletes them: {error.message}"
                )

    def _execute(self, action: Begin | Complete | CheckGates | Undo, item: PipelineStep) -> None:
        match action:
            case Begin():
                self._approve(item)
                self._forward(item, lambda began: self._begin(item, began))
            case Complete():
                self._forward(item, lambda began: self._complete(item, began))
            case CheckGates():
                found = "its change is in place; checking its gates again"
                self._forward(item, lambda _: self._emit(StepInspected(item.step.name, True, found)))
            case Undo():
                for each in self._beside:
                    each.end(wait=False)  # the way back doesn't wait for what only the way forward needs
                self._undo(item, interrupted=action.interrupted)

    def _approve(self, item: PipelineStep) -> None:
        """Wait for a person, where the step needs one and has none: an approval counts for a resumed run, too."""
        name = item.step.name
        if item.approval_seconds is not None and not self._state.is_approved(name):
            approval = await_approval(
                self._state.run,
                name,
                item.approval_seconds,
                kube=self._kube,
                clock=self._clock,
                emit=self._emit,
                stop=self._stop,
                folder=self._folder,
                typed=self._typed,
            )
            self._emit(approval)

    def _forward(self, item: PipelineStep, change: Callable[[float], None]) -> None:
        """Make the change, and check the step's gates."""
        name, began = item.step.name, self._clock.monotonic()
        try:
            with refusals_fail_the_step(self._folder):
                change(began)
                self._hold(name, item.gates)
            if (others := self._replaced(item)) is not None:
                raise others
        except (ChangedMeanwhile, Interrupted):
            raise  # an undo would revert a change that isn't this run's, or that another process works on
        except UpgraderError as error:
            self._overdue = isinstance(error, ApiLost)
            if not _is_silence(error):
                self._end_if_lost()
                self._lifeline.check_credentials(self._brought_since(item))
            spent = self._clock.monotonic() - began
            others = None if self._overdue else self._replaced(item)
            if others is not None and others.message != error.message:  # that is the cause
                error = StepFailed(f"{others.message}\n{error.message}", remedy=others.remedy)
            self._emit(StepEnded(name, "failed", spent, error.message, error.remedy))
        else:
            self._emit(StepEnded(name, "passed", self._clock.monotonic() - began))

    def _replaced(self, item: PipelineStep) -> StepFailed | None:
        """That others have replaced what the step wrote, however healthy that is; None also where it can't be told."""
        step = self._state.step(item.step.name)
        if item.confirm is None or step is None or not step.revision:
            return None
        try:
            item.confirm(step.revision)
        except StepFailed as others:
            return others
        except UpgraderError:
            return None
        return None

    def _begin(self, item: PipelineStep, began: float) -> None:
        for each in self._beside:
            if each.needed_by == item.step.name:
                self._complete_beside(each)
        if item.may_begin is not None:
            item.may_begin()
        point = self._read(item, item.step.capture, lambda: self._stop.check(safe=True))
        ahead = self._clock_ahead() if point is not None and point.release == RECOVERED_RELEASE else None
        self._emit(StepStarted(item.step.name, item.step.summary(), point, item.prepares, ahead))
        self._apply(item, began)

    def _complete_beside(self, work: Beside) -> None:
        """That may take minutes, and nothing of the step is begun: so nothing of it fails once the lock is lost."""
        try:
            work.complete(self._note, self._end_if_asked)
        except StepFailed:
            self._confirm_lock()
            self._end_if_asked()
            raise
        self._confirm_lock()
        self._end_if_asked()

    def _complete(self, item: PipelineStep, began: float) -> None:
        """Inspect first: the change may be in place already, or still in progress."""
        self._lifeline.secure(overdue=False)
        point = self._restore_point(item)
        item.inspector.await_idle(point, self._note)
        inspection = self._read(item, lambda: item.inspector.inspect(point), self._end_if_lost)
        self._emit(StepInspected(item.step.name, inspection.applied, inspection.found, inspection.revision))
        if not inspection.applied:
            self._apply(item, began)

    def _read(self, item: PipelineStep, read: Callable[[], T], may_wait: Callable[[], None]) -> T:
        """What a step reads of its machines. One where nothing answers may be rebooting: that is no reason to undo what
        was done before. `may_wait` raises Interrupted when that wait has to end.
        """

        def attempt() -> T:
            may_wait()
            return read()

        why = f"because step {item.step.name} starts from the state that it finds there"
        return wait_for_hosts(self._clock, attempt, self._note, why)

    def _apply(self, item: PipelineStep, began: float) -> None:
        step = item.watched(self._end_if_lost) if item.watched else item.step
        revision = step.apply(self._note)
        self._emit(StepApplied(item.step.name, self._clock.monotonic() - began, revision or 0))

    def _end_if_asked(self) -> None:
        """Raise Interrupted where the run was asked to stop, or another process has the lock: a step is not begun."""
        self._stop.check(safe=True)

    def _end_if_lost(self) -> None:
        """Raise Interrupted where another process has the cluster's lock: it may be working on the same step.

        Why a step goes on that was asked to stop is told once: a signal handler can't write to the journal.
        """
        self._stop.check(safe=False)
        if self._stop.requested and not self._told_to_stop:
            self._told_to_stop = True
            self._note(_STOPS_LATER)

    def _undo(self, item: PipelineStep, *, interrupted: bool) -> None:
        name, began, point = item.step.name, self._clock.monotonic(), self._restore_point(item)
        assert point is not None
        step = self._state.step(name)
        again = step is not None and bool(step.goal)
        self._emit(UndoStarted(name, str(point)))
        failure = self._roll_back(item, point, interrupted=interrupted, again=again)
        spent = self._clock.monotonic() - began
        if failure is None:
            left = self._continuity.left_failing() if self._continuity is not None else None
            self._emit(UndoEnded(name, True, spent, left.reason if left else "", left.remedy if left else ""))
        else:
            if not _is_silence(failure):
                self._lifeline.check_credentials()
            self._emit(UndoEnded(name, False, spent, failure.message, failure.remedy))

    def _roll_back(
        self, item: PipelineStep, point: RestorePoint, *, interrupted: bool, again: bool
    ) -> UpgraderError | None:
        """Undo one step and check its gates; try again if the API is lost meanwhile, as an undo can be repeated.

        Rolling back a workload that can't run two instances at once interrupts the API again. Helm may need longer than
        its timeout at the very API server that it takes back: once it has begun, the next one is faster. If nothing
        acts on it, the pods that the step brought are first replaced on the controllers. `again`: its rollback was
        begun before.
        """
        failure: UpgraderError | None = None
        refused, in_vain, unfinished, just_replaced = "", False, False, False
        progress = self._progress(point)
        if progress is not None and (slow := progress.too_slow(overdue=self._overdue)):
            just_replaced = self._replace_newer(item, progress, slow)
            progress = progress if just_replaced else None
        for attempt in range(UNDO_ATTEMPTS):
            try:
                # What doesn't hold is recovered below.
                if attempt and not just_replaced and self._lifeline.holds:
                    if attempt > 1 or not refused:
                        self._note(f"waiting {UNDO_PAUSE_SECONDS:.0f} s before the next attempt to roll it back")
                        self._clock.sleep(UNDO_PAUSE_SECONDS)
                    if refused and not in_vain:
                        # A wrong instance shares its address with a right one, whose answers hide it from here.
                        in_vain = not self._lifeline.replace_wrong(refused, self._brought_since(item))
                just_replaced = False
                if attempt or item.undo_needs_api:
                    since = self._brought_since(item)
                    self._lifeline.secure(overdue=self._overdue, release=_installed(point), since=since)
            except Interrupted:
                raise
            except UpgraderError as error:
                return error
            self._stop.check(safe=False)
            try:
                with refusals_fail_the_step(self._folder):
                    if interrupted or (not attempt and self._written(item)):
                        # What this step began is done: if a Helm works on the release now, it is another's. After a
                        # first attempt it may be that one's own, which has ended with it.
                        item.inspector.await_idle(point, self._note)
                    if not again and not attempt:
                        self._note_replaced(item, point)
                    self._undo_watched(item, progress).undo(point, self._note)
                    if self._continuity is not None:
                        self._continuity.restore_services(self._note, restarted=point.release == RECOVERED_RELEASE)
                    # As often as ever: what is wrong only waits here, as what was undone may answer until it has
                    # ended.
                    self._hold(item.step.name, item.undo_gates, asked=lambda: 0)
                return None
            except Interrupted:
                raise
            except UpgraderError as error:
                failure, self._overdue = error, isinstance(error, ApiLost)
                refused = error.message if isinstance(error, HelmError) and is_refusal(error.message) else ""
                if progress is not None and progress.stalled(error):
                    just_replaced = self._replace_newer(item, progress, error.message)
                    # After that, something else keeps it from beginning: Helm gets its whole time.
                    progress = progress if just_replaced and progress.replacements < REPLACEMENTS else None
                    if just_replaced or isinstance(error, RollbackStalled):
                        continue
                lost = isinstance(error, ApiLost | ApiUnavailable)
                if isinstance(error, HelmUnfinished) and not unfinished:
                    unfinished = True
                    why = (
                        ", because the replacement of kube-apiserver may have slowed it down"
                        if point.release == RECOVERED_RELEASE
                        else ""
                    )
                    self._note(f"{error.message}; Helm is run once more{why}")
                    continue
                if not lost and not refused and self._lifeline.holds:
                    return failure
                self._note(f"the API server stopped answering, or rejected the rollback: {error.message}")
        return failure

    def _progress(self, point: RestorePoint) -> RollbackProgress | None:
        """Of kube-apiserver's rollback, where something can be done if there is none."""
        followed = self._replaceable(point)
        return RollbackProgress(self._kube, self._clock, self._patience_seconds) if followed else None

    def _replaceable(self, point: RestorePoint) -> bool:
        """Whether what a step brings in place of this is kube-apiserver's pods, which the controllers can replace."""
        return point.release == RECOVERED_RELEASE and point.revision is not None and self._lifeline.recovers

    def _undo_watched(self, item: PipelineStep, progress: RollbackProgress | None) -> Step:
        """The step, with what is to be checked while its undo waits."""
        if progress is not None:
            progress.begin()
        if item.undo_watched is None:
            return item.step
        checks = [check for check in (self._lifeline.guard(), progress) if check is not None]

        def check() -> None:
            self._end_if_lost()
            for each in checks:
                each()

        return item.undo_watched(check)

    def _replace_newer(self, item: PipelineStep, progress: RollbackProgress, why: str) -> bool:
        """Replace the pods that the step brought, in whichever process it was begun; whether they were.

        Not once another process may be changing them.
        """
        self._end_if_lost()
        replaced = self._lifeline.replace_newer(self._began(item), why)
        if replaced:
            progress.replaced()
        return replaced

    def _began(self, item: PipelineStep) -> datetime:
        spans = (span.began for span in self._state.spans if span.step == item.step.name)
        return next(spans, self._clock.now()) + self._later_here(item.step.name)

    def _brought_since(self, item: PipelineStep) -> datetime | None:
        """Since when new pods of kube-apiserver are those that the step brought; None for one that brings none."""
        point = self._restore_point(item)
        return self._began(item) if point is not None and self._replaceable(point) else None

    def _later_here(self, step: str) -> timedelta:
        """How much later a step of an earlier process began by this machine's clock: or else pods of before it would
        count as its own, or its own as those of before. It is remembered once the API server has told its time.
        """
        ahead = self._ahead.get(step)
        if ahead is not None and step not in self._later and (ours := self._clock_ahead(ahead)) is not None:
            later = ours - ahead
            differ = _CLOCKS_AGREE_SECONDS <= abs(later) <= _CLOCKS_DIFFER_SECONDS
            self._later[step] = timedelta(seconds=later) if differ else timedelta()
        return self._later.get(step, timedelta())

    def _clock_ahead(self, expected: float = 0.0) -> float | None:
        """By how many seconds this machine's clock is ahead of the API server's; None if that doesn't tell.

        It told its time at some moment between the request and its answer, which may be slow: of what is possible,
        this is the nearest to `expected`.
        """
        asked = self._clock.now()
        try:
            told = self._kube.server_time()
        except ApiError:
            return None
        least, most = ((each - told).total_seconds() for each in (asked, self._clock.now()))
        return min(max(expected, least), most)

    def _note_replaced(self, item: PipelineStep, point: RestorePoint) -> None:
        """What others have made of a release that goes back is told: the rollback takes that back, too.

        Asked before a rollback of it has begun, and of the API's own release not once the API was recovered: both
        write revisions, which are upgrader's own.
        """
        step = self._state.step(item.step.name)
        recovered = bool(self._state.recoveries) or self._lifeline.recovered
        if step is None or step.reason or (recovered and point.release == RECOVERED_RELEASE):
            return
        if (others := self._replaced(item)) is not None:
            self._note(f"{others.message}; it is rolled back as well. {others.remedy}")

    def _written(self, item: PipelineStep) -> bool:
        """Whether the step has written its revision."""
        step = self._state.step(item.step.name)
        return step is not None and bool(step.revision)

    def _restore_point(self, item: PipelineStep) -> RestorePoint | None:
        step = self._state.step(item.step.name)
        return step.restore_point if step else None

    def _hold(self, name: str, gates: tuple[GateRun, ...], asked: Callable[[], int] | None = None) -> None:
        """`asked`: as in `hold_all`; all requests of this run by default."""
        recheck_seconds = max((run.policy.recheck_seconds for run in gates), default=0.0)
        absence = ApiAbsence(self._kube, self._clock, self._patience_seconds, recheck_seconds)
        hold_all(name, gates, clock=self._clock, reporter=self._reporter, absence=absence, asked=asked or self._asked)

    def _note(self, text: str) -> None:
        self._emit(Note(text))

    def _emit(self, event: Event) -> None:
        self._reporter.emit(event)
        self._state = follow(self._state, event, self._clock.now())


def _installed(point: RestorePoint) -> str:
    """The release in kube-system that was there before the step, so that Helm's records of it must be there still."""
    return point.release if point.revision is not None and point.namespace == "kube-system" else ""


def _is_silence(error: UpgraderError) -> bool:
    """Whether the API didn't answer: then it isn't asked once more whether it accepts the credentials."""
    return isinstance(error, ApiUnavailable) or (isinstance(error, ApiLost) and not error.credentials)


def _safe_to_stop(before: Action) -> bool:
    """A run stops only between steps: an applied step is gated first, and a failed one is undone first."""
    return isinstance(before, Begin) or (isinstance(before, Undo) and before.safe_to_stop)
