"""Replicates a run's journal to the cluster and to the controllers' disks, where it outlives this machine.

The cluster's replica follows every record of what began or how it ended. The controllers' replicas are written before
anything is changed or undone, as any change to a control plane can make its API unreachable, and while the cluster's
replica can't be written. So every change to the cluster is recorded outside this machine first.

A replica that can't be written stops nothing: it is reported once and tried again later. Every attempt has a deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from upgrader.engine.history.journal_replicas import JournalReplica
from upgrader.engine.history.kept_runs import surplus
from upgrader.engine.journal.journal_file import parse_journal
from upgrader.engine.state.event_fold import fold
from upgrader.engine.state.run_state import RunState
from upgrader.errors import UpgraderError
from upgrader.model.event import (
    ApprovalRequested,
    Event,
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
from upgrader.ports import Clock

__all__ = ["RETRY_SECONDS", "DURABLE_EVENTS", "JournalMirror"]

DURABLE_EVENTS = (
    RunStarted,
    RunResumed,
    RollbackRequested,
    ApprovalRequested,
    StepApproved,
    StepStarted,
    StepApplied,
    StepEnded,
    UndoStarted,
    UndoEnded,
    RecoveryStarted,
    RecoveryEnded,
    WebhookSwitching,
    WebhookSwitched,
    StepInspected,
    RunEnded,
)
"""Resuming a run needs these; all records before them are copied along."""

RETRY_SECONDS = 30.0
"""How long a failed place is skipped: an unreachable machine costs ten seconds or more each time."""


class JournalMirror:
    """A Reporter that copies the journal; it must come after the Journal itself. Never raises UpgraderError."""

    def __init__(
        self,
        journal: Path,
        run: str,
        *,
        cluster: JournalReplica,
        controllers: Sequence[JournalReplica],
        clock: Clock,
        keep: int,
        note: Callable[[str], None],
    ) -> None:
        """`keep`: how many runs each place keeps; `note` takes messages for the operator."""
        self._journal = journal
        self._run = run
        self._cluster = cluster
        self._controllers = tuple(controllers)
        self._clock = clock
        self._keep = keep
        self._note = note
        self._failing: dict[str, float] = {}
        """Places that can't be written, and when the last attempt failed."""
        self._on_controllers = False

    def emit(self, event: Event) -> None:
        """Copy the journal if this event is one of `DURABLE_EVENTS`."""
        if not isinstance(event, DURABLE_EVENTS):
            return
        last = isinstance(event, RunEnded)
        if isinstance(event, RunStarted):
            self._each((self._cluster, *self._controllers), self._prune, last=False)
        self._each((self._cluster,), self._copy, last=last)
        if self._risky(event) or (last and self._on_controllers) or self._cluster.place in self._failing:
            self._on_controllers = True
            self._each(self._controllers, self._copy, last=last)

    @staticmethod
    def _risky(event: Event) -> bool:
        """Whether the cluster is about to be changed."""
        return isinstance(event, UndoStarted) or (isinstance(event, StepStarted) and event.restore_point is not None)

    def _each(self, places: Sequence[JournalReplica], act: Callable[[JournalReplica], None], *, last: bool) -> None:
        now = self._clock.monotonic()
        due = [
            place
            for place in places
            if last or place.place not in self._failing or now - self._failing[place.place] >= RETRY_SECONDS
        ]
        if not due:
            return
        with ThreadPoolExecutor(len(due)) as pool:
            problems = list(pool.map(lambda place: _problem(act, place), due))
        for place, problem in zip(due, problems, strict=True):
            self._report(place.place, problem)

    def _report(self, place: str, problem: str) -> None:
        if problem:
            if place not in self._failing:
                self._note(
                    f"this run's journal can't be replicated to {place}; it is only in the run's folder: {problem}"
                )
            self._failing[place] = self._clock.monotonic()
        elif self._failing.pop(place, None) is not None:
            self._note(f"this run's journal is replicated to {place} again")

    def _copy(self, place: JournalReplica) -> None:
        content = self._journal.read_bytes()
        place.write(self._run, content[: content.rfind(b"\n") + 1])

    def _prune(self, place: JournalReplica) -> None:
        """Remove old runs, as in the runs folder."""

        def state(run: str) -> RunState:
            try:
                return fold(parse_journal(place.read(run) or b"", place.place))
            except UpgraderError:
                return RunState()

        for run in surplus([name for name in place.names() if name != self._run], state, self._keep):
            place.remove(run)


def _problem(act: Callable[[JournalReplica], None], place: JournalReplica) -> str:
    try:
        act(place)
    except UpgraderError as error:
        return error.message
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return ""
