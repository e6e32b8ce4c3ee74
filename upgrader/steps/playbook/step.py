"""A step that runs an Ansible playbook."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upgrader.errors import HostError, PlaybookError, RollbackFailed, StepFailed
from upgrader.model.release import RestorePoint
from upgrader.ports import Playbooks
from upgrader.steps.playbook.playbook_markers import PlaybookMarkers

__all__ = ["PlaybookStep"]


@dataclass(frozen=True)
class PlaybookStep:
    """One playbook against the cluster's inventory; `undo_playbook` undoes it, where there is one."""

    playbook: Path
    inventory: Path
    playbooks: Playbooks
    timeout_seconds: float
    markers: PlaybookMarkers
    undo_playbook: Path | None = None
    variables: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.playbook.stem

    def summary(self) -> str:
        return f"ansible-playbook {self.playbook.name}"

    def capture(self) -> RestorePoint:
        return RestorePoint(playbook=self.undo_playbook.name if self.undo_playbook else "", begun=self.markers.begun())

    def apply(self, note: Callable[[str], None]) -> None:
        note(self.summary())
        try:
            before = self.markers.begin(note)
            try:
                self._run(self.playbook)
            except PlaybookError as error:
                if not error.begun:
                    with suppress(HostError):  # then it may have begun; what Ansible said is told all the same
                        self.markers.withdraw(before)
                raise
            self.markers.complete(before, note)
        except (HostError, PlaybookError) as error:
            raise StepFailed(error.message, remedy=error.remedy) from error

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        if self._was_refused(point):
            note(f"{self.playbook.name} was not started on any host: nothing to undo")
            return
        # Never the one that the restore point names: it came with a journal, and would run on this machine.
        if self.undo_playbook is None:
            raise RollbackFailed(
                f"upgrader.yaml names no playbook that undoes {self.playbook.name}",
                remedy=(
                    f"Write one, set it as `undo` of step {self.name} in upgrader.yaml, then run `upgrader resume`.\n"
                )
                + self._by_hand(),
            )
        note(f"ansible-playbook {self.undo_playbook.name}")
        try:
            self._run(self.undo_playbook)
        except PlaybookError as error:
            raise RollbackFailed(
                error.message, remedy="\n".join(filter(None, [error.remedy, self._by_hand()]))
            ) from error

    def _was_refused(self, point: RestorePoint) -> bool:
        """By the markers of the controllers; where one can't be read, it may have begun."""
        try:
            return self.markers.refused_since(point.begun)
        except HostError:
            return False

    def _by_hand(self) -> str:
        return f"Or revert its changes by hand, then run `upgrader resume --done {shlex.quote(self.name)}`."

    def _run(self, playbook: Path) -> None:
        self.playbooks.run(
            playbook, inventory=self.inventory, variables=self.variables, timeout_seconds=self.timeout_seconds
        )
