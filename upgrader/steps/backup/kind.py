"""The backup before a minor upgrade: nothing is changed in the cluster, so there is nothing to undo."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from upgrader.model.counted import counted
from upgrader.model.own_steps import BACKUP
from upgrader.pipeline import PipelineStep
from upgrader.steps.backup.take import BackupTaker
from upgrader.steps.etcd.plan import new_minor_of_etcd
from upgrader.steps.one_way import OneWay
from upgrader.steps.plan import Plan
from upgrader.steps.step_kind import OwnKind, RunStart, preparing

__all__ = ["BackupKind", "BackupStep", "takes_backup"]


@dataclass(frozen=True)
class BackupKind(OwnKind):
    """Builds the step that takes it."""

    def before(self, plan: Plan, start: RunStart) -> Iterator[PipelineStep]:
        """Before everything else, where the run takes one."""
        context = self.context
        if context.age is None:
            return
        tools, settings = context.tools, context.settings.backup
        taker = BackupTaker(tools.hosts, tools.kube, tools.clock, context.age, context.cluster, settings)
        if takes_backup(taker, plan, start.resumed):
            yield preparing(BackupStep(taker))


def takes_backup(taker: BackupTaker, plan: Plan, planned: Collection[str] | None) -> bool:
    """Whether a run begins with one: before another minor, of etcd too, where somebody can read it.

    `planned` are the names of a run's steps that is resumed: it keeps what it began with.
    """
    if planned is not None:
        return BACKUP in planned
    return bool(taker.settings.recipients) and (plan.another_minor or new_minor_of_etcd(plan))


@dataclass(frozen=True)
class BackupStep(OneWay):
    """Takes a backup. A run that is interrupted in it takes another one."""

    taker: BackupTaker
    name: str = BACKUP

    def summary(self) -> str:
        return f"an encrypted backup into {self.taker.settings.folder}"

    def apply(self, note: Callable[[str], None]) -> None:
        taken = self.taker.take(note)
        note(f"{taken.path.name}: {counted(taken.manifest.keys, 'key')}, {taken.bytes:,} bytes")
