"""The gate of one Deployment, DaemonSet or StatefulSet: its rollout is complete."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from upgrader.errors import ApiError
from upgrader.gates.api_absence import unanswered
from upgrader.gates.foreign_writers import foreign_verdict
from upgrader.gates.running_images import judge_images
from upgrader.gates.started_version import AskedVersions
from upgrader.gates.workload_diagnosis import diagnose_reading, missing
from upgrader.gates.workload_reading import Reading, find_workload, read_found
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.model.workload import Workload, WorkloadRef
from upgrader.ports import Kube

__all__ = ["RolloutGate"]


@dataclass(frozen=True)
class RolloutGate:
    """Every pod of the DaemonSet, Deployment or StatefulSet is of its newest generation, Ready and available.

    Behind a step that changed it, only Helm has changed its pod template since, by its managed fields.

    Of a StatefulSet none is missing, and pods below its partition may be of any generation; with OnDelete, somebody has
    to have deleted those of older ones. `allow_none`: a DaemonSet that matches no node holds too. Where `images` are
    given, its pods run these, of one content, and are of the version that `asked` says.
    """

    kube: Kube
    ref: WorkloadRef
    allow_none: bool = False
    absent: Callable[[Collection[str]], Collection[str]] = lambda _: ()
    """Those of some nodes on which its pods don't count. Raises ApiError."""
    images: Mapping[str, str] = field(default_factory=dict)
    """The planned images, by containers' names."""
    asked: AskedVersions | None = None
    """Asks its pods for their versions; None: they aren't asked."""
    applied: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The pod template that Helm has just applied, which no one else may have changed; empty: whatever there is."""

    @property
    def name(self) -> str:
        return f"{self.ref.kind.lower()}/{self.ref.name}"

    def check(self) -> Verdict:
        try:
            found = find_workload(self.kube, self.ref)
            if found is None:
                return missing(self.ref)
            changed = foreign_verdict(self.ref, found, self.applied) if self.applied else None
            return changed or self._judge(read_found(self.kube, Workload.parse(self.ref.kind, found), found))
        except ApiError as error:
            return unanswered(str(self.ref), error)

    def _judge(self, reading: Reading) -> Verdict:
        verdict = diagnose_reading(self.kube, reading, allow_none=self.allow_none, absent=self.absent)
        if verdict.kind is VerdictKind.HOLDS and self.images:
            return self._contradicted(reading) or verdict
        return verdict

    def _contradicted(self, reading: Reading) -> Verdict | None:
        """What runs instead of what was planned."""
        found = judge_images(self.kube, reading, self.images, compare=bool(self.applied))
        return found or (self.asked.judge(self.kube, reading, self.images) if self.asked else None)
