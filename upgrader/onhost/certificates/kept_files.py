"""The files of a controller's certificates, saved before they are renewed, and restored from there byte for byte.

::

    FOLDER/point.json        which files, whose, and the name of their content; replaced by one rename
    FOLDER/content/SHA256    what was in them: keys too, so that only root may enter the folder

The states of a point, each on the disk before what follows from it:

- `renewing`: any of the files may be a new one. A power cut may have come between a key and its certificate.
- `done`: all are new. `restored`: all are as they were.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import stat
from typing import Any

from upgrader.contract.durable_files import rewrite, sync_folder, write
from upgrader.onhost.certificates.renewed_by_kubeadm import fault
from upgrader.onhost.common.private_folder import make_private
from upgrader.onhost.common.questions import Failed

__all__ = ["DONE", "forget", "install", "keep", "mark", "mend", "owner_of", "put_back", "unfinished"]

RENEWING, DONE, RESTORED = "renewing", "done", "restored"
_FORMAT = 1


def keep(folder: str, renewal: str, names: dict[str, list[str]]) -> None:
    """Save these names' current files for one renewal; the point is `renewing` when this returns."""
    content = os.path.join(folder, "content")
    make_private(content)
    files = []
    for path in (path for paths in names.values() for path in paths):
        real = os.path.realpath(path)
        with open(real, "rb") as file:
            data, found = file.read(), os.fstat(file.fileno())
        digest = hashlib.sha256(data).hexdigest()
        write(os.path.join(content, digest), data)
        files.append({"path": path, "real": real, "sha256": digest, "mtime_ns": found.st_mtime_ns, **owner_of(found)})
    sync_folder(content)
    point = {"format_version": _FORMAT, "renewal": renewal, "state": RENEWING, "names": names, "files": files}
    _store(folder, point)
    for name in os.listdir(content):
        if name not in {each["sha256"] for each in files}:
            os.unlink(os.path.join(content, name))


def mark(folder: str, state: str) -> None:
    """Set the point's state."""
    point = _read(folder)
    if point is not None:
        _store(folder, {**point, "state": state})


def mend(folder: str) -> list[str]:
    """After an interruption: restore unusable files, such as a key without its certificate; returns the names.

    The others stay as they are, old or new.
    """
    point = _read(folder)
    if point is None or point["state"] != RENEWING:
        return []
    broken = [name for name, paths in point["names"].items() if fault(paths)]
    for name in broken:
        _restore(folder, [each for each in point["files"] if each["path"] in point["names"][name]])
    return broken


def unfinished(folder: str) -> str:
    """The name given to `keep` for the renewal that was interrupted while it wrote; "" if there is none."""
    point = _read(folder)
    return str(point["renewal"]) if point is not None and point["state"] == RENEWING else ""


def put_back(folder: str, renewal: str) -> list[str]:
    """Restore every file that this renewal has changed; returns their paths. Raises Failed if a saved one is damaged.

    Does nothing if it changed none: the saved files then are an earlier renewal's, and may have expired.
    """
    point = _read(folder)
    if point is None or point["renewal"] != renewal:
        return []
    changed = [each for each in point["files"] if _digest(each["real"]) != each["sha256"]]
    _store(folder, {**point, "state": RENEWING})
    for paths in point["names"].values():  # a key and its certificate together
        _restore(folder, [each for each in changed if each["path"] in paths])
    mark(folder, RESTORED)
    return [each["path"] for each in changed]


def forget(folder: str) -> None:
    """Remove the saved files: they contain keys."""
    shutil.rmtree(os.path.join(folder, "content"), ignore_errors=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, "point.json"))


def owner_of(found: os.stat_result) -> dict[str, int]:
    """A file's mode, owner and group, as in a point."""
    return {"mode": stat.S_IMODE(found.st_mode), "uid": found.st_uid, "gid": found.st_gid}


def install(files: list[tuple[str, bytes, Any]]) -> None:
    """Write these contents, (path, content, owner as in a point), one right after the other.

    Existing files are overwritten in place: a pod that mounts a single file would keep the old one after a rename. They
    are not truncated first, so that a file is never empty. `mend` restores a file that a power cut left half written.
    """
    for path, data, owner in files:
        _overwrite(path, data, owner)
    for parent in {os.path.dirname(path) for path, _, _ in files}:
        sync_folder(parent)


def _overwrite(path: str, data: bytes, owner: Any) -> None:
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(number, "wb") as file:
        # Over the end of what was there: until it goes, its rest would make a kubeconfig no YAML.
        file.write(data + b"\n" * max(0, os.fstat(number).st_size - len(data)))
        file.flush()
        os.ftruncate(number, len(data))
        _give(number, owner)
        os.fsync(number)


def _give(number: int, owner: Any) -> None:
    os.fchown(number, owner["uid"], owner["gid"])
    os.fchmod(number, owner["mode"])
    if "mtime_ns" in owner:
        os.utime(number, ns=(owner["mtime_ns"], owner["mtime_ns"]))


def _restore(folder: str, files: list[Any]) -> None:
    ready = []
    for each in files:
        with open(os.path.join(folder, "content", each["sha256"]), "rb") as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != each["sha256"]:
            raise Failed("the saved copy of {} is damaged: restore it from a backup".format(each["path"]))
        ready.append((each["real"], data, each))
    install(ready)


def _read(folder: str) -> Any:
    path = os.path.join(folder, "point.json")
    try:
        with open(path, encoding="utf-8") as file:
            point = json.load(file)
        known = point["format_version"] == _FORMAT
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise Failed(f"{path} can't be read: {error}; check it, then remove {folder}") from error
    if not known:
        raise Failed(f"{path} was written by another version of upgrader: format {point['format_version']}")
    return point


def _store(folder: str, point: dict[str, Any]) -> None:
    rewrite(os.path.join(folder, "point.json"), (json.dumps(point, indent=1) + "\n").encode())


def _digest(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except FileNotFoundError:
        return ""
