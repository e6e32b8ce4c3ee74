"""Digests of what a campaign was approved with: the built-in charts, each cluster's folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from upgrader import __version__
from upgrader.config.charts import charts_folder
from upgrader.config.yaml_document import shown
from upgrader.errors import UsageError
from upgrader.fleet.events import Pins

__all__ = ["NOT_INPUTS", "folder_digest", "own_pins"]

NOT_INPUTS = ("runs", "backups", "kubeconfig", "known_hosts")
"""What a run writes into the top of a cluster folder, and credentials, which are replaced at any time."""


def own_pins() -> Pins:
    """What a campaign would be begun with now. Raises UsageError."""
    charts = charts_folder()
    return Pins(__version__, _digest(charts, (path for path in charts.rglob("*") if path.is_file()), "charts"))


def folder_digest(folder: Path) -> str:
    """Of every file of a cluster folder but those of NOT_INPUTS and hidden ones. Raises UsageError."""
    files = (path for path in folder.rglob("*") if path.is_file() and not _left_out(path.relative_to(folder).parts))
    return _digest(folder, files, shown(folder))


def _left_out(parts: tuple[str, ...]) -> bool:
    return parts[0] in NOT_INPUTS or any(part.startswith(".") or part == "__pycache__" for part in parts)


def _digest(base: Path, files: Iterable[Path], name: str) -> str:
    found = hashlib.sha256()
    try:
        for path in sorted(files):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            found.update(f"{path.relative_to(base)}\0{content}\n".encode(errors="surrogateescape"))
    except OSError as error:
        raise UsageError(
            f"{error.filename or name} can't be read: {error.strerror}", remedy="Fix its permissions."
        ) from error
    return found.hexdigest()
