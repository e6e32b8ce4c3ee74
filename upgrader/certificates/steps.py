"""The steps of a renewal: each controller's certificates, then a restart of the pods that read theirs only at start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.certificates.kubeadm_on_host import KubeadmOnHost
from upgrader.errors import ApiError, HostError, StepFailed
from upgrader.gates.kubernetes_kinds import WORKLOADS
from upgrader.model.cluster import Host
from upgrader.model.counted import counted
from upgrader.model.release import RestartedBefore, RestorePoint
from upgrader.ports import Clock, Kube

__all__ = ["RESTARTED_AT", "RenewStep", "RestartStep"]

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""kubectl's annotation, as `kubectl rollout restart` sets it: no release contains it, and Helm leaves it alone."""

_DEPLOYMENTS = WORKLOADS["Deployment"]
_SYSTEM = "kube-system"


@dataclass(frozen=True)
class RenewStep:
    """Renews certificates on one controller, with the kubeadm installed there; undo restores its files.

    Can be repeated from any state: kubeadm then renews them again.
    """

    kubeadm: KubeadmOnHost
    host: Host
    certificates: tuple[str, ...]
    """By kubeadm's names."""
    renewal: str
    """Identifies the files kept on the controller: undo restores those of no other run."""

    @property
    def name(self) -> str:
        return f"certificates {self.host.name}"

    def summary(self) -> str:
        return f"kubeadm certs renew {', '.join(self.certificates)}"

    def capture(self) -> RestorePoint:
        """The controller keeps the files itself, before the first of them changes: keys never leave it."""
        return RestorePoint()

    def apply(self, note: Callable[[str], None]) -> None:
        try:
            changed = self.kubeadm.renew(self.host, self.renewal, self.certificates)
        except HostError as error:
            raise StepFailed(error.message, remedy=error.remedy) from error
        note(f"{self.host.name}: {counted(len(changed), 'file')} replaced")

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Raises HostError."""
        changed = self.kubeadm.put_back(self.host, self.renewal)
        note(f"{self.host.name}: {counted(len(changed), 'file')} restored")


@dataclass(frozen=True)
class RestartStep:
    """Replaces the pods of Deployments, as `kubectl rollout restart` does; undo returns to the previous pods."""

    kube: Kube
    clock: Clock
    deployments: tuple[str, ...]
    name: str = "restart"

    def summary(self) -> str:
        return f"restart {', '.join(self.deployments)}: they read their certificate only at start"

    def capture(self) -> RestorePoint:
        return RestorePoint(restarted=tuple(RestartedBefore(name, self._now_at(name)) for name in self.deployments))

    def apply(self, note: Callable[[str], None]) -> None:
        at = f"{self.clock.now():%Y-%m-%dT%H:%M:%SZ}"
        try:
            for name in self.deployments:
                self._write(name, at)
        except ApiError as error:
            raise StepFailed(f"Deployment {name}: {error.message}", remedy=error.remedy) from error
        note(f"{', '.join(self.deployments)}: new pods replace the old ones")

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Raises ApiError."""
        for before in point.restarted:
            self._write(before.deployment, before.at or None)

    def _now_at(self, name: str) -> str:
        found = self.kube.get(_DEPLOYMENTS, name, _SYSTEM)
        if found is None:
            raise StepFailed(
                f"Deployment {_SYSTEM}/{name} no longer exists",
                remedy="Find out who deleted it, and reinstall its release. To see the release's revisions: helm "
                f"history kubernetes -n {_SYSTEM}",
            )
        annotations = found["spec"]["template"].get("metadata", {}).get("annotations") or {}
        return str(annotations.get(RESTARTED_AT, ""))

    def _write(self, name: str, at: str | None) -> None:
        changes = {"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: at}}}}}
        self.kube.patch(_DEPLOYMENTS, name, changes, _SYSTEM)
