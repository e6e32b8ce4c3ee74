"""The version that a cluster folder asks for, whatever a run was told."""

from __future__ import annotations

import os
from pathlib import Path

from upgrader.app.values_edit import write_edited
from upgrader.config.load import load_settings
from upgrader.config.yaml_editing import with_changes
from upgrader.errors import UpgraderError
from upgrader.model.version import KubernetesVersion

__all__ = ["left_behind", "write_wanted"]


def left_behind(folder: Path, reached: KubernetesVersion | None) -> str:
    """The warning if the folder has an older version than a run has reached; "" otherwise, or if it can't be read any
    more.
    """
    try:
        wanted = load_settings(folder, os.environ).target
    except UpgraderError:
        return ""
    if reached is None or wanted >= reached:
        return ""
    return (
        f"upgrader.yaml still has kubernetesVersion {wanted}. Set it to {reached}: without --to, `upgrader plan` and "
        "`upgrader run` use it, and refuse a downgrade."
    )


def write_wanted(folder: Path, version: KubernetesVersion) -> None:
    """Have the folder ask for this version; the rest of its file stays as it is. Raises ConfigError."""
    file = folder / "upgrader.yaml"
    write_edited(file, with_changes(file, {"kubernetesVersion": str(version)}))
