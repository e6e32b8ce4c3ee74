"""Whether a folder is a cluster's, for commands that read its runs and need no settings."""

from __future__ import annotations

from pathlib import Path

from upgrader.errors import UsageError

__all__ = ["check_cluster_folder"]


def check_cluster_folder(folder: Path) -> None:
    """Raises UsageError for a folder that isn't a cluster's."""
    if not (folder / "upgrader.yaml").is_file():
        raise UsageError(
            f"{folder} is not a cluster folder: it has no upgrader.yaml",
            remedy="Pass the cluster folder with `-C DIR` (a lab's is .lab/NAME).",
        )
