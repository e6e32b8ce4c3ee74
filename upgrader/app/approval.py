"""Approves of the step that a run of this cluster waits for, wherever that run is."""

from __future__ import annotations

from pathlib import Path

from upgrader.app.locking import own_name
from upgrader.app.wiring import open_kube
from upgrader.engine.execution.approval import approve

__all__ = ["approve_step"]

_SECONDS = 10.0


def approve_step(folder: Path, step: str, reason: str) -> str:
    """Approve it in this user's name; returns the run. Raises UsageError if no run waits for this step."""
    with open_kube(folder, _SECONDS) as kube:
        return approve(kube, step, own_name(), reason)
