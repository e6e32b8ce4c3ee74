"""Steps on the charts' releases that only adoption and its undo need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from upgrader.adopt.addon_originals import Originals
from upgrader.adopt.addon_originals_check import TAKEN_OVER, add_ons
from upgrader.adopt.running_addons import NOTHING_RUNS, RunningAddons
from upgrader.errors import RollbackFailed
from upgrader.model.cluster import Host
from upgrader.model.release import RestorePoint, last_good
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Helm, Hosts, Kind
from upgrader.steps.release.helm_release import ChartStep

__all__ = ["FORGET", "ForgetCheckpointsStep", "NewCheckpointsStep", "TakeOverStep", "UninstallStep"]

_SYSTEM = "kube-system"
_UNINSTALL_SECONDS = 120.0


@dataclass(frozen=True)
class TakeOverStep:
    """Installs a release over objects that kubeadm made; undo also restores those."""

    chart: ChartStep
    originals: Originals
    version: KubernetesVersion
    objects: Sequence[tuple[Kind, str]] = TAKEN_OVER
    """Those that it takes over."""

    @property
    def name(self) -> str:
        return self.chart.name

    def summary(self) -> str:
        names = add_ons(self.objects)
        return f"{self.chart.summary()}, taking over kubeadm's {names}" if names else self.chart.summary()

    def capture(self) -> RestorePoint | None:
        return self.chart.capture()

    def apply(self, note: Callable[[str], None]) -> None:
        self.chart.apply(note)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        # Read first: nothing is removed that could not be restored.
        manifests = self.originals.read() if point.revision is None else ()
        self.chart.undo(point, note)
        if manifests:
            self.originals.restore(manifests, self.version, note)


@dataclass(frozen=True)
class UninstallStep:
    """Removes a release; for `kubernetes`, also restores what it had taken over as kubeadm made it."""

    release: str
    helm: Helm
    took_over: Originals | None = None
    """For the release that had taken over kube-proxy and CoreDNS."""
    version: KubernetesVersion | None = None
    """The version that runs now; needed with `took_over`."""
    running: RunningAddons = NOTHING_RUNS
    """What runs now of what it had taken over, which keeps its images and configuration."""

    @property
    def name(self) -> str:
        return f"uninstall {self.release}"

    def summary(self) -> str:
        back = (
            "; restores the objects that it took over from kubeadm, with their current images and configuration"
            if self.took_over
            else ""
        )
        return f"helm uninstall {self.release}{back}"

    def capture(self) -> RestorePoint:
        return RestorePoint()

    def apply(self, note: Callable[[str], None]) -> None:
        installed = bool(self.helm.history(self.release, _SYSTEM))
        # Read first: nothing is removed that could not be restored. Gone with the release: an earlier undo did it.
        restore = self.took_over if self.took_over and (installed or self.took_over.kept()) else None
        manifests = restore.read() if restore else ()
        if installed:
            note(f"helm uninstall {self.release}")
            self.helm.uninstall(self.release, _SYSTEM, timeout_seconds=_UNINSTALL_SECONDS)
        if restore and self.version:
            restore.restore(manifests, self.version, note, self.running)
            restore.forget()

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        raise RollbackFailed(f"release {self.release} was uninstalled", remedy="Run: upgrader adopt")


FORGET = "rm -f /etc/kubernetes/manifests/checkpoint-*.json; rm -rf /etc/kubernetes/checkpointer"


@dataclass(frozen=True)
class NewCheckpointsStep:
    """Changes nothing; its undo removes the checkpoints that an adoption made which is rolled back.

    Left over, they would start at the next moment without an API, such as a reboot, beside kubeadm's static pods.
    """

    hosts: Hosts
    helm: Helm
    controllers: tuple[Host, ...]
    name: str = "checkpoints"

    def summary(self) -> str:
        return "a rollback also removes the checkpoints from the controllers"

    def capture(self) -> RestorePoint | None:
        """None where a pod-checkpointer was in use before: its checkpoints are not this adoption's."""
        return None if last_good(self.helm.history("pod-checkpointer", _SYSTEM)) else RestorePoint()

    def apply(self, note: Callable[[str], None]) -> None:
        """Nothing: the pod-checkpointer makes them."""

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        for host in self.controllers:
            note(f"{host.name}: removing the checkpoints")
            self.hosts.run(host, ["sh", "-c", FORGET])


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
        for host in self.controllers:
            self.hosts.run(host, ["sh", "-c", FORGET])

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Nothing to undo: a checkpointer writes its checkpoints again."""
