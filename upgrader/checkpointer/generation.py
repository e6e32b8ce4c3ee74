"""One generation on disk: how it is written, read and verified.

::

    <number>/generation.json     what it is, and a checksum of everything below
             manifest.json       the static pod, with absolute paths into volumes/
             volumes/<volume>/…  Secrets' and ConfigMaps' files, owned as the pod needs them
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from upgrader.checkpointer import files
from upgrader.checkpointer.errors import StoreError
from upgrader.checkpointer.model import Policy
from upgrader.checkpointer.sanitise import Candidate

_SCHEMA = 1
_RECORD, _VOLUMES = "generation.json", "volumes"
MANIFEST = "manifest.json"
"""File name of the static pod."""


@dataclass(frozen=True)
class Origin:
    """Where a generation came from. ``captured_at``: RFC 3339, UTC. ``owner_kind``, ``helm_release``,
    ``helm_revision``, ``template_hash``: empty when unknown. The revision is a hint: it's the one that was rolled out
    completely when the generation was captured, and later ones may have the same content.
    """

    pod: str
    uid: str
    node: str
    template_hash: str
    helm_revision: str
    captured_at: str
    owner_kind: str = ""
    helm_release: str = ""


@dataclass(frozen=True)
class Record:
    """``generation.json``. ``entries``: path relative to the generation → checksum, mode, uid and gid."""

    number: int
    digest: str
    policy: Policy
    lease: str
    origin: Origin
    images: Mapping[str, str]
    containers: tuple[str, ...]
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def write(folder: Path, number: int, candidate: Candidate, policy: Policy, lease: str, origin: Origin) -> None:
    """Write a generation; it appears under its number whole, or not at all. ``folder``: the workload's generations/."""
    final, draft = folder / str(number), folder / f"{files.TEMPORARY}{number}"
    files.make_folder(draft)
    files.make_folder(draft / _VOLUMES)
    for volume in candidate.volumes:
        if volume.spec is None:
            files.make_folder(
                draft / _VOLUMES / volume.name, volume.owner.folder_mode, volume.owner.uid, volume.owner.gid
            )
    for file in candidate.files:
        _make_parents(draft / _VOLUMES, Path(file.path), file.owner.folder_mode, file.owner.uid, file.owner.gid)
        files.write(draft / _VOLUMES / file.path, file.content, file.mode, file.owner.uid, file.owner.gid)
    manifest = candidate.placed(str(final / _VOLUMES), number)
    files.write(draft / MANIFEST, _encode(manifest), 0o600)
    record = Record(
        number=number,
        digest=candidate.digest,
        policy=policy,
        lease=lease,
        origin=origin,
        images=candidate.images,
        containers=tuple(c["name"] for c in manifest["spec"]["containers"]),
        entries={str(p.relative_to(draft)): _fingerprint(p) for p in _entries(draft)},
    )
    files.write(draft / _RECORD, _encode({"schema": _SCHEMA, **asdict(record), "policy": policy.value}), 0o600)
    files.sync_tree(draft)
    draft.rename(final)
    files.sync_folder(folder)


def read(path: Path) -> Record | None:
    """The record of the generation in ``path``; None when it can't be understood (damaged, or of a later version)."""
    try:
        raw = json.loads((path / _RECORD).read_bytes())
        if raw.pop("schema") != _SCHEMA:
            return None
        return Record(
            **{
                **raw,
                "policy": Policy(raw["policy"]),
                "origin": Origin(**raw["origin"]),
                "containers": tuple(raw["containers"]),
            }
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        return None
    except OSError as error:
        raise StoreError(f"{path / _RECORD} can't be read: {error}") from error


def manifest(path: Path) -> bytes:
    """The static pod of the generation in ``path``, byte for byte."""
    try:
        return (path / MANIFEST).read_bytes()
    except OSError as error:
        raise StoreError(f"{path / MANIFEST} can't be read: {error}") from error


def images(path: Path) -> frozenset[str]:
    """The images that the static pod of an intact generation names."""
    spec = json.loads(manifest(path))["spec"]
    return frozenset(c["image"] for c in [*spec.get("initContainers", []), *spec["containers"]])


def damage(path: Path, record: Record) -> str:
    """What is wrong with a generation's files; empty when everything is as recorded."""
    found = {str(p.relative_to(path)): p for p in _entries(path) if p.name != _RECORD or p.parent != path}
    for name in sorted(record.entries.keys() - found.keys()):
        return f"{name} is missing"
    for name in sorted(found.keys() - record.entries.keys()):
        return f"{name} was added"
    for name, entry in found.items():
        if _fingerprint(entry) != record.entries[name]:
            return f"{name} was changed"
    return ""


def stamp(path: Path) -> tuple[tuple[str, int, int, int, int], ...]:
    """Changes whenever a file of the generation may have changed: a cheap stand-in for reading them all."""
    stamps = []
    for entry in [path, *_entries(path)]:
        s = entry.lstat()
        stamps.append((str(entry), s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns))
    return tuple(stamps)


def _entries(folder: Path) -> list[Path]:
    found: list[Path] = []
    for path, folders, names in os.walk(folder):
        found += [Path(path) / name for name in (*folders, *names)]
    return sorted(found)


def _fingerprint(path: Path) -> dict[str, Any]:
    s = path.lstat()
    checksum = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
    return {"sha256": checksum, "mode": s.st_mode, "uid": s.st_uid, "gid": s.st_gid}


def _make_parents(root: Path, path: Path, mode: int, uid: int, gid: int) -> None:
    for parent in reversed(path.parents[:-1]):
        if not (root / parent).exists():
            files.make_folder(root / parent, mode, uid, gid)


def _encode(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()
