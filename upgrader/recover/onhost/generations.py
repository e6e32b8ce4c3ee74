"""The checkpoints on this host: each verified against its own record, and whether its images are still there.

The layout is the pod-checkpointer's (`upgrader/checkpointer/generation.py`); a test holds the two together.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from typing import Any

from .probe import Failed, read, unknown

_WORKLOADS = "/etc/kubernetes/checkpointer/workloads"
_MANIFESTS = "/etc/kubernetes/manifests"
_PREFIX = "/registry"
"""kube-apiserver's own default (--etcd-prefix), and kubeadm's."""

_SCHEMA = 1
Images = Callable[[str], "dict[str, Any]"]


def workloads(root: str, images: Images) -> list[dict[str, Any]]:
    """All workloads on disk; `images` asks the runtime for one."""
    folder = root + _WORKLOADS
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return [_workload(root, name, images) for name in names if "." in name and not name.startswith(".")]


def stored(root: str) -> list[str]:
    """The keys in etcd of what the checkpoints on this host were made of; records that can't be read have none."""
    folder = root + _WORKLOADS
    found = set()
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        namespace, _, workload = name.partition(".")
        generations = f"{folder}/{name}/generations"
        for number in os.listdir(generations) if os.path.isdir(generations) else []:
            try:
                kind = json.loads(read(f"{generations}/{number}/generation.json"))["origin"].get("owner_kind", "")
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                continue  # told as damaged by `workloads`
            if kind:
                found.add(f"{_PREFIX}/{kind.lower()}s/{namespace}/{workload}")
    return sorted(found)


def _workload(root: str, name: str, images: Images) -> dict[str, Any]:
    folder = f"{_WORKLOADS}/{name}/generations"
    numbers = sorted(int(n) for n in os.listdir(root + folder) if n.isdigit()) if os.path.isdir(root + folder) else []
    found = [_generation(root, f"{folder}/{number}", number, images) for number in numbers]
    path = f"{_MANIFESTS}/checkpoint-{name}.json"
    active = None
    if os.path.exists(root + path):
        content = read(root + path)
        equal = [g["number"] for g in found if _content(root, f"{g['folder']}/manifest.json") == content]
        active = {"path": path, "number": equal[-1] if equal else None}
    newest = next((g["policy"] for g in reversed(found) if g["policy"]), "")
    namespace, _, workload = name.partition(".")
    return {
        "name": f"{namespace}/{workload}",
        "policy": newest,
        "active_path": path,
        "generations": found,
        "active": active,
    }


def _content(root: str, path: str) -> bytes:
    try:
        return read(root + path)
    except OSError:
        return b""


def _generation(root: str, folder: str, number: int, images: Images) -> dict[str, Any]:
    found: dict[str, Any] = {"number": number, "folder": folder, "policy": "", "images": {}}
    try:
        record = json.loads(read(f"{root}{folder}/generation.json"))
        if record["schema"] != _SCHEMA:
            return dict(found, damage=f"is of format {record['schema']}, which is not known here", missing=[])
        recorded = dict(record["images"])
        found.update(
            policy=record["policy"],
            digest=record["digest"],
            captured_at=record["origin"]["captured_at"],
            helm_revision=record["origin"].get("helm_revision", ""),
            damage=_damage(root + folder, record),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it can't be understood"
        return dict(found, damage=f"generation.json: {why}", missing=[])
    try:
        spec = json.loads(read(f"{root}{folder}/manifest.json"))["spec"]
        wanted = {c["name"]: c["image"] for c in [*spec.get("initContainers", []), *spec["containers"]]}
    except (OSError, ValueError, KeyError, TypeError):
        return dict(found, damage=found["damage"] or "manifest.json can't be understood", missing=[])
    found["images"] = wanted
    try:
        found["missing"] = _missing(wanted, recorded, images)
    except (Failed, OSError) as error:
        found["missing"] = unknown(str(error))
    return found


def _missing(wanted: dict[str, str], recorded: dict[str, str], images: Images) -> list[str]:
    lacking: dict[str, None] = {}
    for container, name in wanted.items():
        there = images(name)
        if not there:
            lacking[name] = None
        elif not _same(recorded.get(container, ""), there):
            lacking[f"{name} (there is another image of that name)"] = None
    return list(lacking)


def _same(recorded: str, there: dict[str, Any]) -> bool:
    """Whether an image on the node is the one that was recorded, which is by ID or by digest."""
    if not recorded:
        return True
    known = {there["id"], *there["digests"], *(d.rpartition("@")[2] for d in there["digests"])}
    return recorded in known or recorded.rpartition("@")[2] in known


def _damage(folder: str, record: dict[str, Any]) -> str:
    if record["number"] != int(os.path.basename(folder)):
        return f"says that it is generation {record['number']}"
    entries = record["entries"]
    found = {}
    for path, folders, names in os.walk(folder):
        for name in folders + names:
            relative = os.path.relpath(os.path.join(path, name), folder)
            if relative != "generation.json":
                found[relative] = os.path.join(path, name)
    for name in sorted(set(entries) - set(found)):
        return f"{name} is missing"
    for name in sorted(set(found) - set(entries)):
        return f"{name} was added"
    for name, path in sorted(found.items()):
        if _fingerprint(path) != entries[name]:
            return f"{name} was changed"
    return ""


def _fingerprint(path: str) -> dict[str, Any]:
    status = os.lstat(path)
    checksum = ""
    if os.path.isfile(path) and not os.path.islink(path):
        with open(path, "rb") as file:
            checksum = hashlib.sha256(file.read()).hexdigest()
    return {"sha256": checksum, "mode": status.st_mode, "uid": status.st_uid, "gid": status.st_gid}
