"""What a trial's pod mounts: the planned volumes, none of them writable, none of them made on the node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from upgrader.contract.flags import arguments_in
from upgrader.steps.trial.harmless import SCRATCH
from upgrader.steps.trial.programs import FileObject, PlannedProgram

__all__ = ["mounts_and_volumes", "named_by_env", "renamed", "unwritten_flags", "wanted_files"]

_PLAIN = {"DirectoryOrCreate": "Directory", "FileOrCreate": "File", "": ""}
"""Types of volumes that may be made on the node, and those that are not; without a type, a container runtime may."""
_REFERENCES = {
    "configMap": "ConfigMap",
    "configMapRef": "ConfigMap",
    "configMapKeyRef": "ConfigMap",
    "secret": "Secret",
    "secretRef": "Secret",
    "secretKeyRef": "Secret",
}
_SCRATCH = "upgrader-trial"


def unwritten_flags(program: PlannedProgram) -> tuple[str, ...]:
    """The flags that name a file which only another container of the pod would have written."""
    empty = {str(each["name"]) for each in program.command.pod.get("volumes") or () if "emptyDir" in each}
    folders = [str(each["mountPath"]) for each in _mounts(program) if str(each["name"]) in empty]
    given = program.command.flags or ()
    return tuple(each.name for each in given if any(_below(each.value or "", folder) for folder in folders))


def mounts_and_volumes(program: PlannedProgram) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Of the program's container."""
    named = {str(each["name"]): each for each in program.command.pod.get("volumes") or ()}
    mounts: list[Mapping[str, Any]] = [{"name": _SCRATCH, "mountPath": SCRATCH}]
    volumes: dict[str, Mapping[str, Any]] = {_SCRATCH: {"name": _SCRATCH, "emptyDir": {"sizeLimit": "64Mi"}}}
    for mount in _mounts(program):
        volume = named.get(str(mount["name"]))
        kept = _volume(volume, str(mount["mountPath"]), program) if volume is not None else None
        if kept is not None:
            volumes[str(kept["name"])] = kept
            own = {key: value for key, value in mount.items() if key != "mountPropagation"}
            mounts.append(own if "emptyDir" in kept else {**own, "readOnly": True})
    return mounts, list(volumes.values())


def named_by_env(program: PlannedProgram) -> dict[str, Any]:
    """The container's environment, as it is."""
    return {key: program.command.found[key] for key in ("env", "envFrom") if program.command.found.get(key)}


def wanted_files(program: PlannedProgram, part: Any) -> set[FileObject]:
    """Those of what the plan brings that a part of a pod refers to."""
    return {each for each in _references(part) if each in program.brought}


def renamed(part: Any, copies: Mapping[FileObject, str]) -> Any:
    """The same, referring to the copies."""
    if isinstance(part, list):
        return [renamed(each, copies) for each in part]
    if not isinstance(part, dict):
        return part
    made = {key: renamed(value, copies) for key, value in part.items()}
    for key, kind in _REFERENCES.items():
        if isinstance(made.get(key), dict):
            where = "secretName" if "secretName" in made[key] else "name"
            copy = copies.get((kind, str(made[key].get(where))))
            made[key] = {**made[key], where: copy} if copy else made[key]
    return made


def _references(part: Any) -> Iterator[FileObject]:
    if isinstance(part, list):
        for each in part:
            yield from _references(each)
    elif isinstance(part, dict):
        for key, value in part.items():
            if key in _REFERENCES and isinstance(value, dict):
                yield _REFERENCES[key], str(value.get("secretName") or value.get("name"))
            yield from _references(value)


def _volume(volume: Mapping[str, Any], mounted_at: str, program: PlannedProgram) -> Mapping[str, Any] | None:
    """The volume, so that nothing is made on the node for it; None where that is all it would be."""
    if "hostPath" in volume:
        path, type_ = str(volume["hostPath"].get("path")), str(volume["hostPath"].get("type") or "")
        if type_ in _PLAIN:
            given = arguments_in(program.command.arguments or ())
            named = [each.words[-1] if each.value is None else each.value for each in given]
            if path not in program.known_paths and not any(_below(each, mounted_at) for each in named):
                return None
            return {**volume, "hostPath": {"path": path, "type": _PLAIN[type_]}}
    if "projected" in volume:
        sources = [each for each in volume["projected"].get("sources") or () if "serviceAccountToken" not in each]
        if not sources:
            return None
        return {**volume, "projected": {**volume["projected"], "sources": sources}}
    return volume


def _mounts(program: PlannedProgram) -> list[Mapping[str, Any]]:
    return list(program.command.found.get("volumeMounts") or ())


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
