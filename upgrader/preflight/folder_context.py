"""What checks of a cluster folder read, without the cluster."""

from __future__ import annotations

from dataclasses import dataclass

from upgrader.config.load import Reading
from upgrader.config.strange_folder import StrangeFolder
from upgrader.model.release import ReleaseSpec
from upgrader.ports import Helm

__all__ = ["FolderContext", "NotAsked"]


@dataclass(frozen=True)
class FolderContext:
    """The folder's files as they were read, the valid releases in them, and a Helm that only renders."""

    reading: Reading
    guard: StrangeFolder
    releases: tuple[ReleaseSpec, ...]
    helm: Helm


@dataclass(frozen=True)
class NotAsked:
    """A question that has no answer in the folder. It is neither passed nor failed."""

    check: str
    reason: str
