"""The members of etcd whose image a run changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from upgrader.model.etcd_settings import EtcdSettings
from upgrader.model.etcd_version import EtcdVersion
from upgrader.model.images import ImageChange
from upgrader.model.observed import Observed
from upgrader.model.own_steps import ETCD
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.planned import PlannedStep
from upgrader.steps.step_document import NOTHING_TO_UNDO, Undo

__all__ = ["EtcdChange", "PlannedEtcd", "new_minor_of_etcd", "plan_etcd"]


@dataclass(frozen=True)
class EtcdChange:
    """A controller, and the image of its member before the run."""

    node: str
    before: str

    def __str__(self) -> str:
        return f"{self.node} {self.before}"


@dataclass(frozen=True)
class PlannedEtcd(PlannedStep):
    """The members that change, one after the other."""

    settings: EtcdSettings
    members: tuple[EtcdChange, ...]
    of: int = 0
    """How many members there are on the controllers."""
    name: str = ETCD
    changes: tuple[()] = ()

    kind: ClassVar = "etcd"

    @property
    def action(self) -> Literal["upgrade", "unchanged"]:
        return "upgrade" if self.members else "unchanged"

    @property
    def summary(self) -> str:
        if not self.members:
            return "nothing to change"
        before = sorted({member.before for member in self.members})
        repository, _, tag = self.settings.image.rpartition(":")
        same = all(image.rpartition(":")[0] == repository for image in before)
        shown = [image.rpartition(":")[2] for image in before] if same else before
        count = len(self.members)
        return (
            f"{count} member{'s, one at a time' if count > 1 else ''}: {', '.join(shown)} → "
            f"{tag if same else self.settings.image}"
        )

    @property
    def new_minor(self) -> bool:
        """Whether no rollback is possible once all members have it: the older minor can't read what it writes.

        A version before that can't be told from its image is taken to be such a one.
        """
        before = [EtcdVersion.of_image(member.before) for member in self.members]
        return any(each is None or self.settings.version.minors_after(each) > 0 for each in before)

    @property
    def images(self) -> tuple[ImageChange, ...]:
        after = self.settings.image
        return tuple(ImageChange(f"Pod kube-system/etcd-{m.node}", "etcd", m.before, after) for m in self.members)

    @property
    def way_back(self) -> Undo:
        if not self.members:
            return NOTHING_TO_UNDO
        return Undo("none") if self.new_minor else Undo(self.kind, text="each member returns to its previous image")

    @property
    def described(self) -> str:
        return f"{self.name}: {self.settings.image} for {', '.join(map(str, self.members)) or 'none'}"

    @property
    def fingerprint(self) -> tuple[str, ...]:
        return (self.settings.image, *map(str, self.members))

    @property
    def changes_fingerprint(self) -> tuple[str, ...]:
        return (self.settings.image, *sorted({member.before for member in self.members}))

    def inputs(self) -> Mapping[str, str]:
        return {"image": self.settings.image, "version": str(self.settings.version)}

    def once_done(self, observed: Observed) -> Observed:
        changed = {member.node: self.settings.image for member in self.members}
        return replace(observed, etcd={**observed.etcd, **changed})


def plan_etcd(settings: EtcdSettings | None, observed: Observed) -> tuple[PlannedEtcd, ...]:
    """The step of etcd's members; () where upgrader.yaml has no section `etcd`."""
    if settings is None:
        return ()
    members = (EtcdChange(node, image) for node, image in observed.etcd.items() if image != settings.image)
    return (PlannedEtcd(settings, tuple(members), len(observed.etcd)),)


def new_minor_of_etcd(plan: Plan) -> bool:
    """Whether etcd's members get another minor, whose data the older one can't read."""
    return any(step.members and step.new_minor for step in planned_of(plan, PlannedEtcd))
