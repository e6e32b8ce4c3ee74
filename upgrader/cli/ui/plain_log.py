"""Plain lines, for pipes, files and CI logs: a line for each change, and none that repeats the one before."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Self, TextIO

from upgrader.cli.ui.as_typed import with_program
from upgrader.cli.ui.repeats import Repeats
from upgrader.cli.ui.terminal import duration, milliseconds
from upgrader.engine.state.event_fold import switched
from upgrader.engine.state.run_state import RunState
from upgrader.model.event import (
    ApprovalRequested,
    AvailabilityMeasured,
    BaselineTaken,
    Event,
    GateChecked,
    GatePassed,
    LockTakenOver,
    Note,
    RecoveryEnded,
    RecoveryStarted,
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
    WebhookSwitched,
    WebhookSwitching,
)
from upgrader.model.redaction.printable import printable
from upgrader.model.run_kind import describe_run

__all__ = ["PlainReporter"]


_COMMANDS = ("approve",)
"""Those that a run waits for."""


def _utc() -> datetime:
    return datetime.now(UTC)


class PlainReporter:
    """A Reporter that writes `TIME  WHAT` lines, flushed one by one."""

    def __init__(
        self,
        stream: TextIO,
        now: Callable[[], datetime] = _utc,
        monotonic: Callable[[], float] = time.monotonic,
        prefix: str = "",
        program: str = "upgrader",
    ) -> None:
        """`prefix` begins each line; `program` is how the operator calls upgrader for this cluster."""
        self._stream = stream
        self._now = now
        self._prefix, self._program = prefix, program
        self._repeats = Repeats(monotonic)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.flush()

    def catch_up(self, state: RunState) -> None:
        """Nothing to write: other processes reported what they did."""

    def expect(self, seconds: float) -> None:
        """One line."""
        self._write(f"about {duration(seconds)}, based on earlier runs")

    def approval(self) -> None:
        """None: a log has no one to answer a question."""

    def emit(self, event: Event) -> None:
        """Write the event, unless it repeats the last one."""
        if self._repeats.skip(event):
            return
        self._write(with_program(printable(_line(event)), _COMMANDS, self._program))

    def _write(self, text: str) -> None:
        stamp = self._now().strftime("%H:%M:%SZ")
        first, *rest = text.splitlines() or [""]
        lines = [f"{stamp}  {first}", *(f"{'':11}{line}" for line in rest)]
        print("\n".join(self._prefix + line for line in lines), file=self._stream, flush=True)


def _line(event: Event) -> str:
    match event:
        case RunStarted():
            skipped = "".join(f"\nskipped: {item.id} ({item.found}): {item.reason}" for item in event.skipped)
            changed = "".join(f"\n{item.now}, not {item.was}: {item.id} ({item.found})" for item in event.severities)
            began = (
                f"run {event.run}: {describe_run(event.kind, event.target, event.current)}: {', '.join(event.steps)}"
            )
            return f"{began}{skipped}{changed}"
        case BaselineTaken():
            found = event.baseline
            missing = "".join(f"\nnot compared: {item.what}: {item.why}" for item in found.not_compared)
            return f"baseline: each step is compared with what works now ({len(found.groups)} API versions){missing}"
        case ApprovalRequested():
            left = duration(event.seconds)
            return f"{event.step}: waiting for `upgrader approve {event.step} --reason WHY` [{left} left]"
        case StepApproved():
            return f"{event.step}: approved by {event.by}{_because(event.reason)}"
        case StepStarted():
            return f"{event.step}: started: {event.summary}"
        case RunResumed():
            return f"run {event.run}: resumed by {event.by}"
        case RollbackRequested():
            kept = f", to {event.to}" if event.to else ""
            return f"run {event.run}: rollback{kept}, requested by {event.by}"
        case StepInspected():
            return f"{event.step}: was interrupted: {event.found}"
        case StepApplied():
            return f"{event.step}: applied in {duration(event.seconds)}"
        case GateChecked():
            held = f" ({event.consecutive} of {event.needed})" if event.consecutive else ""
            left = duration(event.seconds_left)
            return f"{event.step}: gate {event.gate}: {event.verdict.kind}{held}: {event.verdict.reason} [{left} left]"
        case GatePassed():
            return f"{event.step}: gate {event.gate}: passed in {duration(event.seconds)}"
        case StepEnded():
            return f"{event.step}: {event.outcome} after {duration(event.seconds)}{_because(event.reason)}"
        case UndoStarted():
            return f"{event.step}: rolling back to {event.goal}"
        case UndoEnded():
            how = "rolled back" if event.succeeded else "could not be rolled back"
            return f"{event.step}: {how} after {duration(event.seconds)}{_because(event.reason)}"
        case RecoveryStarted():
            return f"API: unreachable for too long, recovering it over SSH{_because(event.reason)}"
        case RecoveryEnded():
            how = "answers again" if event.succeeded else "could not be recovered"
            return f"API: {how} after {duration(event.seconds)}{_because(event.reason)}"
        case WebhookSwitching():
            return f"webhook {event.which}: switching it {'off' if event.off else 'on'}{_because(event.reason)}"
        case WebhookSwitched():
            return switched(event)
        case LockTakenOver():
            return f"the cluster's lock was taken over from {event.holder}: {event.why}"
        case Note():
            return event.text
        case AvailabilityMeasured():
            gap = milliseconds(event.longest_gap_ms)
            failed = f"{event.failed:,} failed ({event.raw_failed:,} at the first try)"
            return f"API: {event.requests:,} requests, {failed}, longest gap {gap}"
        case RunEnded():
            # The reason was written when the step failed, and is part of the final error.
            return f"run {event.run}: {event.outcome} after {duration(event.seconds)}"


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""
