"""A playbook whose changes a person has taken back: its rollback changes nothing, and only its gates judge."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from upgrader.errors import StepFailed
from upgrader.model.release import RestorePoint
from upgrader.pipeline import Pipeline, Step

__all__ = ["UndoneByHandStep", "undone_by_hand"]


@dataclass(frozen=True)
class UndoneByHandStep:
    """The same step in the rollback, of which `by` says that nothing is left to undo."""

    step: Step
    by: str

    @property
    def name(self) -> str:
        return self.step.name

    def summary(self) -> str:
        return self.step.summary()

    def capture(self) -> RestorePoint | None:
        return self.step.capture()

    def apply(self, note: Callable[[str], None]) -> int | None:
        raise StepFailed(f"{self.name} is being rolled back, and can't be applied")

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        note(f"{self.name}: reverted by hand, as {self.by} confirmed; only its gates are checked")


def undone_by_hand(pipeline: Pipeline, name: str, by: str) -> Pipeline:
    """The same pipeline, in which nothing is run for the rollback of the step of that name."""
    steps = (
        replace(item, step=UndoneByHandStep(item.step, by), undo_watched=None) if item.step.name == name else item
        for item in pipeline.steps
    )
    return replace(pipeline, steps=tuple(steps))
