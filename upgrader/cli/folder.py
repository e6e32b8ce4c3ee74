"""What commands that only read a cluster folder need of it."""

from __future__ import annotations

from pathlib import Path

from upgrader.errors import UsageError

__all__ = ["runs_folder"]


def runs_folder(folder: Path) -> Path:
    """The folder of a cluster's runs, which is there once there was one. Raises UsageError for any other folder."""
    if not (folder / "upgrader.yaml").is_file():
        raise UsageError(
            f"{folder} is no cluster's folder: there is no upgrader.yaml in it",
            remedy="Give the cluster's folder with `-C DIR` (a lab's is .lab/NAME).",
        )
    return folder / "runs"
