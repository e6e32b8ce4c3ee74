"""Writes a node's disk: generations of every workload, and our manifests among those that the kubelet reads.

The store belongs to the node, not to a pod: it outlives every instance of the checkpointer.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upgrader.contract.checkpoints import CHECKPOINT_OF, MANIFEST_PREFIX
from upgrader.in_cluster.checkpointer.checkpointer_errors import StoreError
from upgrader.in_cluster.checkpointer.static_pods.sanitise import Candidate
from upgrader.in_cluster.checkpointer.storage import files, generation_writer
from upgrader.onhost.node.disk_inventory import Inventory, StoredWorkload
from upgrader.onhost.node.disk_layout import is_foreign
from upgrader.onhost.node.generation import MANIFEST, Origin
from upgrader.onhost.node.workload_policy import Policy, Workload

MOST_BYTES = 64 * 2**20
"""Bytes of all generations on a node: they share a file system with what etcd and the kubelet need."""


@dataclass(frozen=True)
class Store(Inventory):
    """`root` is /etc/kubernetes. Not safe for two writers: hold the lock."""

    @property
    def change_lock(self) -> Path:
        """Held by the process that changes files just now."""
        return self.folder / "change"

    def prepare(self) -> tuple[str, ...]:
        """Make the folders that are missing, and remove the remains of an interrupted pass. What could not be done is
        returned in words: none of it stops the work on what is there.
        """
        return tuple(self._prepare())

    def _prepare(self) -> Iterator[str]:
        for folder in (self.folder, self.workloads_folder, self.manifests):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                yield f"{folder} can't be created: {error}"
        try:
            found = self.workloads()
        except OSError as error:
            yield f"{self.workloads_folder} can't be read: {error}"
            found = []
        for folder in (self.manifests, self.workloads_folder, *map(self.workload_folder, found)):
            try:
                if folder == self.manifests:
                    for temporary in folder.glob(f"{files.TEMPORARY}{MANIFEST_PREFIX}*"):
                        temporary.unlink()
                elif folder == self.workloads_folder:
                    files.sweep(folder)
                elif (folder / "generations").is_dir():
                    files.sweep(folder)
                    files.sweep(folder / "generations")
            except OSError as error:
                yield f"{folder} can't be cleaned up: {error}"

    def read(self) -> dict[Workload, StoredWorkload]:
        """See `Inventory`. Raises StoreError."""
        try:
            return super().read()
        except OSError as error:
            raise StoreError(f"{self.workloads_folder} can't be read: {error}") from error

    def capture(self, candidate: Candidate, policy: Policy, lease: str, origin: Origin) -> int:
        """Write a new generation; its number. Raises StoreError."""
        folder = self.generations(candidate.workload)
        size = candidate.size + self._size()
        if size > MOST_BYTES:
            raise StoreError(
                f"a generation of {candidate.workload} can't be written: with it, the checkpoints on this node would "
                f"take {size} bytes, more than {MOST_BYTES}; keep fewer workloads"
            )
        try:
            for missing in (folder.parent, folder):
                missing.mkdir(mode=0o700, exist_ok=True)
            files.sync_folder(folder.parent)
            files.sync_folder(folder.parent.parent)
            files.sweep(folder)
            number = max(self.numbers(candidate.workload), default=0) + 1
            generation_writer.write(folder, number, candidate, policy, lease, origin)
        except OSError as error:
            raise StoreError(f"a generation of {candidate.workload} can't be written to {folder}: {error}") from error
        return number

    def activate(self, workload: Workload, number: int) -> bool:
        """Have the kubelet read this generation's manifest; whether anything had to be changed. Raises StoreError."""
        wanted = self._manifest_of(workload, number)
        path = self.manifest_path(workload)
        try:
            if path.exists():
                self._must_be_ours(path)
                if path.read_bytes() == wanted:
                    return False
            self._put(path, wanted, self.generation(workload, number))
        except OSError as error:
            raise StoreError(f"{path} can't be written: {error}") from error
        return True

    def deactivate(self, workload: Workload) -> bool:
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
        path = self.generation(workload, number)
        try:
            files.remove_folder(path)
        except OSError as error:
            raise StoreError(f"{path} can't be removed: {error}") from error

    def forget(self, workload: Workload) -> None:
        """Remove all that is kept of a workload, its manifest first. Raises StoreError."""
        self.deactivate(workload)
        path = self.workload_folder(workload)
        try:
            files.remove_folder(path)
        except OSError as error:
            raise StoreError(f"{path} can't be removed: {error}") from error

    def mark_failed(self, workload: Workload, number: int, reason: str) -> None:
        """Remember that this generation's standby pod didn't stay up, so that another one is preferred. Raises
        StoreError.
        """
        self._write_failed(workload, {**self.read_failed(workload)[0], number: reason})

    def clear_failed(self, workload: Workload, number: int) -> None:
        """Forget it: an operator wants it tried again. Raises StoreError."""
        failed, _ = self.read_failed(workload)
        if failed.pop(number, None) is not None:
            self._write_failed(workload, failed)

    def static_pod(self, workload: Workload, number: int) -> Mapping[str, Any]:
        """The static pod of a generation. Raises StoreError."""
        try:
            pod: Mapping[str, Any] = json.loads(self._manifest_of(workload, number))
        except ValueError as error:
            raise StoreError(f"the manifest of generation {number} of {workload} is not JSON") from error
        return pod

    def _size(self) -> int:
        """Bytes in all generations. Files that go meanwhile count nothing."""
        total = 0
        for path, _, names in os.walk(self.workloads_folder):
            for name in names:
                with contextlib.suppress(OSError):
                    total += os.lstat(os.path.join(path, name)).st_size
        return total

    def _put(self, path: Path, content: bytes, source: Path) -> None:
        try:
            files.replace(path, content)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # A full disk is no reason to stay without an API.
            files.link_over(path, source / MANIFEST)

    def _write_failed(self, workload: Workload, failed: Mapping[int, str]) -> None:
        path = self.failed_path(workload)
        try:
            kept = {
                str(n): reason for n, reason in sorted(failed.items()) if (path.parent / f"generations/{n}").exists()
            }
            files.replace(path, (json.dumps(kept, indent=1) + "\n").encode())
        except OSError as error:
            raise StoreError(f"{path} can't be written: {error}") from error

    def _manifest_of(self, workload: Workload, number: int) -> bytes:
        path = self.generation(workload, number) / MANIFEST
        try:
            return path.read_bytes()
        except OSError as error:
            raise StoreError(f"{path} can't be read: {error}") from error

    def _must_be_ours(self, path: Path) -> None:
        if is_foreign(path.read_bytes()):
            raise StoreError(
                f"{path} has the name of a standby pod's manifest, but not the label {CHECKPOINT_OF}; it was not "
                "changed: check that file, and move it out of the folder"
            )
