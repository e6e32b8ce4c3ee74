"""The backup before a minor upgrade, as a step: nothing is changed in the cluster, so there is nothing to undo."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from upgrader.model.own_steps import BACKUP
from upgrader.model.plan import Plan, new_minor_of_etcd
from upgrader.model.release import RestorePoint
from upgrader.steps.backup.take import BackupTaker

__all__ = ["BackupStep", "takes_backup"]


def takes_backup(taker: BackupTaker, plan: Plan, planned: Collection[str] | None) -> bool:
    """Whether a run begins with one: before another minor, of etcd too, where somebody can read it.

    `planned` are the names of a run's steps that is resumed: it keeps what it began with.
    """
    if planned is not None:
        return BACKUP in planned
    another_minor = plan.target.minors_after(plan.current) != 0 or new_minor_of_etcd(plan)
    return bool(taker.settings.recipients) and another_minor


@dataclass(frozen=True)
class BackupStep:
    """Takes a backup. A run that is interrupted in it takes another one."""

    taker: BackupTaker
    name: str = BACKUP

    def summary(self) -> str:
        return f"an encrypted backup into {self.taker.settings.folder}"

    def capture(self) -> None:
        return None

    def apply(self, note: Callable[[str], None]) -> None:
        taken = self.taker.take(note)
        note(f"{taken.path.name}: {taken.manifest.keys:,} keys, {taken.bytes:,} bytes")

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing to undo: the backup stays."""
