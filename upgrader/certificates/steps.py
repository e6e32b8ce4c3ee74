"""The steps of a renewal: each controller's certificates, then a restart of what reads its own only at its start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.certificates.kubeadm_on_host import KubeadmOnHost
from upgrader.errors import ApiError, HostError, StepFailed
from upgrader.gates.kubernetes_kinds import WORKLOADS
from upgrader.model.cluster import Host
from upgrader.model.release import RestartedBefore, RestorePoint
from upgrader.ports import Clock, Kube

__all__ = ["RESTARTED_AT", "RenewStep", "RestartStep"]

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""kubectl's own, as `kubectl rollout restart` writes it: no release has it, and Helm leaves it where it is."""

_DEPLOYMENTS = WORKLOADS["Deployment"]
_SYSTEM = "kube-system"


@dataclass(frozen=True)
class RenewStep:
    """Renews certificates on one controller, with the kubeadm that is there; undo puts its files back.

    Can be repeated from any state: kubeadm then renews them once more.
    """

    kubeadm: KubeadmOnHost
    host: Host
    certificates: tuple[str, ...]
    """By kubeadm's names."""
    renewal: str
    """Names what is kept on the controller: undo puts back no other run's."""

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
        note(f"{self.host.name}: {len(changed)} files are new")

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Raises HostError."""
        changed = self.kubeadm.put_back(self.host, self.renewal)
        note(f"{self.host.name}: {len(changed)} files are as they were before")


@dataclass(frozen=True)
class RestartStep:
    """Replaces the pods of Deployments, as `kubectl rollout restart` does; undo returns to the pods before."""

    kube: Kube
    clock: Clock
    deployments: tuple[str, ...]
    name: str = "restart"

    def summary(self) -> str:
        return f"roll out {', '.join(self.deployments)}: they read their certificate once, at their start"

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
                f"Deployment {_SYSTEM}/{name} is gone",
                remedy=f"Find out who deleted it, and install it again: helm history kubernetes -n {_SYSTEM}",
            )
        annotations = found["spec"]["template"].get("metadata", {}).get("annotations") or {}
        return str(annotations.get(RESTARTED_AT, ""))

    def _write(self, name: str, at: str | None) -> None:
        changes = {"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: at}}}}}
        self.kube.patch(_DEPLOYMENTS, name, changes, _SYSTEM)
