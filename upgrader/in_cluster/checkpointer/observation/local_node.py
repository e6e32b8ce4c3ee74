"""The node itself, as an observation needs it: its container runtime, and what its standby pods depend on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from upgrader.in_cluster.checkpointer.checkpointer_errors import StoreError
from upgrader.in_cluster.checkpointer.observation import etcd_health, pull_records, readiness_probes
from upgrader.in_cluster.checkpointer.observation.running_pods import image_ids, images_present, list_sandboxes
from upgrader.in_cluster.checkpointer.observation.static_manifests import StaticManifests
from upgrader.in_cluster.checkpointer.static_pods.pods import Pod
from upgrader.in_cluster.checkpointer.storage.store import Store
from upgrader.onhost.node.cri import Sandbox
from upgrader.onhost.node.workload_policy import Workload

_BLOCKED_SECONDS = 1.0
"""For each etcd server, while the API is unreachable: passes must follow each other quickly then."""


@dataclass(frozen=True)
class Machine:
    """`socket`: of the container runtime. `timeout_seconds`: for each request to it, and to etcd. `pull_records`:
    folder of the kubelet's records of pulled images; None if it doesn't verify credentials.
    """

    socket: str
    timeout_seconds: float
    store: Store
    pull_records: Path | None = pull_records.FOLDER
    _manifests: StaticManifests = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_manifests", StaticManifests(self.store.manifests))

    def sandboxes(self) -> list[Sandbox]:
        """All sandboxes with their containers. Raises RuntimeUnknown."""
        return list_sandboxes(self.socket, self.timeout_seconds)

    def images(self, names: Iterable[str]) -> Mapping[str, bool]:
        """Which of these images are here. Raises RuntimeUnknown."""
        return images_present(self.socket, self.timeout_seconds, names)

    def locked(self, names: Iterable[str]) -> Mapping[str, str]:
        """Which of these images a static pod can't use although they are here, and why. Raises RuntimeUnknown."""
        folder = self.pull_records
        if folder is None:
            return {}
        ids = image_ids(self.socket, self.timeout_seconds, names)
        why = {name: pull_records.locked(folder, name, found) for name, found in ids.items()}
        return {name: text for name, text in why.items() if text}

    def static_pods(self) -> frozenset[Workload]:
        """Static pods of others on this node."""
        return self._manifests.workloads()

    def unready(self, pod: Pod, instances: int) -> str:
        """Why a pod isn't ready by our own asking; empty when it is, or can't be asked. `instances`: how many pods of
        its workload run on this node, standby pods included.
        """
        why = readiness_probes.unready(pod, instances)
        if not why and etcd_health.is_away(pod, self.timeout_seconds):
            return "none of the etcd servers in its flag --etcd-servers is healthy"
        return why

    def blocked(self, workload: Workload, number: int) -> bool:
        """Whether the etcd that this generation needs doesn't answer."""
        try:
            return etcd_health.is_away(self.store.static_pod(workload, number), _BLOCKED_SECONDS)
        except (StoreError, KeyError, TypeError):
            return False
