"""The gates of a renewal: what is served, and what is used, are the certificates that the files have now."""

from __future__ import annotations

from dataclasses import dataclass

from upgrader.certificates.kubeadm_on_host import KubeadmOnHost
from upgrader.errors import ApiError, HostError
from upgrader.gates.api_absence import unanswered
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.gates.remedies import describe_workload
from upgrader.gates.workload_reading import read_workload
from upgrader.model.cluster import Host
from upgrader.model.outcome import Verdict, holds, pending, unknown
from upgrader.model.workload import WorkloadRef
from upgrader.ports import Hosts, Kube
from upgrader.preflight.renewed_certificates import changed_at, used_kubeconfigs

__all__ = ["API_SERVER", "InUseGate", "ServedGate"]

API_SERVER = WorkloadRef("Deployment", "kube-system", "kube-apiserver")
_NOT_READ = (
    "Check the logs: kube-apiserver reloads its files within a minute, etcd with each connection. A pod that mounts "
    "single files doesn't see one that was replaced (by `mv`, for example) after the pod started: restart it (kubectl "
    "-n kube-system rollout restart deployment kube-apiserver), then try again."
)


@dataclass(frozen=True)
class ServedGate:
    """kube-apiserver and etcd on one controller serve the certificates in their files; checked there, at their
    addresses.
    """

    kube: Kube
    kubeadm: KubeadmOnHost
    host: Host
    certificate: str
    """The file that kube-apiserver serves, as a path on the controller."""
    port: int

    @property
    def name(self) -> str:
        return f"served/{self.host.name}"

    def check(self) -> Verdict:
        try:
            reading = read_workload(self.kube, API_SERVER)
        except ApiError as error:
            return unanswered("kube-apiserver", error)
        pods = [pod for pod in (reading.newest if reading else ()) if pod.node == self.host.name and pod.ready]
        if not pods:
            return pending(
                f"{API_SERVER}: no Ready pod on {self.host.name}",
                remedy=describe_workload(API_SERVER),
            )
        try:
            others = self.kubeadm.others(self.host, pods[0].node_address, self.port, self.certificate)
        except HostError as error:
            return unknown(error.message, remedy=error.remedy)
        if others:
            return pending(
                f"{self.host.name}: kube-apiserver or etcd still serves an old certificate",
                *others,
                remedy=_NOT_READ,
            )
        return holds(f"{self.host.name}: kube-apiserver and etcd serve the certificates in their files")


@dataclass(frozen=True)
class InUseGate:
    """Every component has started after its kubeconfig last changed."""

    kube: Kube
    hosts: Hosts
    controllers: tuple[Host, ...]
    name: str = "certificates-in-use"

    def check(self) -> Verdict:
        try:
            late = [
                f"{host.name}: {used.pod} has not read {used.path} since it changed"
                for host in self.controllers
                for used in used_kubeconfigs(self.kube.list(PODS, fields=f"spec.nodeName={host.name}"))
                if changed_at(self.hosts, host, used.path) > used.started
            ]
        except ApiError as error:
            return unanswered("the controllers' pods", error)
        except HostError as error:
            return unknown(error.message, remedy=error.remedy)
        if late:
            remedy = "Find out why the pod isn't replaced: kubectl -n kube-system get pods,events"
            return pending("old certificates are still in use", *late, remedy=remedy)
        return holds("every component uses the current certificate of its kubeconfig")
