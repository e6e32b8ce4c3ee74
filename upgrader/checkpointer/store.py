"""The node's disk: generations of every workload, and our manifests among those that the kubelet reads.

The store belongs to the node, not to a pod: it outlives every instance of the checkpointer. Everything lies below one
folder (/etc/kubernetes), which must be one mount, as files are put in place by renaming them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from upgrader.checkpointer import files, generation
from upgrader.checkpointer.errors import StoreError
from upgrader.checkpointer.generation import Origin, Record
from upgrader.checkpointer.model import Generation, Holding, Policy, Workload
from upgrader.checkpointer.names import CHECKPOINT_OF, MANIFEST_PREFIX
from upgrader.checkpointer.sanitise import Candidate


@dataclass(frozen=True)
class Shelf:
    """One workload on disk. ``records`` by generation number; ``damaged``: number → what is wrong with it."""

    records: Mapping[int, Record]
    damaged: Mapping[int, str]
    active: bool
    active_number: int | None

    @property
    def newest(self) -> Record | None:
        """The record of the last-known-good."""
        return self.records[max(self.records)] if self.records else None

    @property
    def holding(self) -> Holding:
        """What the decision needs to know."""
        good = [Generation(r.number, r.digest) for r in self.records.values()]
        bad = [Generation(n, "", intact=False) for n in self.damaged]
        policy = self.newest.policy if self.newest else Policy.API_AWAY
        return Holding(policy, tuple(sorted([*good, *bad], key=lambda g: g.number)), self.active, self.active_number)


@dataclass
class Store:
    """``root`` is /etc/kubernetes. Not safe for two writers: hold the lock."""

    root: Path
    _verified: dict[Path, tuple[object, str]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where everything but the active manifests lies."""
        return self.root / "checkpointer"

    @property
    def manifests(self) -> Path:
        """Where the kubelet reads static pods."""
        return self.root / "manifests"

    def prepare(self) -> None:
        """Make the folders that are missing, and clear away what an interrupted pass left. Raises StoreError."""
        try:
            for folder in (self.folder, self.folder / "workloads", self.manifests):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for temporary in self.manifests.glob(f"{files.TEMPORARY}{MANIFEST_PREFIX}*"):
                temporary.unlink()
            for workload in (self.folder / "workloads").iterdir():
                if (workload / "generations").is_dir():
                    files.sweep(workload / "generations")
        except OSError as error:
            raise StoreError(f"{self.root} can't be prepared: {error}") from error

    def read(self) -> dict[Workload, Shelf]:
        """All workloads on disk, every generation verified. Raises StoreError when any part can't be read."""
        try:
            folder = self.folder / "workloads"
            return {self._workload(p): self._shelf(p) for p in sorted(folder.iterdir())} if folder.exists() else {}
        except OSError as error:
            raise StoreError(f"{self.folder} can't be read: {error}") from error

    def capture(self, candidate: Candidate, policy: Policy, lease: str, origin: Origin) -> int:
        """Write a new generation; its number. Raises StoreError."""
        folder = self._generations(candidate.workload)
        try:
            for missing in (folder.parent, folder):
                missing.mkdir(mode=0o700, exist_ok=True)
            files.sync_folder(folder.parent)
            files.sync_folder(folder.parent.parent)
            files.sweep(folder)
            number = max((int(p.name) for p in folder.iterdir() if p.name.isdigit()), default=0) + 1
            generation.write(folder, number, candidate, policy, lease, origin)
        except OSError as error:
            raise StoreError(f"a generation of {candidate.workload} can't be written to {folder}: {error}") from error
        return number

    def activate(self, workload: Workload, number: int) -> bool:
        """Have the kubelet read this generation's manifest; whether anything had to be changed. Raises StoreError."""
        wanted = generation.manifest(self._generations(workload) / str(number))
        path = self.manifest_path(workload)
        try:
            if path.exists():
                self._must_be_ours(path)
                if path.read_bytes() == wanted:
                    return False
            files.replace(path, wanted)
        except OSError as error:
            raise StoreError(f"{path} can't be written: {error}") from error
        return True

    def withdraw(self, workload: Workload) -> bool:
        """Have the kubelet read no manifest of ours for this workload; whether anything had to be changed. Raises
        StoreError.
        """
        path = self.manifest_path(workload)
        try:
            if not path.exists():
                return False
            self._must_be_ours(path)
            files.remove(path)
        except OSError as error:
            raise StoreError(f"{path} can't be removed: {error}") from error
        return True

    def prune(self, workload: Workload, number: int) -> None:
        """Remove a generation. Raises StoreError."""
        path = self._generations(workload) / str(number)
        try:
            files.remove_folder(path)
        except OSError as error:
            raise StoreError(f"{path} can't be removed: {error}") from error

    def manifest_path(self, workload: Workload) -> Path:
        """The one place for a manifest of this workload. A namespace has no dots, so the name is unambiguous."""
        return self.manifests / f"{MANIFEST_PREFIX}{workload.namespace}.{workload.name}.json"

    def _generations(self, workload: Workload) -> Path:
        return self.folder / "workloads" / f"{workload.namespace}.{workload.name}" / "generations"

    def _workload(self, path: Path) -> Workload:
        namespace, _, name = path.name.partition(".")
        return Workload(namespace, name)

    def _shelf(self, path: Path) -> Shelf:
        records: dict[int, Record] = {}
        damaged: dict[int, str] = {}
        folder = path / "generations"
        for entry in folder.iterdir() if folder.is_dir() else ():
            if not entry.name.isdigit():
                continue
            record = generation.read(entry)
            wrong = "generation.json can't be understood" if record is None else self._damage(entry, record)
            if record is None or wrong:
                damaged[int(entry.name)] = wrong
            else:
                records[record.number] = record
        manifest = self.manifest_path(self._workload(path))
        active = manifest.exists()
        return Shelf(records, damaged, active, self._active_number(manifest, folder, records) if active else None)

    def _damage(self, path: Path, record: Record) -> str:
        if record.number != int(path.name):
            return f"says that it is generation {record.number}"
        stamp = generation.stamp(path)
        known = self._verified.get(path)
        if known is None or known[0] != stamp:
            known = self._verified[path] = (stamp, generation.damage(path, record))
        return known[1]

    def _active_number(self, manifest: Path, folder: Path, records: Mapping[int, Record]) -> int | None:
        content = manifest.read_bytes()
        return next((n for n in records if generation.manifest(folder / str(n)) == content), None)

    def _must_be_ours(self, path: Path) -> None:
        """A file that parses and lacks our label was put there by somebody else; one that doesn't parse is ours,
        damaged.
        """
        try:
            manifest = json.loads(path.read_bytes())
            labels = manifest["metadata"].get("labels") or {}
        except (ValueError, KeyError, TypeError, AttributeError):
            return
        if CHECKPOINT_OF not in labels:
            raise StoreError(f"{path} has our name but not our label {CHECKPOINT_OF}: it is left alone; move it away")
