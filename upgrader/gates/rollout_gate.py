"""The gate of one Deployment, DaemonSet or StatefulSet: its rollout is complete."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from upgrader.gates.workload_diagnosis import diagnose_workload
from upgrader.model.outcome import Verdict
from upgrader.model.workload import WorkloadRef
from upgrader.ports import Kube

__all__ = ["RolloutGate"]


@dataclass(frozen=True)
class RolloutGate:
    """Every pod of the DaemonSet, Deployment or StatefulSet is of its newest generation, Ready and available.

    Of a StatefulSet none is missing, and pods below its partition may be of any generation; with OnDelete, somebody has
    to have deleted those of older ones. `allow_none`: a DaemonSet that matches no node holds too.
    """

    kube: Kube
    ref: WorkloadRef
    allow_none: bool = False
    absent: Callable[[Collection[str]], Collection[str]] = lambda _: ()
    """Those of some nodes on which its pods don't count. Raises ApiError."""

    @property
    def name(self) -> str:
        return f"{self.ref.kind.lower()}/{self.ref.name}"

    def check(self) -> Verdict:
        return diagnose_workload(self.kube, self.ref, allow_none=self.allow_none, absent=self.absent)
