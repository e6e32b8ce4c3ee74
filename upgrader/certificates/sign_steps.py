"""The steps by which a new CA signs: on each controller, in kube-controller-manager, and for each kubelet."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from upgrader.certificates.authority_on_host import AuthorityOnHost
from upgrader.certificates.gates import API_SERVER
from upgrader.certificates.kubeadm_on_host import KubeadmOnHost
from upgrader.certificates.steps import RESTARTED_AT
from upgrader.certificates.trust_steps import as_failure, await_node
from upgrader.gates.kubernetes_kinds import WORKLOADS
from upgrader.model.cluster import Host
from upgrader.model.counted import counted
from upgrader.model.release import RestorePoint
from upgrader.ports import Clock, Kube
from upgrader.preflight.renewed_certificates import COMPONENTS
from upgrader.steps.one_way import OneWay

__all__ = ["KubeletCertificateStep", "LeadersBackStep", "LeadersStep", "SignStep"]


@dataclass(frozen=True)
class SignStep:
    """Makes the new CA the signing CA on a controller, and reissues the old one's certificates; undo restores the
    files.

    The controller's kubeadm issues them in a copy: all files change together, or none. Can be repeated from any state.
    """

    on_host: AuthorityOnHost
    kubeadm: KubeadmOnHost
    keeper: Host
    host: Host
    renewal: str
    """Identifies the files kept on the controller: undo restores those of no other run."""

    @property
    def name(self) -> str:
        return f"sign {self.host.name}"

    def summary(self) -> str:
        return (
            f"make the new CA the signing CA on {self.host.name}, and reissue kube-apiserver's certificates and the "
            "kubeconfigs"
        )

    def capture(self) -> RestorePoint:
        """The controller keeps the files itself, before the first of them changes."""
        return RestorePoint()

    def apply(self, note: Callable[[str], None]) -> None:
        with as_failure():
            changed = self.on_host.sign(self.host, self.renewal, self.keeper)
        note(f"{self.host.name}: {counted(len(changed), 'file')} replaced")

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Raises HostError."""
        changed = self.kubeadm.put_back(self.host, self.renewal)
        note(f"{self.host.name}: {counted(len(changed), 'file')} restored")


@dataclass(frozen=True)
class LeadersStep(OneWay):
    """Replaces the pods of kube-controller-manager and kube-scheduler: they read their kubeconfigs at their start."""

    kube: Kube
    clock: Clock
    name: str = "roll-out leaders"

    def summary(self) -> str:
        return f"restart {', '.join(COMPONENTS)}, so that they use client certificates from the new CA"

    def apply(self, note: Callable[[str], None]) -> None:
        with as_failure():
            _restart(self.kube, self.clock)


@dataclass(frozen=True)
class LeadersBackStep:
    """Changes nothing; its undo, which runs once the files are restored, makes the leaders read them."""

    kube: Kube
    clock: Clock
    name: str = "leaders-before"

    def summary(self) -> str:
        return f"on rollback only: restart {' and '.join(COMPONENTS)} again"

    def capture(self) -> RestorePoint:
        return RestorePoint()

    def apply(self, note: Callable[[str], None]) -> None:
        """Nothing."""

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Raises ApiError."""
        _restart(self.kube, self.clock)


@dataclass(frozen=True)
class KubeletCertificateStep:
    """Gives a node's kubelet a client certificate of the new CA; undo restores the previous one. The kubelet is
    restarted; pods keep running. Can be repeated: the kubelet then gets another certificate.
    """

    on_host: AuthorityOnHost
    kube: Kube
    clock: Clock
    keeper: Host
    host: Host
    renewal: str
    settings: Callable[[], Mapping[str, object]]
    """The fields of kubeadm's configuration that determine a certificate's form."""

    @property
    def name(self) -> str:
        return f"kubelet {self.host.name}"

    def summary(self) -> str:
        return f"give the kubelet of {self.host.name} a certificate from the new CA, and restart it; pods keep running"

    def capture(self) -> RestorePoint:
        """The node itself keeps the previous one."""
        return RestorePoint()

    def apply(self, note: Callable[[str], None]) -> None:
        with as_failure():
            self.on_host.renew_kubelet(self.host, self.renewal, self.keeper, self.settings())
        await_node(self.kube, self.clock, self.host, note)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Raises HostError or StepFailed."""
        if self.on_host.kubelet_back(self.host, self.renewal):
            await_node(self.kube, self.clock, self.host, note)
        note(f"{self.host.name}: the kubelet's previous certificate is restored")


def _restart(kube: Kube, clock: Clock) -> None:
    changes = {"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: f"{clock.now():%Y-%m-%dT%H:%M:%SZ}"}}}}}
    for name in COMPONENTS:
        kube.patch(WORKLOADS["Deployment"], name, changes, API_SERVER.namespace)
