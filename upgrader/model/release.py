"""Helm releases: what should be installed, what is, and which revision is a way back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

__all__ = ["ReleaseSpec", "RestorePoint", "Revision", "RevisionStatus", "last_good", "without_revision"]

RevisionStatus = Literal[
    "unknown",
    "deployed",
    "uninstalled",
    "superseded",
    "failed",
    "uninstalling",
    "pending-install",
    "pending-upgrade",
    "pending-rollback",
]


@dataclass(frozen=True)
class ReleaseSpec:
    """A release as it should be: a chart (a local folder or a packed chart) with one merged tree of values."""

    name: str
    namespace: str
    chart: Path
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Revision:
    """One entry of `helm history`."""

    number: int
    status: RevisionStatus
    chart: str = ""
    """Chart name and version, as in `kube-apiserver-0.1.0`."""
    description: str = ""
    updated: datetime | None = None
    """When Helm last wrote it, in UTC; None when Helm's date could not be read."""

    @property
    def failed_once(self) -> bool:
        """Whether Helm described it as failed (`Release "x" failed: …`), whatever its status became later."""
        return '" failed: ' in self.description

    @property
    def good(self) -> bool:
        """Whether it once was deployed, so that it is a way back.

        Helm marks a revision `superseded` when a later one has replaced it, and `deployed` and `superseded` are the
        only two that worked. There are two traps, which only the description still tells: a *first install* that
        failed becomes `superseded` once a later revision succeeds, and so does an *interrupted* one when a rollback
        from it fails.
        """
        unproven = self.failed_once or self.description.startswith("Preparing ")
        return self.status == "deployed" or (self.status == "superseded" and not unproven)

    @property
    def pending(self) -> bool:
        """Whether Helm was interrupted while it wrote this revision."""
        return self.status.startswith("pending-") or self.status == "uninstalling"

    def age_seconds(self, now: datetime) -> float:
        """How long ago Helm last wrote it; 0 when that is unknown, so that it never counts as old."""
        return (now - self.updated).total_seconds() if self.updated else 0.0

    def abandoned(self, now: datetime, helm_timeout_seconds: float) -> bool:
        """Whether it is pending, and no Helm can still be at work on it: Helm gives up after its timeout.

        A younger one may be somebody's `helm upgrade` at this very moment.
        """
        return self.pending and self.age_seconds(now) >= helm_timeout_seconds


@dataclass(frozen=True)
class RestorePoint:
    """The place that a step goes back to.

    For a release, its last good revision; None when it did not exist, so that going back means uninstalling it.
    For a playbook (`release` ""), the playbook that takes it back; "" when there is none.
    """

    release: str = ""
    namespace: str = ""
    revision: int | None = None
    playbook: str = ""
    begun: int = 0
    """How often the step's own playbook had been begun before, by the controllers' markers."""

    def __str__(self) -> str:
        if not self.release:
            return self.playbook or "as it was"
        return f"revision {self.revision}" if self.revision is not None else "not installed"


def last_good(history: tuple[Revision, ...]) -> Revision | None:
    """The revision to go back to: the newest good one. "The one before" may be a failed one."""
    return max((revision for revision in history if revision.good), key=lambda r: r.number, default=None)


def without_revision(manifest: str) -> str:
    """The manifest without the note of the revision that it was rendered for, which alone makes no difference."""
    return _REVISION_NOTE.sub("", manifest)


_REVISION_NOTE = re.compile(r"^ *checkpointer\.upgrader\.io/helm-revision:.*\n", re.MULTILINE)
