"""The steps by which the nodes and pods of a cluster trust a CA more, or no more."""

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
"""ConfigMap in kube-public, by which `kubeadm join` knows the cluster."""
TRUSTED_CA = "certificates.upgrader.io/trusted-ca"
"""Annotation of a pod template: which new CA was there when its pods began. Its change replaces them."""
_PUBLIC, _KUBECONFIG = "kube-public", "kubeconfig"
AUTHENTICATION = "extension-apiserver-authentication"
"""ConfigMap in kube-system, by which aggregated APIs know clients."""
_SYSTEM, _CLIENT_CA = "kube-system", "client-ca-file"
_BACK_SECONDS = 180.0
_SHOWN = 16


@dataclass(frozen=True)
class NewCaStep:
    """Has the keeper's kubeadm make the new CA, which nobody trusts yet; undo removes it."""

    kube: Kube
    new: NewAuthority
    settings: Callable[[], dict[str, object]]
    """What of kubeadm's configuration decides on a CA's form."""
    name: str = "new-ca"

    def summary(self) -> str:
        return f"kubeadm on {self.new.keeper.name} makes a CA, for root alone, which nobody trusts yet"

    def capture(self) -> RestorePoint:
        return RestorePoint()

    def apply(self, note: Callable[[str], None]) -> None:
        with as_failure():
            pem = self.new.on_host.make(self.new.keeper, self.settings())
        note(f"{self.new.keeper.name}: the new CA is {fingerprint(pem)[:_SHOWN]}")

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """The signing certificate's own file stays: the folder's values name it. Raises HostError or ApiError."""
        if which := self.new.on_host.look(self.new.keeper).made:
            _accept_no_more(self.kube, which)
        self.new.on_host.forget(self.new.keeper)


@dataclass(frozen=True)
class SigningFileStep(OneWay):
    """Gives the CA that signs a file of its own: kube-controller-manager signs with no file that has several."""

    on_host: AuthorityOnHost
    controllers: tuple[Host, ...]
    name: str = "signing-certificate"

    def summary(self) -> str:
        return "the certificate of the CA that signs, in a file of its own on each controller"

    def apply(self, note: Callable[[str], None]) -> None:
        with as_failure():
            for host in self.controllers:
                self.on_host.keep_signing(host)


@dataclass(frozen=True)
class NodeTrustStep:
    """Has a node trust the new CA as it does the old one, or (not `trusted`) no more; undo is the opposite.

    Its kubelet is restarted where it has to read its kubeconfig again; pods go on. Can be repeated from any state.
    """

    on_host: AuthorityOnHost
    kube: Kube
    clock: Clock
    host: Host
    old: str
    new: Callable[[], str]
    """PEM, where it is to be trusted or was; the fingerprint, for a way that only leads out of trust."""
    trusted: bool = True
    alone: str = "the old CA"
    """What is trusted where `new` is not."""

    @property
    def name(self) -> str:
        return f"{'trust' if self.trusted else 'distrust'} {self.host.name}"

    def summary(self) -> str:
        what = "trusts both CAs" if self.trusted else f"trusts {self.alone} alone"
        return f"{self.host.name} {what}; its kubelet is restarted, its pods go on"

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
        note(f"{self.host.name}: {len(paths)} files have changed")
        await_node(self.kube, self.clock, self.host)


@dataclass(frozen=True)
class ClusterInfoStep:
    """Has ConfigMap cluster-info trust the new CA too, or (not `trusted`) no more; undo is the opposite."""

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
    """Has aggregated APIs trust the clients of a CA no more: kube-apiserver adds its CAs, and takes none away."""

    kube: Kube
    which: str
    """The CA's fingerprint."""
    name: str = "aggregated-apis"

    def summary(self) -> str:
        return f"ConfigMap {AUTHENTICATION} has one CA of clients"

    def apply(self, note: Callable[[str], None]) -> None:
        with as_failure():
            _accept_no_more(self.kube, self.which)


@dataclass(frozen=True)
class RollOut:
    """Replaces the pods of workloads that read what they trust at their start, where they began before it changed."""

    kube: Kube
    hosts: Hosts
    clock: Clock
    controllers: tuple[Host, ...]
    workloads: tuple[WorkloadRef, ...]

    def begin(self, new: str) -> None:
        """Mark the pods with the new CA's fingerprint, or ("") with none, as they were. Raises ApiError or HostError.

        Whose pods have that mark already, and have not read their kubeconfig since it changed, is told to restart.
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
    """Has pods begin anew that read what they trust at their start; `new` "": as they were before."""

    roll_out: RollOut
    new: Callable[[], str]
    """The fingerprint that the pods are marked with."""
    name: str

    def summary(self) -> str:
        names = ", ".join(ref.name for ref in self.roll_out.workloads)
        return f"roll out {names}: they read what they trust at their start"

    def apply(self, note: Callable[[str], None]) -> None:
        with as_failure():
            self.roll_out.begin(self.new())


@dataclass(frozen=True)
class WayBackStep:
    """Changes nothing; its undo, which comes when files are as they were, has the pods read them."""

    roll_out: RollOut
    name: str = "pods-before"

    def summary(self) -> str:
        return "pods are replaced once more, if this is rolled back"

    def capture(self) -> RestorePoint:
        return RestorePoint()

    def apply(self, note: Callable[[str], None]) -> None:
        """Nothing."""

    def undo(self, point: RestorePoint, note: Callable[[str], None]) -> None:
        """Raises ApiError or HostError."""
        self.roll_out.begin("")


@dataclass(frozen=True)
class ForgetCaStep(OneWay):
    """Removes from the nodes what a rotation has left, in their order: nobody trusts that CA any more."""

    on_host: AuthorityOnHost
    nodes: tuple[Host, ...]
    which: str = "new"

    @property
    def name(self) -> str:
        return f"forget-{self.which}-ca"

    def summary(self) -> str:
        return f"the {self.which} CA is removed, with its key"

    def apply(self, note: Callable[[str], None]) -> None:
        with as_failure():
            for host in self.nodes:
                self.on_host.forget(host, signing=True)


def await_node(kube: Kube, clock: Clock, host: Host) -> None:
    """Wait until a node is there again, after its kubelet was restarted. Raises StepFailed."""
    back: list[Callable[[], str]] = []

    def missing() -> str:
        if not back:
            node = kube.get(NODES, host.name)
            if node is None:
                return "it is not in the cluster"
            version = KubernetesVersion.parse(str(node["status"]["nodeInfo"]["kubeletVersion"]))
            back.append(NodeReturn(kube).back(host.name, version, with_pods=False))
        return back[0]()

    if left := wait_until(clock, missing, seconds=_BACK_SECONDS):
        raise StepFailed(
            f"{host.name}: it is not back {_BACK_SECONDS:.0f} s after its kubelet was restarted: {left}",
            remedy=f"On {host.name}: journalctl -u kubelet",
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
    """The CAs whose clients aggregated APIs are told to accept, as PEM. Raises ApiError."""
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
    """What goes wrong in a step is its failure, with the cause's words."""
    try:
        yield
    except (ApiError, HostError) as error:
        raise StepFailed(error.message, remedy=error.remedy) from error
