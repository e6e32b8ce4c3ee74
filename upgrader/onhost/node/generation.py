"""One generation on disk: its record, and whether its files are unchanged.

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

from upgrader.onhost.node.workload_policy import Policy

RECORD, MANIFEST, VOLUMES = "generation.json", "manifest.json", "volumes"
_SCHEMA = 1


class NotUnderstood(ValueError):
    """A file of a generation is damaged, or of a later version; the message names it."""


@dataclass(frozen=True)
class Origin:
    """Where a generation came from. `captured_at`: RFC 3339, UTC. `owner_kind`, `helm_release`, `helm_revision`,
    `template_hash`: empty when unknown. The revision is a hint: it's the one that was rolled out completely when the
    generation was captured, and later ones may have the same content.
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
    """`generation.json`. `images`: container → ID of the image that ran; `entries`: path relative to the generation →
    checksum, mode, uid and gid.
    """

    number: int
    digest: str
    policy: Policy
    lease: str
    origin: Origin
    images: Mapping[str, str]
    containers: tuple[str, ...]
    entries: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The file's content."""
        return encode({"schema": _SCHEMA, **asdict(self), "policy": self.policy.value})

    @classmethod
    def parse(cls, content: bytes) -> Record:
        """From the file's content. Raises NotUnderstood."""
        try:
            raw = json.loads(content)
            schema = raw.pop("schema")
            if schema == _SCHEMA:
                read = {
                    "policy": Policy(raw["policy"]),
                    "origin": Origin(**raw["origin"]),
                    "images": dict(raw["images"]),
                    "containers": tuple(raw["containers"]),
                    "entries": dict(raw["entries"]),
                }
                return cls(**{**raw, **read})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise NotUnderstood(f"{RECORD} can't be parsed") from error
        raise NotUnderstood(f"{RECORD} has the unsupported format {schema}")


@dataclass(frozen=True)
class StoredGeneration:
    """A generation as it is on disk. `record` is None if it can't be parsed. `damage`: what is wrong with it, empty
    when every file is as recorded. `images`: container → image, for all that its pod names.
    """

    record: Record | None
    damage: str = ""
    images: Mapping[str, str] = field(default_factory=dict)


def read(folder: Path) -> StoredGeneration:
    """A generation, verified. Raises OSError."""
    try:
        record = read_record(folder)
    except NotUnderstood as error:
        return StoredGeneration(None, str(error))
    damage = _damage(folder, record)
    try:
        spec = json.loads((folder / MANIFEST).read_bytes())["spec"]
        images = {c["name"]: c["image"] for c in [*spec.get("initContainers", []), *spec["containers"]]}
    except FileNotFoundError:
        return StoredGeneration(record, damage)
    except (ValueError, KeyError, TypeError, AttributeError):
        return StoredGeneration(record, damage or f"{MANIFEST} can't be parsed")
    return StoredGeneration(record, damage, images)


def read_record(folder: Path) -> Record:
    """A generation's own record. Raises NotUnderstood, OSError."""
    try:
        return Record.parse((folder / RECORD).read_bytes())
    except FileNotFoundError as error:
        raise NotUnderstood(f"{RECORD} is missing") from error


def fingerprints(folder: Path) -> dict[str, dict[str, Any]]:
    """`Record.entries` of the files as they are now. Raises OSError."""
    found = {str(p.relative_to(folder)): p for p in _entries(folder)}
    return {name: _fingerprint(path) for name, path in found.items() if name != RECORD}


def stamp(folder: Path) -> tuple[object, ...]:
    """Changes whenever a file of the generation may have changed: a cheap stand-in for reading them all."""
    stamps = []
    for entry in [folder, *_entries(folder)]:
        s = entry.lstat()
        stamps.append((str(entry), s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns))
    return tuple(stamps)


def encode(value: Mapping[str, Any]) -> bytes:
    """JSON as all files of a generation have it."""
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


def _damage(folder: Path, record: Record) -> str:
    """What is wrong with a generation's files; empty when everything is as recorded."""
    if record.number != int(folder.name):
        return f"its record names generation {record.number}"
    found = fingerprints(folder)
    for name in sorted(record.entries.keys() - found.keys()):
        return f"{name} is missing"
    for name in sorted(found.keys() - record.entries.keys()):
        return f"{name} was added"
    return next((f"{name} was changed" for name in sorted(found) if found[name] != record.entries[name]), "")


def _entries(folder: Path) -> list[Path]:
    found: list[Path] = []
    for path, folders, names in os.walk(folder):
        found += [Path(path) / name for name in (*folders, *names)]
    return sorted(found)


def _fingerprint(path: Path) -> dict[str, Any]:
    s = path.lstat()
    checksum = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
    return {"sha256": checksum, "mode": s.st_mode, "uid": s.st_uid, "gid": s.st_gid}
