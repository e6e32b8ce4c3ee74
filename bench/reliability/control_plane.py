"""Runs that change the control plane itself, with a fault in one of the steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testkit.faults.scenario import Records, Scene
from testkit.lab_cluster import OLD, RELEASES, LabCluster
from upgrader.ports import Kind

__all__ = ["ControlPlane"]

_DEPLOYMENTS, _DAEMONSETS = Kind("apps/v1", "deployments"), Kind("apps/v1", "daemonsets")

_WORKLOADS: Mapping[str, tuple[tuple[Kind, str], ...]] = {
    "pod-checkpointer": ((_DAEMONSETS, "pod-checkpointer"),),
    "kube-apiserver": ((_DEPLOYMENTS, "kube-apiserver"),),
    "kubernetes": ((_DEPLOYMENTS, "kube-controller-manager"), (_DEPLOYMENTS, "kube-scheduler")),
}
"""Release → the workloads that a change rolls."""


class ControlPlane(Scene[str]):
    """The default pipeline. A run rolls the pods of each release up to the one with the fault.

    It doesn't change later releases, which would only make the run longer.
    """

    def __init__(self, cluster: LabCluster) -> None:
        super().__init__(cluster)
        cluster.change_settings({"availability": {"requestsPerSecond": 0}})

    def change(self, at: str) -> tuple[str, str]:
        before = self._turns()
        turn = max(before.values()) + 1
        changed = RELEASES[: RELEASES.index(at) + 1]
        after = {release: turn if release in changed else before[release] for release in RELEASES}
        for release, number in after.items():
            self.cluster.change_values(release, _values(release, number))
        return _words(before), _words(after)

    def now(self) -> str:
        try:
            self.cluster.wait_healthy(OLD, timeout_seconds=180)
        except AssertionError as error:
            return str(error)
        return _words(self._turns())

    def reached(self, at: str, records: Records) -> bool:
        begun = any(record["type"] == "StepStarted" and record["data"]["step"] == at for record in records)
        return begun and self.helm_at_work(at, "kube-system")

    def _turns(self) -> Mapping[str, int]:
        """Release → its change; 0 for none, -1 where its workloads differ."""
        found = {}
        for release, workloads in _WORKLOADS.items():
            turns = {self._turn(kind, name) for kind, name in workloads}
            found[release] = turns.pop() if len(turns) == 1 else -1
        return found

    def _turn(self, kind: Kind, name: str) -> int:
        workload: Mapping[str, Any] = self.cluster.kube.get(kind, name, "kube-system") or {}
        annotations = workload.get("spec", {}).get("template", {}).get("metadata", {}).get("annotations", {})
        return int(annotations.get("turn", 0))


def _values(release: str, turn: int) -> Mapping[str, Any]:
    annotated = {"podAnnotations": {"turn": str(turn)} if turn else {}}
    if release == "kubernetes":
        return {"controllerManager": annotated, "scheduler": annotated}
    return annotated


def _words(turns: Mapping[str, int]) -> str:
    return ", ".join(f"{release} {turn}" for release, turn in turns.items())
