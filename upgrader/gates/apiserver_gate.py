"""The gate of kube-apiserver: every instance, and the API that all of them serve."""

from __future__ import annotations

from collections.abc import Mapping, MutableSet
from dataclasses import dataclass, field

from upgrader.errors import ApiError, ApiUnavailable
from upgrader.gates.api_absence import not_ready, unanswered
from upgrader.gates.api_round_trip import round_trip
from upgrader.gates.apiserver_instance import ask_instance, instance_address
from upgrader.gates.kubernetes_kinds import PODS
from upgrader.gates.remedies import describe_workload
from upgrader.gates.workload_diagnosis import diagnose_workload
from upgrader.gates.workload_reading import read_workload
from upgrader.model.api_lifecycle import Minor
from upgrader.model.cluster import Cluster, Host
from upgrader.model.emulation import ServerVersion, minor_of, minor_text
from upgrader.model.outcome import Verdict, VerdictKind, holds, pending, unknown
from upgrader.model.version import KubernetesVersion
from upgrader.model.workload import Pod, WorkloadRef
from upgrader.ports import Kube

__all__ = ["ApiServerGate"]

_CONTAINER = "kube-apiserver"


@dataclass(frozen=True)
class ApiServerGate:
    """Each controller's pod is Ready, and answers `/readyz` and `/version`; a test object can be written and read.

    `target` None accepts any version, and any emulation. The test object is a ConfigMap
    `upgrader-probe-…` in kube-system, which is deleted: the only change that any gate makes.
    """

    kube: Kube
    cluster: Cluster
    ref: WorkloadRef
    target: KubernetesVersion | None = None
    port: int = 6443
    """On which the instances listen, at their nodes' own addresses."""
    unreachable: MutableSet[str] = field(default_factory=set)
    """The instances that can't be reached from here, as `ask_instance` finds out."""
    emulated: Minor | None = None
    """The minor that they are to emulate; None: their own."""
    compatible: Minor | None = None
    """The oldest minor beside which they are to serve; None: any."""

    @property
    def name(self) -> str:
        return "apiserver"

    def check(self) -> Verdict:
        # The pods first: while an old pod shares the address, it may answer instead of the new one.
        verdict = diagnose_workload(self.kube, self.ref)
        if verdict.kind is not VerdictKind.HOLDS:
            return verdict
        try:
            pods = self._placed()
            return self._missing(pods) or self._leaving() or self._instances(pods) or self._round_trip()
        except ApiError as error:
            return unanswered("kube-apiserver", error)

    def _placed(self) -> Mapping[str, Pod]:
        """The Ready pod of each controller that has one."""
        reading = read_workload(self.kube, self.ref)
        return {pod.node: pod for pod in reading.newest if pod.ready} if reading else {}

    def _missing(self, pods: Mapping[str, Pod]) -> Verdict | None:
        without = [host.name for host in self.cluster.controllers if host.name not in pods]
        if not without:
            return None
        return pending(f"{self.ref}: no Ready pod on {', '.join(without)}", remedy=describe_workload(self.ref))

    def _leaving(self) -> Verdict | None:
        """Also of another workload: a DaemonSet may have replaced a Deployment, or the reverse."""
        leaving = [
            pod.name
            for host in self.cluster.controllers
            for pod in map(Pod.parse, self.kube.list(PODS, self.ref.namespace, fields=f"spec.nodeName={host.name}"))
            if pod.deleting and any(container.name == _CONTAINER for container in pod.containers)
        ]
        if not leaving:
            return None
        return pending(
            f"{self.ref}: old pods are still terminating, and may answer requests: {', '.join(leaving)}",
            remedy=f"Find out why they don't terminate: kubectl -n {self.ref.namespace} describe pod {leaving[0]}",
        )

    def _instances(self, pods: Mapping[str, Pod]) -> Verdict | None:
        for host in self.cluster.controllers:
            problem = self._instance(host, pods[host.name])
            if problem is not None:
                return problem
        return None

    def _instance(self, host: Host, pod: Pod) -> Verdict | None:
        server = instance_address(pod, self.port)
        try:
            if problem := not_ready(self._ask(pod, "/readyz")):
                raise ApiUnavailable(problem)
        except ApiUnavailable as error:
            return unanswered(f"kube-apiserver on {host.name}", error)
        except ApiError as error:
            return pending(
                f"kube-apiserver on {host.name} is not ready",
                *error.message.splitlines(),
                remedy=f"Check which readiness check fails: kubectl get --raw '/readyz?verbose' --server {server}",
            )
        if self.target is None:
            return None
        try:
            running = ServerVersion.parse(self._ask(pod, "/version"))
        except ValueError as error:
            return unknown(
                f"kube-apiserver on {host.name} does not report its version: {error}",
                remedy=f"Check what answers there: kubectl get --raw /version --server {server}",
            )
        differs = self._differs(running, self.target)
        if differs:
            return pending(f"kube-apiserver on {host.name} {differs}", remedy=describe_workload(self.ref))
        return None

    def _differs(self, running: ServerVersion, target: KubernetesVersion) -> str:
        """What an instance is instead of what was asked; what it doesn't report doesn't differ, unless it was asked."""
        if running.binary != target:
            return f"is {running.binary}, not {target}"
        wanted = self.emulated or minor_of(target)
        if running.emulated != wanted and (running.emulated or self.emulated):
            return f"emulates {_minor(running.emulated)}, not {_minor(wanted)}"
        if self.compatible and running.compatible != self.compatible:
            return f"is compatible with {_minor(running.compatible)}, not with {_minor(self.compatible)}"
        return ""

    def _ask(self, pod: Pod, path: str) -> str:
        return ask_instance(self.kube, pod, self.port, path, unreachable=self.unreachable)

    def _round_trip(self) -> Verdict:
        problem = round_trip(self.kube)
        if problem:
            return pending(
                f"kube-apiserver: {problem}",
                remedy="Check etcd, and the log of kube-apiserver: kubectl get --raw '/readyz?verbose'",
            )
        count = len(self.cluster.controllers)
        version = f" at {self.target}" if self.target else ""
        if self.target and self.emulated:
            version += f", emulating {_minor(self.emulated)}"
        return holds(f"kube-apiserver: {count} of {count} instances ready{version}; write, watch and read work")


def _minor(minor: Minor | None) -> str:
    return minor_text(minor) if minor else "an unknown minor"
