"""The folder with backups: which files are ours, and which are removed."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from upgrader.errors import UsageError

__all__ = ["PART_SUFFIX", "SUFFIX", "backups", "claim", "own_files", "prune", "remove_unfinished"]

SUFFIX, PART_SUFFIX = ".tar.age", ".part"
_OURS = re.compile(r"(\d{8}T\d{6})(-v[0-9A-Za-z.+-]+)?\.tar\.age")


_WHOSE = "cluster-uid"
"""The file that says whose backups a folder has."""


def claim(folder: Path, uid: str) -> None:
    """Make the folder this cluster's: two clusters that share one would remove each other's backups.

    `uid`: of the namespace kube-system; "" if it isn't known, which claims nothing. Raises UsageError if it is another
    cluster's, OSError.
    """
    marker = folder / _WHOSE
    if not uid:
        return
    if not marker.exists():
        marker.write_text(f"{uid}\n")
    elif (found := marker.read_text().strip()) != uid:
        raise UsageError(
            f"{folder} has the backups of another cluster ({found}; this one is {uid})",
            remedy="Use a separate folder for each cluster (backup.folder in upgrader.yaml). If this cluster was "
            f"recreated, remove {marker}.",
        )


def backups(folder: Path) -> list[Path]:
    """All backups there, oldest first."""
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if _taken(path.name) and path.is_file())


def own_files(folder: Path) -> list[Path]:
    """All that a backup writes there, whole or not; no files with other names, and no links, which may lead to any."""
    return [path for path in (*backups(folder), *_unfinished(folder), folder / _WHOSE) if not path.is_symlink()]


def prune(folder: Path, newest: Path, *, keep: int, max_age_seconds: float | None, now: datetime) -> tuple[Path, ...]:
    """Remove all but the newest `keep`, and those that are too old; returns them.

    The newest of each minor stays: each retry of an upgrade takes a backup, and a restore needs the one from before.
    `newest`, which was just taken, always stays: by their names, those of a clock that was ahead are newer. Files with
    other names are never touched. Raises OSError.
    """
    others = [path for path in backups(folder) if path.name != newest.name]
    removed = [path for path in others if max_age_seconds is not None and _age(path, now) > max_age_seconds]
    of_minors = {_minor(path.name): path for path in others} | {_minor(newest.name): newest}
    many = others[: max(0, len(others) + 1 - max(1, keep))]
    removed += [path for path in many if path not in removed and path not in of_minors.values()]
    for path in removed:
        path.unlink()
    return tuple(removed)


def remove_unfinished(folder: Path) -> None:
    """Remove what an interrupted backup left. The folder's lock keeps others from writing one now. Raises OSError."""
    for path in _unfinished(folder):
        path.unlink()


def _unfinished(folder: Path) -> list[Path]:
    found = sorted(folder.glob(f"*{SUFFIX}{PART_SUFFIX}"))
    return [path for path in found if _OURS.fullmatch(path.name.removesuffix(PART_SUFFIX))]


def _minor(name: str) -> str:
    """`v1.36` of a backup's name; "" where it was taken without an API."""
    match = _OURS.fullmatch(name)
    return ".".join((match[2] or "").removeprefix("-").split(".")[:2]) if match else ""


def _age(path: Path, now: datetime) -> float:
    taken = _taken(path.name)
    assert taken is not None
    return (now - taken).total_seconds()


def _taken(name: str) -> datetime | None:
    """When a backup was taken; None for a name that is none of ours."""
    match = _OURS.fullmatch(name)
    try:
        return datetime.strptime(match[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC) if match else None
    except ValueError:
        return None  # 20261399T000000
