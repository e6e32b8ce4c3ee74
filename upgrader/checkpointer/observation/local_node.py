"""The node itself, as an observation needs it: its container runtime, and what its standby pods depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from upgrader.checkpointer.checkpointer_errors import StoreError
from upgrader.checkpointer.observation import etcd_health, readiness_probes
from upgrader.checkpointer.observation.running_pods import images_present, list_sandboxes
from upgrader.checkpointer.static_pods.pods import Pod
from upgrader.checkpointer.storage.store import Store
from upgrader.node.cri import Sandbox
from upgrader.node.workload_policy import Workload


@dataclass(frozen=True)
class Machine:
    """`socket`: of the container runtime. `timeout_seconds`: for each question to it."""

    socket: str
    timeout_seconds: float
    store: Store

    def sandboxes(self) -> list[Sandbox]:
        """All sandboxes with their containers. Raises RuntimeUnknown."""
        return list_sandboxes(self.socket, self.timeout_seconds)

    def images(self, names: Iterable[str]) -> Mapping[str, bool]:
        """Which of these images are here. Raises RuntimeUnknown."""
        return images_present(self.socket, self.timeout_seconds, names)

    def unready(self, pod: Pod) -> str:
        """Why a pod isn't ready by our own asking; empty when it is, or can't be asked."""
        return readiness_probes.unready(pod)

    def blocked(self, workload: Workload, number: int) -> bool:
        """Whether the etcd that this generation needs doesn't answer."""
        try:
            return etcd_health.is_away(self.store.static_pod(workload, number))
        except (StoreError, KeyError, TypeError):
            return False
