"""Takes a DaemonSet's rollout past nodes that are down, where its controller would wait for them for good."""

from __future__ import annotations

from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Any

from upgrader.errors import ApiError
from upgrader.gates.kubernetes_kinds import NODES, PODS
from upgrader.gates.node_health import is_unreachable, unreachable_nodes
from upgrader.gates.workload_reading import Reading
from upgrader.model.health_before import IntOrPercent
from upgrader.model.pod_placement import may_run_on
from upgrader.model.workload import Pod, WorkloadRef
from upgrader.ports import Kube, KubeObject

__all__ = ["PastDownNodes"]

_AT_ONCE = 500


class PastDownNodes:
    """Called with each reading of the DaemonSet.

    The controller counts a node that is down as one without a pod: with `maxUnavailable: 1` a single one is all that it
    allows, and it replaces no other pod. Once such nodes use up what is allowed, it deletes no pod that works, and so
    this does in its place: of the nodes that are up, no more than `maxUnavailable` are without a pod at any time. With
    `maxSurge` it waits for the new pod beside the old one; without that old one, which is dead, it doesn't.

    Nothing is changed in the DaemonSet itself, so nothing is left to be restored after an interruption.
    """

    def __init__(self, kube: Kube, ref: WorkloadRef, down: Collection[str], note: Callable[[str], None]) -> None:
        self._kube, self._ref, self._note = kube, ref, note
        self._down = down
        self._told: set[str] = set()
        self._refused = 0
        """The status of the last refusal; 0 where the last time nothing was refused."""
        self._told_of: set[int] = set()

    def __call__(self, found: KubeObject, reading: Reading) -> None:
        """`found` is the DaemonSet's object, and `reading` its pods."""
        try:
            if reading.workload.observed:
                self._go_on(found, reading)
        except ApiError as error:  # the wait has a deadline, and says what it waits for
            lasts, self._refused = error.status == self._refused, error.status
            # What else than a missing right may pass, is told where the next answer is the same.
            if error.status and (lasts or error.status == HTTPStatus.FORBIDDEN) and error.status not in self._told_of:
                self._told_of.add(error.status)
                self._note(f"{self._ref}: its old pods can't be deleted: {error.message}")
        else:
            self._refused = 0

    def _go_on(self, found: KubeObject, reading: Reading) -> None:
        if reading.workload.on_delete:
            return
        rolling = (found["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        old = [pod for pod in reading.others if not pod.deleting]
        surge = _count(rolling.get("maxSurge"), reading.workload.desired, 0)
        if surge:
            dead = [pod for pod in old if pod.node in self._down and not pod.ready]
            still = unreachable_nodes(self._kube) if dead else {}  # one that came back gets its pods by itself
            stale = [pod for pod in dead if pod.node in still][:surge]
            why = "its node is down, and the DaemonSet waits for the new pod there"
        else:
            allowed = _count(rolling.get("maxUnavailable"), reading.workload.desired, 1)
            stale = self._next(found, old, reading, allowed)
            why = f"{', '.join(sorted(self._down))} is down, and uses up the DaemonSet's maxUnavailable"
        for pod in stale:
            self._kube.delete(PODS, pod.name, pod.namespace)
            self._tell(f"{self._ref}: deleting its old pods, because its controller doesn't: {why}")

    def _next(self, found: KubeObject, old: list[Pod], reading: Reading, allowed: int) -> list[Pod]:
        """The old pods on nodes that are up which may be replaced now; those that don't work its controller replaces
        by itself.
        """
        fine = {pod.node for pod in (*reading.newest, *old) if pod.ready}
        some = {pod.node for pod in (*reading.newest, *reading.others) if pod.node}
        candidates = sorted((pod for pod in old if pod.ready and pod.node not in self._down), key=lambda pod: pod.name)
        if not candidates or len(some.intersection(self._down) - fine) < allowed:
            return []
        # Not by `desiredNumberScheduled`: a node that is down is in it only where the pods tolerate its taint.
        spec = (found["spec"].get("template") or {}).get("spec") or {}
        nodes = {str(node["metadata"]["name"]): node for node in self._kube.each(NODES, at_once=_AT_ONCE)}
        down = {name for name in self._down if name in nodes and is_unreachable(nodes[name])}
        if len(some & down - fine) < allowed:
            return []
        up = (some | {name for name, node in nodes.items() if may_run_on(spec, node)}) - down
        # Its controller's own count is later, but knows of `minReadySeconds`.
        available = min(len(fine & up), reading.workload.available)
        return candidates[: max(0, allowed - (len(up) - available))]

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._note(text)


def _count(given: Any, total: int, default: int) -> int:
    return IntOrPercent.parse(default if given is None else given).up(total)
