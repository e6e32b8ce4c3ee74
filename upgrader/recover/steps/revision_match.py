"""Which Helm revision a checkpoint came from, judged by content: what runs is what counts, not what was noted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from upgrader.model.release import Revision
from upgrader.model.workload import WorkloadKind, WorkloadRef

__all__ = ["Checkpoint", "Rendered", "containers_of", "matching", "rendered"]

ContainerContent = tuple[str, str, tuple[str, ...], tuple[str, ...]]
"""Name, image, command and arguments."""


@dataclass(frozen=True)
class Checkpoint:
    """What a generation consists of. `files`: path below `volumes/` → SHA-256."""

    number: int
    containers: frozenset[ContainerContent]
    files: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, number: int, manifest: bytes, record: bytes) -> Checkpoint:
        """From a generation's `manifest.json` and `generation.json`; raises ValueError when they aren't that."""
        try:
            entries = json.loads(record)["entries"]
            files = {path.removeprefix("volumes/"): entry["sha256"] for path, entry in entries.items()}
            return cls(number, containers_of(json.loads(manifest)["spec"]), files)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"generation {number} can't be understood: {error!r}") from error


@dataclass(frozen=True)
class Rendered:
    """A workload as a revision's manifest has it. `files`: as in a checkpoint, from the release's own ConfigMaps."""

    ref: WorkloadRef
    spec: Mapping[str, Any]
    containers: frozenset[ContainerContent]
    files: Mapping[str, str]

    def made(self, checkpoint: Checkpoint) -> bool:
        """Whether the checkpoint is of a pod of this workload: the same containers, with the same configuration."""
        return self.containers == checkpoint.containers and all(
            checkpoint.files.get(path) == digest for path, digest in self.files.items()
        )


def rendered(manifest: str, namespace: str, name: str) -> Rendered | None:
    """The Deployment or DaemonSet of that name in a release's manifest; None when there is none."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    documents: list[Any] = [item for item in yaml.load_all(manifest, Loader=loader) if isinstance(item, dict)]
    kinds: tuple[WorkloadKind, ...] = ("Deployment", "DaemonSet")
    for kind in kinds:
        for item in documents:
            meta = item.get("metadata") or {}
            if (item.get("kind"), meta.get("name"), meta.get("namespace") or namespace) == (kind, name, namespace):
                pod = item["spec"]["template"]["spec"]
                ref = WorkloadRef(kind, namespace, name)
                return Rendered(ref, item["spec"], containers_of(pod), _files(pod, documents))
    return None


def containers_of(pod: Mapping[str, Any]) -> frozenset[ContainerContent]:
    """What a pod's spec runs, init containers too."""
    return frozenset(
        (item["name"], item.get("image", ""), tuple(item.get("command") or ()), tuple(item.get("args") or ()))
        for item in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ()))
    )


def matching(
    good: tuple[Revision, ...], of: Callable[[Revision], Rendered | None], checkpoints: tuple[Checkpoint, ...]
) -> tuple[Revision, Checkpoint] | None:
    """The newest good revision that one of the checkpoints was made of, and that checkpoint; earlier checkpoints win.

    A hint that a checkpoint carries may be of a revision that changed something else, or be missing: so it isn't asked.
    """
    for checkpoint in checkpoints:
        for revision in sorted(good, key=lambda item: item.number, reverse=True):
            workload = of(revision)
            if workload is not None and workload.made(checkpoint):
                return revision, checkpoint
    return None


def _files(pod: Mapping[str, Any], documents: list[Any]) -> dict[str, str]:
    """The files that the pod gets from ConfigMaps of the same manifest."""
    config_maps = {item["metadata"]["name"]: item for item in documents if item.get("kind") == "ConfigMap"}
    files: dict[str, str] = {}
    for volume in pod.get("volumes") or ():
        source = volume.get("configMap") or {}
        data = (config_maps.get(source.get("name")) or {}).get("data") or {}
        paths = {item["key"]: item["path"] for item in source.get("items") or ()} or {key: key for key in data}
        for key, path in paths.items():
            if key in data:
                files[f"{volume['name']}/{path}"] = hashlib.sha256(data[key].encode()).hexdigest()
    return files
