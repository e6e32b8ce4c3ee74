"""The node's disk: generations of every workload, and our manifests among those that the kubelet reads.

The store belongs to the node, not to a pod: it outlives every instance of the checkpointer. Everything lies below one
folder (/etc/kubernetes), which must be one mount, as files are put in place by renaming them.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from upgrader.checkpointer import files, generation
from upgrader.checkpointer.errors import StoreError
from upgrader.checkpointer.generation import Origin, Record
from upgrader.checkpointer.model import Generation, Holding, Policy, Workload
from upgrader.checkpointer.names import CHECKPOINT_OF, MANIFEST_PREFIX
from upgrader.checkpointer.sanitise import Candidate


@dataclass(frozen=True)
class Shelf:
    """One workload on disk. ``records`` by generation number; ``damaged``: number → what is wrong with it; ``failed``:
    number → why its copy counts as failed; ``images``: number → the images that its containers name; ``trouble``: why
    nothing is known of it, as its folder can't be read. ``active_containers``: names in the manifest in place.
    """

    records: Mapping[int, Record]
    damaged: Mapping[int, str]
    active: bool
    active_number: int | None
    failed: Mapping[int, str] = field(default_factory=dict)
    images: Mapping[int, frozenset[str]] = field(default_factory=dict)
    active_containers: tuple[str, ...] = ()
    trouble: str = ""

    @property
    def newest(self) -> Record | None:
        """The record of the last-known-good."""
        last = self.holding({}).last_good
        return self.records[last.number] if last else None

    def holding(self, present: Mapping[str, bool]) -> Holding:
        """What the decision needs to know. ``present``: image → whether the node has it; may lack some."""
        good = [
            Generation(n, r.digest, images=self._has_images(n, present), failed=n in self.failed)
            for n, r in self.records.items()
        ]
        bad = [Generation(n, "", intact=False) for n in self.damaged]
        policy = self.records[max(self.records)].policy if self.records else Policy.API_AWAY
        return Holding(policy, tuple(sorted([*good, *bad], key=lambda g: g.number)), self.active, self.active_number)

    def _has_images(self, number: int, present: Mapping[str, bool]) -> bool | None:
        found = [present.get(image) for image in self.images.get(number, frozenset())]
        return False if False in found else None if None in found or not found else True


@dataclass
class Store:
    """``root`` is /etc/kubernetes. Not safe for two writers: hold the lock."""

    root: Path
    _verified: dict[Path, tuple[object, str, frozenset[str]]] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """Where everything but the active manifests lies."""
        return self.root / "checkpointer"

    @property
    def manifests(self) -> Path:
        """Where the kubelet reads static pods."""
        return self.root / "manifests"

    @property
    def change_lock(self) -> Path:
        """Held by whoever changes files just now."""
        return self.folder / "change"

    def prepare(self) -> tuple[str, ...]:
        """Make the folders that are missing, and clear away what an interrupted pass left. What could not be done is
        returned in words: none of it stops the work on what is there.
        """
        return tuple(self._prepare())

    def _prepare(self) -> Iterator[str]:
        for folder in (self.folder, self._workloads, self.manifests):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                yield f"{folder} can't be made: {error}"
        for folder in (self.manifests, *self._folders()):
            try:
                if folder == self.manifests:
                    for temporary in folder.glob(f"{files.TEMPORARY}{MANIFEST_PREFIX}*"):
                        temporary.unlink()
                elif (folder / "generations").is_dir():
                    files.sweep(folder)
                    files.sweep(folder / "generations")
            except OSError as error:
                yield f"{folder} can't be cleared up: {error}"

    def read(self) -> dict[Workload, Shelf]:
        """All workloads on disk, every generation verified. A workload whose folder can't be read has a shelf that says
        so. Raises StoreError when not even their names can be read.
        """
        try:
            return {self._workload(p): self._shelf(p) for p in self._folders()}
        except OSError as error:
            raise StoreError(f"{self._workloads} can't be read: {error}") from error

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
            self._put(path, wanted, self._generations(workload) / str(number))
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

    def mark_failed(self, workload: Workload, number: int, reason: str) -> None:
        """Remember that this generation's copy didn't stay up, so that another one is preferred. Raises StoreError."""
        self._write_failed(workload, {**self._failed(workload), number: reason})

    def clear_failed(self, workload: Workload, number: int) -> None:
        """Forget it: a person wants it tried again. Raises StoreError."""
        failed = self._failed(workload)
        if failed.pop(number, None) is not None:
            self._write_failed(workload, failed)

    def static_pod(self, workload: Workload, number: int) -> Mapping[str, Any]:
        """The static pod of a generation. Raises StoreError."""
        try:
            pod: Mapping[str, Any] = json.loads(generation.manifest(self._generations(workload) / str(number)))
        except ValueError as error:
            raise StoreError(f"the manifest of generation {number} of {workload} is not JSON") from error
        return pod

    def manifest_path(self, workload: Workload) -> Path:
        """The one place for a manifest of this workload. A namespace has no dots, so the name is unambiguous."""
        return self.manifests / f"{MANIFEST_PREFIX}{workload.namespace}.{workload.name}.json"

    def _generations(self, workload: Workload) -> Path:
        return self.folder / "workloads" / f"{workload.namespace}.{workload.name}" / "generations"

    def _workload(self, path: Path) -> Workload:
        namespace, _, name = path.name.partition(".")
        return Workload(namespace, name)

    @property
    def _workloads(self) -> Path:
        return self.folder / "workloads"

    def _folders(self) -> list[Path]:
        return sorted(p for p in self._workloads.iterdir() if p.is_dir()) if self._workloads.exists() else []

    def _put(self, path: Path, content: bytes, source: Path) -> None:
        try:
            files.replace(path, content)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # A full disk is no reason to stay without an API.
            files.link_over(path, source / generation.MANIFEST)

    def _failed(self, workload: Workload) -> dict[int, str]:
        """What is marked as failed. A file that can't be understood says nothing: then the newest is tried again."""
        try:
            found = json.loads(self._failed_path(workload).read_bytes())
            return {int(number): str(reason) for number, reason in found.items()}
        except (OSError, ValueError, AttributeError):
            return {}

    def _write_failed(self, workload: Workload, failed: Mapping[int, str]) -> None:
        path = self._failed_path(workload)
        try:
            kept = {
                str(n): reason for n, reason in sorted(failed.items()) if (path.parent / f"generations/{n}").exists()
            }
            files.replace(path, (json.dumps(kept, indent=1) + "\n").encode())
        except OSError as error:
            raise StoreError(f"{path} can't be written: {error}") from error

    def _failed_path(self, workload: Workload) -> Path:
        return self._generations(workload).parent / "failed.json"

    def _shelf(self, path: Path) -> Shelf:
        try:
            return self._read_shelf(path)
        except (OSError, StoreError) as error:
            manifest = self.manifest_path(self._workload(path))
            return Shelf({}, {}, active=manifest.exists(), active_number=None, trouble=f"{path} can't be read: {error}")

    def _read_shelf(self, path: Path) -> Shelf:
        images: dict[int, frozenset[str]] = {}
        records: dict[int, Record] = {}
        damaged: dict[int, str] = {}
        folder = path / "generations"
        for entry in folder.iterdir() if folder.is_dir() else ():
            if not entry.name.isdigit():
                continue
            number = int(entry.name)
            try:
                record = generation.read(entry)
                wrong, images[number] = self._inspect(entry, record)
            except (OSError, StoreError) as error:
                record, wrong = None, f"can't be read: {error}"
            if record is None or wrong:
                damaged[number] = wrong
            else:
                records[number] = record
        workload = self._workload(path)
        active = self.manifest_path(workload).exists()
        active_number = self._active_number(workload, sorted({*records, *damaged}, reverse=True)) if active else None
        names: tuple[str, ...] = ()
        if active_number is not None:
            names = tuple(c["name"] for c in self.static_pod(workload, active_number)["spec"]["containers"])
        return Shelf(records, damaged, active, active_number, self._failed(workload), images, names)

    def _inspect(self, path: Path, record: Record | None) -> tuple[str, frozenset[str]]:
        """What is wrong with a generation (empty: nothing), and the images that it names."""
        if record is None:
            return "generation.json can't be understood", frozenset()
        if record.number != int(path.name):
            return f"says that it is generation {record.number}", frozenset()
        stamp = generation.stamp(path)
        known = self._verified.get(path)
        if known is None or known[0] != stamp:
            wrong = generation.damage(path, record)
            known = self._verified[path] = (stamp, wrong, frozenset() if wrong else generation.images(path))
        return known[1], known[2]

    def _active_number(self, workload: Workload, numbers: list[int]) -> int | None:
        """The generation whose manifest is in place, byte for byte, be its other files damaged or not."""
        content = self.manifest_path(workload).read_bytes()
        for number in numbers:
            path = self._generations(workload) / str(number)
            try:
                if generation.manifest(path) == content:
                    return number
            except StoreError:
                continue
        return None

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
