"""What a plan starts anew: the programs whose image, flags or files change, and the files that the plan brings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from upgrader.model.images import pod_spec_of
from upgrader.model.manifest import Manifest, objects_in
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.release.planned_commands import PlannedCommand, commands_of

__all__ = ["FileObject", "PlannedProgram", "planned_programs"]

FileObject = tuple[str, str]
"""(`ConfigMap` or `Secret`, its name)."""
_OF_FILES = ("ConfigMap", "Secret")


@dataclass(frozen=True)
class PlannedProgram:
    """A component of the control plane, as a run is to start it."""

    command: PlannedCommand
    namespace: str
    brought: Mapping[FileObject, Manifest]
    """What its release, and those before it, bring to the namespace: until then, the cluster has it as it was, or not
    at all.
    """
    known_paths: frozenset[str]
    """What the pods of today mount from their node, which is there."""


def planned_programs(plan: Plan) -> tuple[PlannedProgram, ...]:
    """Each component that a run starts anew, in the plan's order.

    One whose pods stay as they are has read its flags and files already. One that something else starts, such as a
    shell, is left out: the check `flags.unread` tells of it.
    """
    found, files = list[PlannedProgram](), dict[tuple[str, FileObject], Manifest]()
    for release in planned_of(plan, PlannedRelease):
        if release.action != "unchanged":
            files |= _files(release)
            found += _programs(release, plan, files)
    return tuple(found)


def _files(release: PlannedRelease) -> dict[tuple[str, FileObject], Manifest]:
    """What a release brings, and to which namespace."""
    return {
        (_namespace(each, release), (str(each["kind"]), str(each["metadata"]["name"]))): each
        for each in objects_in(release.after).values()
        if each.get("kind") in _OF_FILES
    }


def _programs(
    release: PlannedRelease, plan: Plan, files: Mapping[tuple[str, FileObject], Manifest]
) -> list[PlannedProgram]:
    before, after = objects_in(release.before), objects_in(release.after)
    found = []
    for workload, item in after.items():
        if before.get(workload, {}).get("spec") == item.get("spec"):
            continue
        namespace = _namespace(item, release)
        brought = {name: each for (place, name), each in files.items() if place == namespace}
        known = _host_paths(before[workload]) if workload in before else frozenset()
        found += [
            PlannedProgram(command, namespace, brought, known)
            for command in commands_of(release, workload, item, plan.target)
            if command.arguments is not None
        ]
    return found


def _namespace(item: Manifest, release: PlannedRelease) -> str:
    return str((item.get("metadata") or {}).get("namespace") or release.spec.namespace)


def _host_paths(item: Manifest) -> frozenset[str]:
    volumes = pod_spec_of(item).get("volumes") or ()
    return frozenset(str(each["hostPath"].get("path")) for each in volumes if each.get("hostPath"))
