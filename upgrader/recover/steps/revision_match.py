"""Which Helm revision a checkpoint came from, judged by content: what runs is what counts, not what was noted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from upgrader.model.manifest import Manifest, objects_in
from upgrader.model.release import Revision
from upgrader.model.workload import WorkloadKind, WorkloadRef
from upgrader.recover.steps.pod_content import Content, contradictions, extras, pod_content

__all__ = ["Checkpoint", "Rendered", "matching", "rendered"]


@dataclass(frozen=True)
class Checkpoint:
    """What a generation consists of. `files`: path below `volumes/` → SHA-256. `template_hash`: that of its pod's
    template, empty when unknown.
    """

    number: int
    content: Content
    files: Mapping[str, str] = field(default_factory=dict)
    template_hash: str = ""

    @classmethod
    def parse(cls, number: int, manifest: bytes, record: bytes) -> Checkpoint:
        """From a generation's `manifest.json` and `generation.json`; raises ValueError when they aren't that."""
        try:
            read = json.loads(record)
            entries = read["entries"]
            files = {path.removeprefix("volumes/"): entry["sha256"] for path, entry in entries.items()}
            origin = read.get("origin") or {}
            content = pod_content(json.loads(manifest)["spec"])
            return cls(number, content, files, str(origin.get("template_hash", "")))
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"generation {number} can't be parsed: {error!r}") from error


@dataclass(frozen=True)
class Rendered:
    """A workload as a revision's manifest has it. `files`: as in a checkpoint, from the release's own ConfigMaps."""

    ref: WorkloadRef
    spec: Mapping[str, Any]
    content: Content
    files: Mapping[str, str]

    @property
    def pod(self) -> Mapping[str, Any]:
        """The pod's spec of its template."""
        pod: Mapping[str, Any] = self.spec["template"]["spec"]
        return pod

    def distance(self, checkpoint: Checkpoint) -> int | None:
        """How much the checkpoint's pod has beyond what this workload states; None when it contradicts it.

        Defaults of the API server count as well, but the same for each revision: the least is the best.
        """
        wrong = contradictions(self.content, checkpoint.content) or any(
            checkpoint.files.get(path) != digest for path, digest in self.files.items()
        )
        return None if wrong else len(extras(self.content, checkpoint.content))


def rendered(manifest: str, namespace: str, name: str) -> Rendered | None:
    """The Deployment or DaemonSet of that name in a release's manifest; None when there is none."""
    documents = objects_in(manifest).values()
    kinds: tuple[WorkloadKind, ...] = ("Deployment", "DaemonSet")
    for kind in kinds:
        for item in documents:
            meta = item.get("metadata") or {}
            if (item.get("kind"), meta.get("name"), meta.get("namespace") or namespace) == (kind, name, namespace):
                pod = item["spec"]["template"]["spec"]
                ref = WorkloadRef(kind, namespace, name)
                return Rendered(ref, item["spec"], pod_content(pod), _files(pod, documents))
    return None


def matching(
    good: tuple[Revision, ...], of: Callable[[Revision], Rendered | None], checkpoints: tuple[Checkpoint, ...]
) -> tuple[Revision, Checkpoint] | None:
    """The revision that one of the checkpoints was made of, and that checkpoint; earlier checkpoints win.

    Of several that don't contradict it, it is the one that leaves the least of it unstated: a revision that only took
    something away would contradict nothing. Of equals it is the newest.

    A hint that a checkpoint carries may be of a revision that changed something else, or be missing: so it isn't asked.
    """
    for checkpoint in checkpoints:
        found = [
            (distance, -revision.number, revision)
            for revision in good
            if (workload := of(revision)) is not None and (distance := workload.distance(checkpoint)) is not None
        ]
        if found:
            return min(found, key=lambda item: item[:2])[2], checkpoint
    return None


def _files(pod: Mapping[str, Any], documents: Iterable[Manifest]) -> dict[str, str]:
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
