"""The folder with backups: which files are ours, and which are removed."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

__all__ = ["PART_SUFFIX", "SUFFIX", "backups", "prune", "remove_unfinished"]

SUFFIX, PART_SUFFIX = ".tar.age", ".part"
_OURS = re.compile(r"(\d{8}T\d{6})(-v[0-9A-Za-z.+-]+)?\.tar\.age")


def backups(folder: Path) -> list[Path]:
    """All backups there, oldest first."""
    return sorted(path for path in folder.glob(f"*{SUFFIX}") if _OURS.fullmatch(path.name) and path.is_file())


def prune(folder: Path, *, keep: int, max_age_seconds: float | None, now: datetime) -> tuple[Path, ...]:
    """Remove all but the newest `keep`, and those that are too old; returns them.

    The newest one always stays. Files with other names are never touched. Raises OSError.
    """
    ours = backups(folder)
    removed = [path for path in ours[:-1] if max_age_seconds is not None and _age(path, now) > max_age_seconds]
    removed += [path for path in ours[: -max(1, keep)] if path not in removed]
    for path in removed:
        path.unlink()
    return tuple(removed)


def remove_unfinished(folder: Path) -> None:
    """Remove what an interrupted backup left. The folder's lock keeps others from writing one now. Raises OSError."""
    for path in folder.glob(f"*{SUFFIX}{PART_SUFFIX}"):
        if _OURS.fullmatch(path.name.removesuffix(PART_SUFFIX)):
            path.unlink()


def _age(path: Path, now: datetime) -> float:
    match = _OURS.fullmatch(path.name)
    assert match is not None
    return (now - datetime.strptime(match[1], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)).total_seconds()
