"""What every planned step tells of itself, whatever its kind: each kind has its own in `KIND/plan.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from upgrader.model.images import ImageChange
from upgrader.model.observed import Observed
from upgrader.steps.step_document import HostChanges, ObjectChange, StepAction, StepDocument, Undo

__all__ = ["PlannedStep"]


class PlannedStep:
    """A step of a plan, before anything is changed. Pure. What most kinds tell is here."""

    kind: ClassVar[str]
    """The name of its kind, by which the registry finds what builds it."""

    if TYPE_CHECKING:  # a dataclass would take a property of its base for the default of its field

        @property
        def name(self) -> str:
            """Unique within the plan; the journal knows the step by it."""

        @property
        def action(self) -> StepAction:
            """`unchanged` where there is nothing to do."""

        @property
        def summary(self) -> str:
            """What it would change, in one line."""

        @property
        def changes(self) -> tuple[ObjectChange, ...]:
            """The API objects that it would change, as far as they can be shown."""

    @property
    def way_back(self) -> Undo:
        """What rolls it back."""
        raise NotImplementedError

    @property
    def images(self) -> tuple[ImageChange, ...]:
        """The images that it would change."""
        return ()

    @property
    def described(self) -> str:
        """The step, and what it changes from what to what: a saved plan is bound to this."""
        return f"{self.name}: {self.summary}"

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """The parts of the plan's digest beside the name; no secret's value is in them."""
        return (self.summary,)

    @property
    def changes_fingerprint(self) -> tuple[str, ...]:
        """The same, whichever nodes there are."""
        return self.fingerprint

    @property
    def disturbs(self) -> bool:
        """Whether it may change what metrics say."""
        return self.action != "unchanged"

    def inputs(self) -> Mapping[str, str]:
        """What it is made from, to detect changes when its run is resumed; {}: nothing but the run's versions.

        The same on every machine with the same files, in whatever folder they are. Raises UsageError for what can't be
        read.
        """
        return {}

    def once_done(self, observed: Observed) -> Observed:
        """What would be observed once it was done."""
        return observed

    def document(self, usual_seconds: float | None, hosts: HostChanges | None = None) -> StepDocument:
        """How it is shown. `hosts`: what a playbook would change."""
        seconds = usual_seconds if self.action != "unchanged" else None
        return StepDocument(
            self.name, self.kind, self.action, self.summary, self.way_back, seconds, self.images, self.changes, hosts
        )
