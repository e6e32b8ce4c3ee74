"""The steps that leave a controller out while it is down, and that take it back. None can be undone: each is repeated,
and the return undoes what leaving out did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.adopt.node_withdrawal import mark_left_out, pods_on, withdraw
from upgrader.errors import StepFailed
from upgrader.gates.node_health import is_unreachable
from upgrader.model.cluster import Host
from upgrader.model.left_out import LeftOut, LeftOutPhase
from upgrader.model.version import KubernetesVersion
from upgrader.model.workload import Pod
from upgrader.ports import Clock, Kind, Kube
from upgrader.steps.one_way import OneWay
from upgrader.wait_and_retry import wait_until

__all__ = ["LeaveOutStep", "MarkStep", "RemovePodsStep"]

_NODES, _PODS = Kind("v1", "nodes", namespaced=False), Kind("v1", "pods")
_SYSTEM = "kube-system"
_CHECKPOINTER = "pod-checkpointer"
_GONE_SECONDS = 60.0


@dataclass(frozen=True)
class LeaveOutStep(OneWay):
    """Marks the node of a controller that is down, and removes the label by which the releases choose their nodes."""

    kube: Kube
    host: Host
    mark: LeftOut
    """With the versions that it may start."""
    name: str = "leave-out"

    def summary(self) -> str:
        return f"no control-plane pods are scheduled to {self.host.name} while it is down; its node is marked"

    def apply(self, note: Callable[[str], None]) -> None:
        """Not where it is back by now: its kubelet would be left with a control plane that nothing replaces."""
        node = self.kube.get(_NODES, self.host.name)
        if node is None or not is_unreachable(node):
            what = "no longer a node of the cluster" if node is None else "no longer down"
            raise StepFailed(
                f"controller {self.host.name} is {what}; it was not left out",
                remedy="Run the same command again: it starts from the cluster's current state.",
            )
        mark = LeftOut.of(node) or self.mark  # of an interruption, or of a return in which it went down again
        mark_left_out(self.kube, self.host.name, mark.in_phase("leaving"), labelled=False)
        withdraw(self.kube, self.host.name)


@dataclass(frozen=True)
class RemovePodsStep(OneWay):
    """Removes what the API still lists of the control plane on a machine that is down: its kubelet, which would have to
    confirm that the containers have ended, can't. When it is back, it ends what the API no longer lists.
    """

    kube: Kube
    clock: Clock
    host: Host
    name: str = "remove-pods"

    def summary(self) -> str:
        return f"remove the control plane's pods on {self.host.name} from the API, without waiting for its kubelet"

    def apply(self, note: Callable[[str], None]) -> None:
        def left() -> str:
            pods = self._pods()
            for pod in pods:
                self.kube.delete(_PODS, pod.name, _SYSTEM, at_once=True)
            return ", ".join(pod.name for pod in pods)

        what = f"the control plane's pods on {self.host.name} to be gone"
        if names := wait_until(self.clock, left, seconds=_GONE_SECONDS, what=what, note=note):
            raise StepFailed(
                f"pods on {self.host.name} still existed, or existed again, after {_GONE_SECONDS:.0f} s: {names}",
                remedy=f"kubectl -n {_SYSTEM} describe pod {names.partition(',')[0]}",
            )

    def _pods(self) -> tuple[Pod, ...]:
        found = self.kube.list(_PODS, _SYSTEM, fields=f"spec.nodeName={self.host.name}")
        parsed = map(Pod.parse, found)
        checkpointers = (pod for pod in parsed if pod.labels.get("app.kubernetes.io/name") == _CHECKPOINTER)
        return (*pods_on(self.kube, self.host.name), *(pod for pod in checkpointers if not pod.is_checkpoint))


@dataclass(frozen=True)
class MarkStep(OneWay):
    """Writes how far leaving out or returning got. `phase` None: the controller takes part again, and has no mark."""

    kube: Kube
    host: Host
    version: KubernetesVersion
    phase: LeftOutPhase | None
    labelled: bool | None = None
    """Whether its node has the label of the control plane from now on; None: as it is."""
    name: str = "mark"

    def summary(self) -> str:
        name = self.host.name
        return {
            "leaving": f"leaving {name} out of runs",
            "out": f"{name} is left out of runs until `upgrader resume`",
            "returning": f"control-plane pods may be scheduled to {name} again",
            None: f"{name} takes part in runs again",
        }[self.phase]

    def apply(self, note: Callable[[str], None]) -> None:
        """The versions stay those of the mark there is; where pods are placed on it again, theirs is one more."""
        node = self.kube.get(_NODES, self.host.name)
        before = LeftOut.of(node) if node is not None else None
        mark = None
        if self.phase is not None:
            mark = (before or LeftOut(self.phase, self.version)).in_phase(self.phase)
            mark = mark.starting(self.version) if self.labelled else mark
        mark_left_out(self.kube, self.host.name, mark, labelled=self.labelled)
