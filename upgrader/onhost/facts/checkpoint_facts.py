"""The checkpoints on this host: each verified against its own record, and whether its images are still there."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from upgrader.onhost.common.questions import Failed, unknown
from upgrader.onhost.node.cri import Image, Runtime
from upgrader.onhost.node.disk_inventory import Inventory, StoredWorkload
from upgrader.onhost.node.disk_layout import KUBE_APISERVER
from upgrader.onhost.node.generation import NotUnderstood, Record, StoredGeneration, read_record
from upgrader.onhost.node.workload_policy import Workload

if TYPE_CHECKING:
    from collections.abc import Iterator


_PREFIX = "/registry"
"""kube-apiserver's own default (--etcd-prefix), and kubeadm's."""


def workloads(disk: Inventory, root: str, runtime: Runtime) -> list[dict[str, Any]]:
    """All workloads on disk; `root` stands before the paths of the host."""
    return [_workload(disk, root, name, stored, runtime) for name, stored in disk.read().items()]


def stored_keys(disk: Inventory) -> list[str]:
    """The etcd keys of the checkpoints' workloads on this host; unreadable records have none."""
    kinds = {(workload, record.origin.owner_kind.lower()) for workload, record in _records(disk)}
    return sorted(f"{_PREFIX}/{kind}s/{workload}" for workload, kind in kinds if kind)


def ports(disk: Inventory) -> set[int]:
    """The addresses in the manifests of kube-apiserver's generations."""
    found: set[int] = set()
    with contextlib.suppress(OSError):  # reported by `workloads`
        for number in disk.numbers(KUBE_APISERVER):
            manifest = disk.manifest(KUBE_APISERVER, number) or b""
            found.update(int(port) for port in re.findall(rb"--secure-port=(\d{1,5})\b", manifest))
    return found


def _records(disk: Inventory) -> Iterator[tuple[Workload, Record]]:
    for workload in disk.workloads():
        try:
            numbers = disk.numbers(workload)
        except OSError:
            continue  # reported as unreadable by `workloads`
        for number in numbers:
            try:
                yield workload, read_record(disk.generation(workload, number))
            except (OSError, NotUnderstood):
                continue  # reported as damaged by `workloads`


def _workload(disk: Inventory, root: str, name: Workload, stored: StoredWorkload, runtime: Runtime) -> dict[str, Any]:
    path = str(disk.manifest_path(name))[len(root) :]
    found = []
    for number, generation in stored.generations.items():
        folder = str(disk.generation(name, number))[len(root) :]
        failure = stored.failed.get(number, "")
        found.append({"number": number, "folder": folder, "failure": failure, **_generation(generation, runtime)})
    return {
        "name": str(name),
        "policy": next((g["policy"] for g in reversed(found) if g["policy"]), ""),
        "active_path": path,
        "generations": found,
        "marks_unknown": stored.marks_unknown,
        "trouble": stored.trouble[len(root) :] if stored.trouble.startswith(root) else stored.trouble,
        "active": {"path": path, "number": stored.active_number} if stored.active else None,
    }


def _generation(stored: StoredGeneration, runtime: Runtime) -> dict[str, Any]:
    found: dict[str, Any] = {"policy": "", "damage": stored.damage, "images": stored.images, "missing": []}
    record = stored.record
    if record is None:
        return found
    found.update(
        policy=record.policy.value,
        digest=record.digest,
        captured_at=record.origin.captured_at,
        helm_revision=record.origin.helm_revision,
        pod=record.origin.uid,
        template=record.origin.template_hash,
    )
    try:
        found["missing"] = _missing(stored.images, record.images, runtime)
    except (Failed, OSError, ValueError) as error:
        found["missing"] = unknown(str(error))
    return found


def _missing(wanted: Mapping[str, str], recorded: Mapping[str, str], runtime: Runtime) -> list[str]:
    lacking: dict[str, None] = {}
    for container, name in wanted.items():
        there = runtime.image(name)
        if there is None:
            lacking[name] = None
        elif not _same(recorded.get(container, ""), there):
            lacking[f"{name} (there is another image of that name)"] = None
    return list(lacking)


def _same(recorded: str, there: Image) -> bool:
    """Whether an image on the node is the recorded one (by ID or by digest)."""
    if not recorded:
        return True
    known = {there.id, *there.digests, *(d.rpartition("@")[2] for d in there.digests)}
    return recorded in known or recorded.rpartition("@")[2] in known
