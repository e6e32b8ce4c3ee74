"""The inputs of checks of a cluster folder, without the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upgrader.config.load import Reading
from upgrader.config.untrusted_folder import UntrustedFolder
from upgrader.model.audit_log import AuditLog
from upgrader.model.release import ReleaseSpec
from upgrader.model.settings import ReleaseSettings
from upgrader.ports import Helm

__all__ = ["FolderContext", "NotAsked"]


@dataclass(frozen=True)
class FolderContext:
    """The folder's files as they were read, the valid releases in them, and a Helm that only renders."""

    reading: Reading
    guard: UntrustedFolder
    releases: tuple[ReleaseSpec, ...]
    helm: Helm
    audit_log: AuditLog | None = None

    def values_file(self, release: str) -> Path | None:
        """The file of a release's values; None where it has none."""
        steps = self.reading.settings.pipeline if self.reading.settings else ()
        return next(
            (step.values_file for step in steps if isinstance(step, ReleaseSettings) and step.name == release), None
        )


@dataclass(frozen=True)
class NotAsked:
    """A question that has no answer in the folder. It is neither passed nor failed."""

    check: str
    reason: str
