"""The gate of a PodProtector: what it protects is there, and is counted."""

from __future__ import annotations

from dataclasses import dataclass, field

from upgrader.errors import ApiError
from upgrader.gates.api_absence import unanswered
from upgrader.gates.kubernetes_kinds import POD_PROTECTORS
from upgrader.model.outcome import Verdict, holds, pending, unknown
from upgrader.model.protector import SILENT_SECONDS, PodProtector
from upgrader.ports import Clock, Kube

__all__ = ["ProtectorGate", "ProtectorMemory"]


@dataclass(frozen=True)
class ProtectorMemory:
    """What one process has seen of the cells of protectors: what each has counted last, and since when that stands."""

    cells: dict[tuple[str, str], tuple[str, float]] = field(default_factory=dict)
    """Protector and cell → its `lastEventTime`, and when that was first read (monotonic)."""


@dataclass(frozen=True)
class ProtectorGate:
    """A PodProtector has enough pods that are certain to be available, and each of its cells is still counting.

    An aggregator's time is its own clock, and no two clocks are compared: it counts while its `lastEventTime` changes,
    and the time between two readings is this machine's. That it counts when a run begins is for a check to say.
    """

    kube: Kube
    clock: Clock
    namespace: str
    protector: str
    memory: ProtectorMemory = field(default_factory=ProtectorMemory)

    @property
    def name(self) -> str:
        return f"protector/{self.namespace}/{self.protector}"

    def check(self) -> Verdict:
        subject = f"PodProtector {self.namespace}/{self.protector}"
        try:
            found = self.kube.get(POD_PROTECTORS, self.protector, self.namespace)
            if found is None:
                return self._missing(subject)
        except ApiError as error:
            return unanswered(subject, error)
        protector = PodProtector.parse(found)
        problem = protector.never_counted or self._silent(protector) or protector.below
        if problem:
            see = f"kubectl -n {self.namespace} get podprotector {self.protector} -o yaml"
            return pending(problem, remedy=f"Check its status, and guard's aggregators in each cell: {see}")
        return holds(f"{protector}: at least {protector.estimate} pods are available, {protector.minimum} are required")

    def _silent(self, protector: PodProtector) -> str:
        """Which cell isn't counted any more, as a sentence; "" for none."""
        now, seen = self.clock.monotonic(), self.memory.cells
        silent = []
        for cell in protector.cells:
            key = protector.place, cell.name
            counted, since = seen.get(key, (cell.counted, now))
            seen[key] = (cell.counted, since if counted == cell.counted else now)
            quiet = now - seen[key][1]
            if quiet >= SILENT_SECONDS:
                silent.append(f"cell {cell.name} for {quiet:.0f} s (lastEventTime {cell.counted})")
        return f"{protector}: no aggregator has counted {', '.join(silent)}" if silent else ""

    def _missing(self, subject: str) -> Verdict:
        """Raises ApiError."""
        try:
            self.kube.raw(f"/apis/{POD_PROTECTORS.api_version}")
        except ApiError as error:
            if error.status != 404:
                raise
            return unknown(
                f"{subject}: the CustomResourceDefinition of PodProtectors ({POD_PROTECTORS.api_version}) is not "
                "installed",
                remedy="Install guard's chart with protectors, or remove the gate from upgrader.yaml.",
            )
        return pending(
            f"{subject} does not exist",
            remedy=f"List the existing ones: kubectl -n {self.namespace} get podprotectors",
        )
