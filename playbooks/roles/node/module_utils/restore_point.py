"""What a node had before its upgrade: kept in one folder, and restored from there.

::

    FOLDER/restore-point.json      which files, whose, and the name of their content; replaced by one rename
    FOLDER/content/SHA256          what was in them

The states of a restore point, each written to disk before what follows from it:

- `kept`: an upgrade has begun and changed nothing yet. There is nothing to undo, not even of an earlier upgrade.
- `swapping`: any of the files may be a new one. It stays the point to go back to, whatever upgrade comes next.
- `done`: the upgrade has ended well. It can still be undone, until the next one begins.
- `restored`: everything is back. There is nothing to undo.

So a point is only ever replaced by one of files that are all of one version.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Sequence
from typing import Any

from ansible.module_utils.durable_files import (
    Owner,
    copier,
    remove,
    replace,
    replace_link,
    sha256_of,
    sync_folder,
    text_writer,
)

__all__ = [
    "DONE",
    "KEPT",
    "RESTORED",
    "SWAPPING",
    "UNDOABLE",
    "Unusable",
    "differing",
    "mark",
    "put_back",
    "read",
    "take",
]

KEPT, SWAPPING, DONE, RESTORED = "kept", "swapping", "done", "restored"
UNDOABLE = (SWAPPING, DONE)
_FORMAT = 1
_NAME = "restore-point.json"


class Unusable(Exception):
    """The restore point can't be used. The text says why, and what to do."""


def read(folder: str) -> dict[str, Any] | None:
    """The restore point in a folder, None where there is none. Raises Unusable."""
    if not os.path.isdir(folder):
        return None
    _check_private(folder)
    path = os.path.join(folder, _NAME)
    try:
        with open(path, encoding="utf-8") as stream:
            point: dict[str, Any] = json.load(stream)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise Unusable(f"{path} can't be read: {error}. Restore it from a backup, or remove {folder}.") from error
    if point.get("format_version") != _FORMAT:
        raise Unusable(f"{path} was written by another version of these roles: format {point.get('format_version')}.")
    return point


def take(folder: str, target: str, paths: Iterable[str], more: dict[str, Any], *, dry: bool) -> bool:
    """Keep what is at `paths` before an upgrade to `target`; whether anything was written.

    A point in the state `swapping` is kept as it is: its upgrade was interrupted, and the files in place may be half
    new. Only what it doesn't have yet is added, which no upgrade has touched. So it is with `more`, which is kept
    beside the files.
    """
    before = read(folder)
    interrupted = before if before and before["state"] == SWAPPING else None
    point = interrupted or {"format_version": _FORMAT, "state": KEPT, "files": []}
    point = {**point, **{key: _joined(point.get(key), value) for key, value in more.items()}}
    have = {entry["path"] for entry in point["files"]}
    added = [_now(path) for path in paths if path not in have]
    point = {**point, "target": target, "files": [*point["files"], *added]}
    if point == before:
        return False
    if not dry:
        _make(folder)
        for entry in added:
            _keep(folder, entry)
        _write(folder, point)
        _sweep(folder, point)
    return True


def mark(folder: str, state: str, *, dry: bool) -> bool:
    """Set the state of the point; whether it had another one. Without a point there is nothing to do."""
    point = read(folder)
    if point is None or point["state"] == state:
        return False
    if not dry:
        _write(folder, {**point, "state": state})
    return True


def differing(point: dict[str, Any]) -> list[str]:
    """The paths at which there is something else than in the restore point."""
    return [entry["path"] for entry in point["files"] if _now(entry["path"]) != entry]


def put_back(folder: str, point: dict[str, Any], only: Sequence[str] = (), *, dry: bool) -> list[str]:
    """Put every file back that differs, or of some only; their paths. Nothing is touched where the kept content is
    damaged.

    Raises Unusable.
    """
    changed = [path for path in differing(point) if not only or path in only]
    entries = [entry for entry in point["files"] if entry["path"] in changed]
    for entry in entries:
        if "sha256" in entry and sha256_of(_content(folder, entry["sha256"])) != entry["sha256"]:
            raise Unusable(
                f"the saved copy of {entry['path']} is damaged: {_content(folder, entry['sha256'])} has another"
                " SHA-256. Nothing was restored. Install that file from its source."
            )
    for entry in entries if not dry else []:
        path = entry["path"]
        if "link" in entry:
            replace_link(path, entry["link"])
        elif "sha256" in entry:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            content = copier(_content(folder, entry["sha256"]))
            replace(path, content, Owner(entry["mode"], entry["uid"], entry["gid"]), sha256=entry["sha256"])
        elif remove(path):
            sync_folder(os.path.dirname(path))
    return changed


def _joined(kept: Any, new: Any) -> Any:
    """What is kept, and what of the new it doesn't have."""
    if isinstance(kept, dict) and isinstance(new, dict):
        return {**new, **kept}
    if isinstance(kept, list) and isinstance(new, list):
        return kept + [each for each in new if each not in kept]
    return new if kept is None else kept


def _now(path: str) -> dict[str, Any]:
    """What is at a path: a file, a link, or nothing. Raises Unusable for anything else."""
    if not os.path.isabs(path) or os.path.normpath(path) != path:
        raise Unusable(f"{path} is not an absolute path without '..'.")
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return {"path": path}
    if stat.S_ISLNK(found.st_mode):
        return {"path": path, "link": os.readlink(path)}
    if not stat.S_ISREG(found.st_mode):
        raise Unusable(f"{path} is neither a file nor a link.")
    mode = stat.S_IMODE(found.st_mode)
    return {"path": path, "sha256": sha256_of(path), "mode": mode, "uid": found.st_uid, "gid": found.st_gid}


def _keep(folder: str, entry: dict[str, Any]) -> None:
    if "sha256" in entry and sha256_of(_content(folder, entry["sha256"])) != entry["sha256"]:
        content, owner = _content(folder, entry["sha256"]), Owner(0o600, os.geteuid(), os.getegid())
        replace(content, copier(entry["path"]), owner, sha256=entry["sha256"])


def _content(folder: str, sha256: str) -> str:
    if not sha256.isalnum():
        raise Unusable(f"{os.path.join(folder, _NAME)} names invalid content: {sha256!r}.")
    return os.path.join(folder, "content", sha256)


def _make(folder: str) -> None:
    os.makedirs(os.path.dirname(folder), mode=0o755, exist_ok=True)
    for path in (folder, os.path.join(folder, "content")):
        if not os.path.isdir(path):
            os.mkdir(path, 0o700)
            sync_folder(os.path.dirname(path))
    _check_private(folder)


def _check_private(folder: str) -> None:
    """The content will be copied to /usr/bin, so only root may have written it. Raises Unusable."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise Unusable(f"{folder} must be a folder that only root can write. Look at what is in it, then remove it.")


def _write(folder: str, point: dict[str, Any]) -> None:
    text = json.dumps(point, indent=1, sort_keys=True) + "\n"
    replace(os.path.join(folder, _NAME), text_writer(text), Owner(0o600, os.geteuid(), os.getegid()))


def _sweep(folder: str, point: dict[str, Any]) -> None:
    """Remove the content that no file of the point has: that of earlier points."""
    needed = {entry.get("sha256") for entry in point["files"]}
    for name in os.listdir(os.path.join(folder, "content")):
        if name not in needed:
            remove(os.path.join(folder, "content", name))
