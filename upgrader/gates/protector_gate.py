"""The gate of a PodProtector: what it protects is there, and is counted."""

from __future__ import annotations

from upgrader.errors import ApiError
from upgrader.gates.api_absence import unanswered
from upgrader.gates.kubernetes_kinds import POD_PROTECTORS
from upgrader.model.outcome import Verdict, holds, pending, unknown
from upgrader.model.protector import UNCOUNTED_SECONDS, Cell, PodProtector
from upgrader.ports import Clock, Kube

__all__ = ["ProtectorGate"]


class ProtectorGate:
    """As many pods as a PodProtector wants are available for certain, and each of its cells counts them: no deletion
    that was allowed stays uncounted for a minute.

    For how long is measured by this machine's clock alone. Make one for each wait.
    """

    def __init__(self, kube: Kube, clock: Clock, namespace: str, protector: str) -> None:
        self.name = f"protector/{namespace}/{protector}"
        self._kube, self._clock = kube, clock
        self._namespace, self._protector = namespace, protector
        self._since: dict[tuple[str, str, str], float] = {}
        """Since when a deletion is seen uncounted: cell, what the cell has counted last, the deletion."""

    def check(self) -> Verdict:
        subject = f"PodProtector {self._namespace}/{self._protector}"
        try:
            found = self._kube.get(POD_PROTECTORS, self._protector, self._namespace)
            if found is None:
                return self._missing(subject)
        except ApiError as error:
            return unanswered(subject, error)
        return self._judge(PodProtector.parse(found))

    def _judge(self, protector: PodProtector) -> Verdict:
        problem = protector.never_counted or self._uncounted(protector) or protector.below
        if problem:
            see = f"kubectl -n {protector.namespace} get podprotector {protector.name} -o yaml"
            return pending(problem, remedy=f"Check its status, and guard's aggregators in each cell: {see}")
        return holds(f"{protector}: {protector.estimate} pods are available for certain, {protector.minimum} must be")

    def _uncounted(self, protector: PodProtector) -> str:
        now, before = self._clock.monotonic(), self._since
        self._since = {
            (cell.name, cell.counted, deletion.key): before.get((cell.name, cell.counted, deletion.key), now)
            for cell in protector.cells
            for deletion in cell.uncounted
        }
        for cell in protector.cells:
            waited = max((now - self._since[cell.name, cell.counted, item.key] for item in cell.uncounted), default=0.0)
            if waited >= UNCOUNTED_SECONDS:
                return f"{protector}: {_silent(cell)} for {waited:.0f} s"
        return ""

    def _missing(self, subject: str) -> Verdict:
        """Raises ApiError."""
        try:
            self._kube.raw(f"/apis/{POD_PROTECTORS.api_version}")
        except ApiError as error:
            if error.status != 404:
                raise
            return unknown(
                f"{subject}: the API server knows no PodProtectors ({POD_PROTECTORS.api_version}): their "
                "CustomResourceDefinition is missing",
                remedy="Install guard's chart with protectors, or remove the gate from upgrader.yaml.",
            )
        return pending(
            f"{subject} does not exist",
            remedy=f"Check what is there: kubectl -n {self._namespace} get podprotectors",
        )


def _silent(cell: Cell) -> str:
    names = ", ".join(item.pod for item in cell.uncounted if item.pod)
    of = f" of {names}" if names else ""
    return f"cell {cell.name} has not counted the deletions{of} that it has allowed"
