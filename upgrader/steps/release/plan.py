"""A Helm release of the pipeline: what it should be, and what that changes. Pure: the same input, the same plan."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import yaml

from upgrader.engine.execution.input_files import canonical, file_digests
from upgrader.model.counted import counted
from upgrader.model.images import ImageChange, image_changes, images_in
from upgrader.model.limited_yaml import DUMPER
from upgrader.model.manifest import Manifest, objects_in
from upgrader.model.masked_manifest import masked, masked_text
from upgrader.model.observed import Observed, ObservedRelease
from upgrader.model.redaction.patterns import mask_patterns
from upgrader.model.release import ReleaseSpec, Revision, last_good
from upgrader.steps.planned import PlannedStep
from upgrader.steps.step_document import NOTHING_TO_UNDO, ObjectChange, Undo

__all__ = ["VERSIONED_RELEASES", "Action", "IntendedRelease", "PlannedRelease", "object_changes", "short_images"]

VERSIONED_RELEASES = ("kube-apiserver", "kubernetes")
"""The built-in charts whose `kubernetesVersion` value a run sets to its target."""

Action = Literal["install", "upgrade", "unchanged"]


@dataclass(frozen=True)
class PlannedRelease(PlannedStep):
    """One Helm release: its last good manifest (`before`; "" when not installed) and the planned one (`after`)."""

    spec: ReleaseSpec
    action: Action
    summary: str
    before: str
    after: str
    changes: tuple[ObjectChange, ...]
    pending: bool = False
    """Whether an interrupted Helm operation left it pending: it must be freed before anything else."""
    revision: int | None = None
    """The last good revision, to which a rollback returns; None: there is none."""

    kind: ClassVar = "release"

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def images(self) -> tuple[ImageChange, ...]:
        return image_changes(self.before, self.after)

    @property
    def way_back(self) -> Undo:
        if self.action == "unchanged":
            return NOTHING_TO_UNDO
        if self.revision is None:
            return Undo("uninstall")
        return Undo("rollback", self.revision, text=f"rollback to revision {self.revision}")

    @property
    def described(self) -> str:
        return f"release {self.name}"

    @property
    def fingerprint(self) -> tuple[str, ...]:
        return masked_text(self.before), masked_text(self.after)

    @property
    def changes_fingerprint(self) -> tuple[str, ...]:
        """Without the planned manifest, which a chart may render with another certificate each time."""
        return (masked_text(self.before), self.action, *(f"{each.before} → {each.after}" for each in self.images))

    def inputs(self) -> Mapping[str, str]:
        chart, values = file_digests(self.spec.chart, "chart", relative_links=True), canonical(self.spec.values)
        return {**chart, "namespace": self.spec.namespace, "values": values}

    def once_done(self, observed: Observed) -> Observed:
        if self.action == "unchanged":
            return observed
        history = observed.releases[self.name].history
        newest = history[-1].number if history else 0
        # A pending one is rolled back first, which is a revision of its own.
        deployed = Revision(newest + (2 if self.pending else 1), "deployed")
        return replace(
            observed,
            releases={
                **observed.releases,
                self.name: ObservedRelease((*history, deployed), self.after, self.spec.namespace),
            },
        )


@dataclass(frozen=True)
class IntendedRelease:
    """The intended release, with its rendered manifest."""

    spec: ReleaseSpec
    manifest: str

    kind: ClassVar = PlannedRelease.kind

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def source(self) -> Path:
        """What it is installed from."""
        return self.spec.chart

    def changes_from(self, manifest: str) -> tuple[ObjectChange, ...]:
        """The objects that differ from those of an earlier manifest."""
        return object_changes(manifest, self.manifest)

    def planned(self, observed: Observed) -> PlannedRelease:
        """What it changes: its rendered manifest beside the last good one."""
        now = observed.releases[self.spec.name]
        changes = self.changes_from(now.manifest)
        action: Action = "upgrade"
        if not now.manifest:
            action = "install"
        elif not changes and now.settled:
            action = "unchanged"
        summary = _summary(action, now.manifest, self.manifest, changes)
        good = last_good(now.history)
        revision = good.number if good else None
        return PlannedRelease(self.spec, action, summary, now.manifest, self.manifest, changes, now.pending, revision)


def object_changes(before: str, after: str) -> tuple[ObjectChange, ...]:
    """The objects that differ between two manifests, in the order of the new one, the removed last."""
    old, new = objects_in(before), objects_in(after)
    changes = []
    for key, manifest in new.items():
        if key not in old:
            changes.append(_change(key, "added", {}, manifest))
        elif old[key] != manifest:
            changes.append(_change(key, "changed", old[key], manifest))
    changes += [_change(key, "removed", manifest, {}) for key, manifest in old.items() if key not in new]
    return tuple(changes)


def _change(key: str, change: Literal["added", "changed", "removed"], old: Manifest, new: Manifest) -> ObjectChange:
    lines = difflib.unified_diff(_lines(old, {}), _lines(new, old), "now", "planned", lineterm="", n=2)
    # Once more, as the form of a text may have hidden something; line by line, so that none hides the lines after it.
    return ObjectChange(key, change, "\n".join(map(mask_patterns, lines)))


def _lines(manifest: Manifest, other: Manifest) -> list[str]:
    if not manifest:
        return []
    return yaml.dump(masked(manifest, other), Dumper=DUMPER, sort_keys=False, width=1000).splitlines()


def _summary(action: Action, before: str, after: str, changes: tuple[ObjectChange, ...]) -> str:
    if action == "unchanged":
        return "nothing to change"
    if action == "install":
        return f"install ({len(changes)} objects)"
    if not changes:
        return "apply again (the last attempt was not completed)"
    moved = _moved(short_images(before), short_images(after))
    number = counted(len(changes), "object")
    return f"{'; '.join(moved)} ({number})" if moved else f"change {number}: {_named(changes)}"


def _moved(old: Mapping[tuple[str, str], str], new: Mapping[tuple[str, str], str]) -> list[str]:
    """`kube-proxy, kube-scheduler: v1.36.3 → v1.37.1`: the images that change, by what their tags change to."""
    moves: dict[str, dict[str, None]] = {}
    for container, image in new.items():
        before = old.get(container, image)
        if before != image:
            (name, _, tag), (old_name, _, old_tag) = image.partition(":"), before.partition(":")
            step = f"{old_tag} → {tag}" if name == old_name else f"{before} → {image}"
            moves.setdefault(step, {})[name] = None
    return [f"{', '.join(names)}: {step}" for step, names in moves.items()]


def _named(changes: Iterable[ObjectChange]) -> str:
    return ", ".join(change.object for change in changes)


def short_images(manifest: str) -> dict[tuple[str, str], str]:
    """Each container's image, shortened to name:tag, by workload and container."""
    return {key: image.rpartition("/")[2] for key, image in images_in(manifest).items()}
