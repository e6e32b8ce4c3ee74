"""The gate of a group of StatefulSets that is rolled zone by zone, by guard or Grafana's rollout-operator."""

from __future__ import annotations

from dataclasses import dataclass

from upgrader.errors import ApiError
from upgrader.gates.api_absence import unanswered
from upgrader.gates.kubernetes_kinds import STATEFUL_SETS
from upgrader.gates.pod_faults import worst_fault
from upgrader.gates.stateful_rollout import stale_pods
from upgrader.gates.workload_diagnosis import diagnose_reading
from upgrader.gates.workload_reading import Reading, read_found
from upgrader.model.first_few import first_few
from upgrader.model.outcome import Verdict, VerdictKind, broken, holds, pending, unknown
from upgrader.model.workload import ROLLOUT_GROUP, Workload
from upgrader.ports import Kube, KubeObject

__all__ = ["RolloutGroupGate", "is_paused"]

_PAUSED = "grafana.com/rollout-paused"


@dataclass(frozen=True)
class RolloutGroupGate:
    """Every pod of every StatefulSet with the label `rollout-group` of this value has its set's newest revision and is
    Ready; none is missing, and no set's rollout is paused.
    """

    kube: Kube
    namespace: str
    group: str

    @property
    def name(self) -> str:
        return f"rollout-group/{self.namespace}/{self.group}"

    def check(self) -> Verdict:
        try:
            sets = self.kube.list(STATEFUL_SETS, self.namespace, labels=f"{ROLLOUT_GROUP}={self.group}")
            return self._judge(sets) if sets else self._empty()
        except ApiError as error:
            return unanswered(str(self), error)

    def _judge(self, sets: tuple[KubeObject, ...]) -> Verdict:
        paused = [item["metadata"]["name"] for item in sets if is_paused(item)]
        missing = []
        for found in sorted(sets, key=lambda item: str(item["metadata"]["name"])):
            reading = read_found(self.kube, Workload.parse("StatefulSet", found), found)
            verdict = diagnose_reading(self.kube, reading)
            if verdict.kind is not VerdictKind.HOLDS:
                missing.append((_rank(reading, verdict), verdict))
        if paused:
            return self._paused(paused, missing[0][1].reason if missing else "")
        if not missing:
            return holds(f"{self}: all pods of {len(sets)} StatefulSets are updated and Ready")
        # The first of those closest to the cause: while one has a fault, the others only wait for it.
        worst = max(missing, key=lambda item: item[0])[1]
        say = broken if worst.kind is VerdictKind.BROKEN else pending
        reason = f"{self}: {len(sets) - len(missing)} of {len(sets)} StatefulSets are complete; {worst.reason}"
        return say(reason, *worst.details, remedy=worst.remedy)

    def _paused(self, names: list[str], missing: str) -> Verdict:
        return pending(
            f"{self}: the rollout of {first_few(names)} is paused{f'; {missing}' if missing else ''}",
            remedy=f"Resume it: kubectl -n {self.namespace} annotate statefulset {names[0]} {_PAUSED}-",
        )

    def _empty(self) -> Verdict:
        return unknown(
            f"{self}: no StatefulSet in {self.namespace} has the label {ROLLOUT_GROUP}={self.group}",
            remedy=f"List the existing ones: kubectl -n {self.namespace} get statefulsets -L {ROLLOUT_GROUP}",
        )

    def __str__(self) -> str:
        return f"rollout group {self.namespace}/{self.group}"


def is_paused(found: KubeObject) -> bool:
    """Whether people have stopped the rollout of a StatefulSet."""
    return (found["metadata"].get("annotations") or {}).get(_PAUSED) == "true"


def _rank(reading: Reading, verdict: Verdict) -> int:
    """How close a set is to the cause for which its group isn't complete."""
    if verdict.kind is VerdictKind.BROKEN:
        return 3
    if worst_fault(reading.newest) is not None:
        return 2
    return 0 if stale_pods(reading) else 1
