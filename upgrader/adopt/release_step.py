"""Steps on the charts' releases that only adoption and its undo need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.adopt.originals import forget, put_back
from upgrader.errors import RollbackFailed
from upgrader.model.cluster import Host
from upgrader.model.release import RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Helm, Hosts, Kube
from upgrader.steps.helm_release import ChartStep

__all__ = ["ForgetCheckpointsStep", "TakeOverStep", "UninstallStep"]

_SYSTEM = "kube-system"
_UNINSTALL_SECONDS = 120.0


@dataclass(frozen=True)
class TakeOverStep:
    """Installs a release over objects that kubeadm made; undo also restores those."""

    chart: ChartStep
    kube: Kube
    version: KubernetesVersion

    @property
    def name(self) -> str:
        return self.chart.name

    def summary(self) -> str:
        return f"{self.chart.summary()}, taking over kubeadm's kube-proxy and CoreDNS"

    def capture(self) -> RestorePoint | None:
        return self.chart.capture()

    def apply(self, note: Callable[[str], None]) -> None:
        self.chart.apply(note)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        self.chart.undo(point, note)
        if point.revision is None:
            put_back(self.kube, self.version, note)


@dataclass(frozen=True)
class UninstallStep:
    """Removes a release; for `kubernetes`, also restores what it had taken over as kubeadm made it."""

    release: str
    helm: Helm
    kube: Kube
    took_over_at: KubernetesVersion | None = None
    """The version that runs now, for the release that had taken over kube-proxy and CoreDNS."""

    @property
    def name(self) -> str:
        return f"uninstall {self.release}"

    def summary(self) -> str:
        back = "; restores kubeadm's kube-proxy and CoreDNS" if self.took_over_at else ""
        return f"helm uninstall {self.release}{back}"

    def capture(self) -> RestorePoint:
        return RestorePoint()

    def apply(self, note: Callable[[str], None]) -> None:
        if self.helm.history(self.release, _SYSTEM):
            note(f"helm uninstall {self.release}")
            self.helm.uninstall(self.release, _SYSTEM, timeout_seconds=_UNINSTALL_SECONDS)
        if self.took_over_at:
            put_back(self.kube, self.took_over_at, note)
            forget(self.kube)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        raise RollbackFailed(f"release {self.release} was uninstalled", remedy="Run: upgrader adopt")


@dataclass(frozen=True)
class ForgetCheckpointsStep:
    """Removes the checkpoints from the controllers' disks, which the checkpointer can no longer do."""

    hosts: Hosts
    controllers: tuple[Host, ...]
    name: str = "forget-checkpoints"

    def summary(self) -> str:
        return "remove the checkpoints from the controllers"

    def capture(self) -> None:
        return None

    def apply(self, note: Callable[[str], None]) -> None:
        script = "rm -f /etc/kubernetes/manifests/checkpoint-*.json; rm -rf /etc/kubernetes/checkpointer"
        for host in self.controllers:
            self.hosts.run(host, ["sh", "-c", script])

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing to undo: a checkpointer writes its checkpoints again."""
