"""Writes a generation; `upgrader.onhost.node.generation` has its layout, and reads it."""

from __future__ import annotations

from pathlib import Path

from upgrader.in_cluster.checkpointer.static_pods.sanitise import Candidate
from upgrader.in_cluster.checkpointer.storage import files
from upgrader.onhost.node.generation import MANIFEST, RECORD, VOLUMES, Origin, Record, encode, fingerprints
from upgrader.onhost.node.workload_policy import Policy


def write(folder: Path, number: int, candidate: Candidate, policy: Policy, lease: str, origin: Origin) -> None:
    """Write a generation; it appears under its number whole, or not at all. `folder`: the workload's generations/."""
    final, draft = folder / str(number), folder / f"{files.TEMPORARY}{number}"
    files.make_folder(draft)
    files.make_folder(draft / VOLUMES)
    for volume in candidate.volumes:
        if volume.spec is None:
            files.make_folder(
                draft / VOLUMES / volume.name, volume.owner.folder_mode, volume.owner.uid, volume.owner.gid
            )
    for file in candidate.files:
        _make_parents(draft / VOLUMES, Path(file.path), file.owner.folder_mode, file.owner.uid, file.owner.gid)
        files.write(draft / VOLUMES / file.path, file.content, file.mode, file.owner.uid, file.owner.gid)
    manifest = candidate.placed(str(final / VOLUMES), number)
    files.write(draft / MANIFEST, encode(manifest), 0o600)
    record = Record(
        number=number,
        digest=candidate.digest,
        policy=policy,
        lease=lease,
        origin=origin,
        images=candidate.images,
        containers=tuple(c["name"] for c in manifest["spec"]["containers"]),
        entries=fingerprints(draft),
    )
    files.write(draft / RECORD, record.encode(), 0o600)
    files.sync_tree(draft)
    draft.rename(final)
    files.sync_folder(folder)


def _make_parents(root: Path, path: Path, mode: int, uid: int, gid: int) -> None:
    for parent in reversed(path.parents[:-1]):
        if not (root / parent).exists():
            files.make_folder(root / parent, mode, uid, gid)
