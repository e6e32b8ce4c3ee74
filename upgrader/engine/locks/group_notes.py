"""Tells guard, by the cluster's lock, which groups of StatefulSets may be rolled out: those of the active step."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from upgrader.engine.locks.cluster_lock import ClusterLock
from upgrader.model.event import Event, RunEnded, StepEnded, StepInspected, StepStarted, UndoEnded, UndoStarted

__all__ = ["GroupNotes"]


class GroupNotes:
    """A reporter. `groups`: of each step, by its name, as `NAMESPACE/GROUP`; a step that isn't there has none."""

    def __init__(self, lock: ClusterLock, groups: Mapping[str, Collection[str]]) -> None:
        self._lock, self._groups = lock, groups

    def emit(self, event: Event) -> None:
        """A step that begins, or is gone on with, or undone; and the end of each."""
        match event:
            case StepStarted() | StepInspected() | UndoStarted():
                self._lock.let_roll(self._groups.get(event.step, ()))
            case StepEnded() | UndoEnded() | RunEnded():
                self._lock.let_roll(())
            case _:
                pass
