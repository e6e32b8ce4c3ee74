"""The steps that add a CA to those that nodes and pods trust, or remove it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from upgrader.certificates.authority_on_host import AuthorityOnHost, NewAuthority
from upgrader.certificates.pipeline import components_to_restart
from upgrader.certificates.steps import RESTARTED_AT
from upgrader.errors import ApiError, HostError, StepFailed
from upgrader.gates.kubernetes_kinds import CONFIG_MAPS, NODES, WORKLOADS
from upgrader.gates.node_return import NodeReturn
from upgrader.model.cluster import Host
from upgrader.model.counted import counted
from upgrader.model.release import RestorePoint
from upgrader.model.version import KubernetesVersion
from upgrader.model.workload import WorkloadRef
from upgrader.onhost.certificates.bundles import added, certificates, fingerprint, in_kubeconfig, removed
from upgrader.ports import Clock, Hosts, Kube, KubeObject
from upgrader.steps.one_way import OneWay
from upgrader.wait_and_retry import wait_until

__all__ = [
    "AUTHENTICATION",
    "CLUSTER_INFO",
    "TRUSTED_CA",
    "AggregatedApisStep",
    "ClusterInfoStep",
    "ForgetCaStep",
    "NewCaStep",
    "NodeTrustStep",
    "RollOut",
    "RollOutStep",
    "SigningFileStep",
    "WayBackStep",
    "accepted_by_aggregated",
    "annotated",
    "as_failure",
    "await_node",
    "cluster_info",
]

CLUSTER_INFO = "cluster-info"
"""ConfigMap in kube-public, from which `kubeadm join` gets the cluster's CA."""
TRUSTED_CA = "certificates.upgrader.io/trusted-ca"
"""Annotation of a pod template: the new CA at the time its pods started. Changing it replaces the pods."""
_PUBLIC, _KUBECONFIG = "kube-public", "kubeconfig"
AUTHENTICATION = "extension-apiserver-authentication"
"""ConfigMap in kube-system, from which aggregated APIs get the client CAs."""
_SYSTEM, _CLIENT_CA = "kube-system", "client-ca-file"
_BACK_SECONDS = 180.0
_SHOWN = 16


@dataclass(frozen=True)
class NewCaStep:
    """Lets the keeper's kubeadm create the new CA, which is not trusted yet; undo removes it."""

    kube: Kube
    new: NewAuthority
    settings: Callable[[], dict[str, object]]
    """The fields of kubeadm's configuration that determine a CA's form."""
    name: str = "new-ca"

    def summary(self) -> str:
        return f"create a new CA with kubeadm on {self.new.keeper.name}, readable only by root and not trusted yet"

    def capture(self) -> RestorePoint:
        return RestorePoint()

    def apply(self, note: Callable[[str], None]) -> None:
        with as_failure():
            pem = self.new.on_host.make(self.new.keeper, self.settings())
        note(f"{self.new.keeper.name}: the new CA is {fingerprint(pem)[:_SHOWN]}")

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """The separate file of the signing certificate stays: the folder's values refer to it. Raises HostError or
        ApiError.
        """
        if which := self.new.on_host.look(self.new.keeper).made:
            _accept_no_more(self.kube, which)
        self.new.on_host.forget(self.new.keeper)


@dataclass(frozen=True)
class SigningFileStep(OneWay):
    """Gives the signing CA a separate file: kube-controller-manager can't sign with a file that contains several."""

    on_host: AuthorityOnHost
    controllers: tuple[Host, ...]
    name: str = "signing-certificate"

    def summary(self) -> str:
        return "write the signing CA's certificate to a separate file on each controller"

    def apply(self, note: Callable[[str], None]) -> None:
        with as_failure():
            for host in self.controllers:
                self.on_host.keep_signing(host)


@dataclass(frozen=True)
class NodeTrustStep:
    """Makes a node trust the new CA as well as the old one, or (not `trusted`) stop trusting it; undo is the opposite.
    Its kubelet is restarted if it has to reload its kubeconfig; pods keep running. Can be repeated from any state.
    """

    on_host: AuthorityOnHost
    kube: Kube
    clock: Clock
    host: Host
    old: str
    new: Callable[[], str]
    """PEM, to start trusting it or to be able to undo; the fingerprint is enough to stop trusting it."""
    trusted: bool = True
    alone: str = "the old CA"
    """The CA that is trusted without `new`."""

    @property
    def name(self) -> str:
        return f"{'trust' if self.trusted else 'distrust'} {self.host.name}"

    def summary(self) -> str:
        what = "trusts both CAs" if self.trusted else f"trusts only {self.alone}"
        return f"{self.host.name} {what}; its kubelet is restarted, its pods keep running"

    def capture(self) -> RestorePoint | None:
        return RestorePoint() if self.trusted else None

    def apply(self, note: Callable[[str], None]) -> None:
        with as_failure():
            self._change(note, trusted=self.trusted)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Raises HostError or StepFailed."""
        self._change(note, trusted=not self.trusted)

    def _change(self, note: Callable[[str], None], *, trusted: bool) -> None:
        new = self.new()
        if trusted:
            paths = self.on_host.trust(self.host, self.old, new)
        else:
            which = fingerprint(new) if certificates(new) else new
            paths = self.on_host.distrust(self.host, self.old, which)
        note(f"{self.host.name}: {counted(len(paths), 'file')} changed")
        await_node(self.kube, self.clock, self.host, note)


@dataclass(frozen=True)
class ClusterInfoStep:
    """Adds the new CA to ConfigMap cluster-info, or (not `trusted`) removes it; undo is the opposite."""

    kube: Kube
    old: str
    new: Callable[[], str]
    """As a NodeTrustStep's."""
    trusted: bool = True
    alone: str = "the old CA"
    name: str = CLUSTER_INFO

    def summary(self) -> str:
        return f"kubeadm join trusts {'both CAs' if self.trusted else f'{self.alone} alone'}"

    def capture(self) -> RestorePoint | None:
        return RestorePoint() if self.trusted else None

    def apply(self, note: Callable[[str], None]) -> None:
        with as_failure():
            self._change(trusted=self.trusted)

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Raises ApiError or HostError."""
        self._change(trusted=not self.trusted)

    def _change(self, *, trusted: bool) -> None:
        new = self.new()

        def changed(text: str) -> str:
            if self.old not in [fingerprint(each) for each in certificates(text)]:
                return text
            return added(text, new) if trusted else removed(text, fingerprint(new) if certificates(new) else new)

        before = cluster_info(self.kube)
        after = in_kubeconfig(before, changed)
        if after != before:
            self.kube.patch(CONFIG_MAPS, CLUSTER_INFO, {"data": {_KUBECONFIG: after}}, _PUBLIC)


@dataclass(frozen=True)
class AggregatedApisStep(OneWay):
    """Makes aggregated APIs stop trusting clients of a CA: kube-apiserver adds its CAs, but removes none."""

    kube: Kube
    which: str
    """The CA's fingerprint."""
    name: str = "aggregated-apis"

    def summary(self) -> str:
        return f"leave only one client CA in ConfigMap {AUTHENTICATION}"

    def apply(self, note: Callable[[str], None]) -> None:
        with as_failure():
            _accept_no_more(self.kube, self.which)


@dataclass(frozen=True)
class RollOut:
    """Replaces the pods of workloads that read their trusted CAs only at start, if they started before a change."""

    kube: Kube
    hosts: Hosts
    clock: Clock
    controllers: tuple[Host, ...]
    workloads: tuple[WorkloadRef, ...]

    def begin(self, new: str) -> None:
        """Mark the pods with the new CA's fingerprint, or ("") with none, as before. Raises ApiError or HostError.

        Workloads whose pods have that mark already, but have not read their kubeconfig since it changed, are restarted.
        """
        late = components_to_restart(self.kube, self.hosts, self.controllers, {})
        for ref in self.workloads:
            mark = annotated(self.kube, ref)
            if mark is not None and mark != new[:_SHOWN]:
                self._annotate(ref, TRUSTED_CA, new[:_SHOWN] or None)
            elif mark is not None and ref.name in late:
                self._annotate(ref, RESTARTED_AT, f"{self.clock.now():%Y-%m-%dT%H:%M:%SZ}")

    def _annotate(self, ref: WorkloadRef, key: str, value: str | None) -> None:
        changes = {"spec": {"template": {"metadata": {"annotations": {key: value}}}}}
        self.kube.patch(WORKLOADS[ref.kind], ref.name, changes, ref.namespace)


@dataclass(frozen=True)
class RollOutStep(OneWay):
    """Restarts the pods that read their trusted CAs only at start; `new` "": as before."""

    roll_out: RollOut
    new: Callable[[], str]
    """The fingerprint that the pods are marked with."""
    name: str

    def summary(self) -> str:
        names = ", ".join(ref.name for ref in self.roll_out.workloads)
        return f"restart {names}: they read their trusted CAs only at start"

    def apply(self, note: Callable[[str], None]) -> None:
        with as_failure():
            self.roll_out.begin(self.new())


@dataclass(frozen=True)
class WayBackStep:
    """Changes nothing; its undo, which runs once the files are restored, makes the pods read them."""

    roll_out: RollOut
    name: str = "pods-before"

    def summary(self) -> str:
        return "on rollback only: restart the pods again"

    def capture(self) -> RestorePoint:
        return RestorePoint()

    def apply(self, note: Callable[[str], None]) -> None:
        """Nothing."""

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Raises ApiError or HostError."""
        self.roll_out.begin("")


@dataclass(frozen=True)
class ForgetCaStep(OneWay):
    """Removes the files that a rotation left on the nodes, one node after the other: that CA is no longer trusted."""

    on_host: AuthorityOnHost
    nodes: tuple[Host, ...]
    which: str = "new"

    @property
    def name(self) -> str:
        return f"forget-{self.which}-ca"

    def summary(self) -> str:
        return f"remove the {self.which} CA and its key"

    def apply(self, note: Callable[[str], None]) -> None:
        with as_failure():
            for host in self.nodes:
                self.on_host.forget(host, signing=True)


def await_node(kube: Kube, clock: Clock, host: Host, note: Callable[[str], None]) -> None:
    """Wait until a node is Ready again after the restart of its kubelet. Raises StepFailed."""
    back: list[Callable[[], str]] = []

    def missing() -> str:
        if not back:
            node = kube.get(NODES, host.name)
            if node is None:
                return "the node does not exist"
            version = KubernetesVersion.parse(str(node["status"]["nodeInfo"]["kubeletVersion"]))
            back.append(NodeReturn(kube).back(host.name, version, with_pods=False))
        return back[0]()

    what = f"node {host.name} to be Ready after the restart of its kubelet"
    if left := wait_until(clock, missing, seconds=_BACK_SECONDS, what=what, note=note):
        raise StepFailed(
            f"{host.name}: not Ready {_BACK_SECONDS:.0f} s after the restart of its kubelet: {left}",
            remedy=f"Check the kubelet's log on {host.name}: journalctl -u kubelet",
        )


def annotated(kube: Kube, ref: WorkloadRef) -> str | None:
    """The new CA that a workload's pods are marked with; "": none; None: there is no such workload. Raises ApiError."""
    found = kube.get(WORKLOADS[ref.kind], ref.name, ref.namespace)
    return None if found is None else _mark(found)


def cluster_info(kube: Kube) -> str:
    """The kubeconfig in ConfigMap cluster-info; "" where there is none. Raises ApiError."""
    found = kube.get(CONFIG_MAPS, CLUSTER_INFO, _PUBLIC) or {}
    return str((found.get("data") or {}).get(_KUBECONFIG) or "")


def accepted_by_aggregated(kube: Kube) -> str:
    """The client CAs of aggregated APIs, as PEM. Raises ApiError."""
    found = kube.get(CONFIG_MAPS, AUTHENTICATION, _SYSTEM) or {}
    return str((found.get("data") or {}).get(_CLIENT_CA) or "")


def _accept_no_more(kube: Kube, which: str) -> None:
    before = accepted_by_aggregated(kube)
    if (after := removed(before, which)) != before:
        kube.patch(CONFIG_MAPS, AUTHENTICATION, {"data": {_CLIENT_CA: after}}, _SYSTEM)


def _mark(workload: KubeObject) -> str:
    annotations = workload["spec"]["template"].get("metadata", {}).get("annotations") or {}
    return str(annotations.get(TRUSTED_CA) or "")


@contextmanager
def as_failure() -> Iterator[None]:
    """Turns an error in a step into StepFailed, with the cause's message."""
    try:
        yield
    except (ApiError, HostError) as error:
        raise StepFailed(error.message, remedy=error.remedy) from error
