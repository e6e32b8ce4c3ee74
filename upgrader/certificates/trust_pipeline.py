"""A rotation's phases as pipelines: everything first trusts both CAs, and then only one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from upgrader.certificates.authority_on_host import AuthorityOnHost, NewAuthority
from upgrader.certificates.gates import API_SERVER, InUseGate
from upgrader.certificates.pipeline import api_server_flags
from upgrader.certificates.trust_gates import AcceptedGate, AggregatedGate, PublishedGate
from upgrader.certificates.trust_steps import (
    AggregatedApisStep,
    ClusterInfoStep,
    ForgetCaStep,
    NewCaStep,
    NodeTrustStep,
    RollOut,
    RollOutStep,
    SigningFileStep,
    WayBackStep,
    annotated,
    cluster_info,
)
from upgrader.gates.gate_catalog import GateCatalog
from upgrader.gates.manifest_workloads import workloads_in
from upgrader.model.ca_trust import CaTrust
from upgrader.model.cluster import Cluster, Host
from upgrader.model.workload import WorkloadRef
from upgrader.onhost.certificates.bundles import trusted_by
from upgrader.pipeline import GateRun, Pipeline, PipelineStep
from upgrader.ports import Tools
from upgrader.preflight.renewed_certificates import COMPONENTS

__all__ = ["RELEASE", "Rotation"]

RELEASE = "kubernetes"
"""The release of kube-controller-manager, which signs certificates."""
_PUBLISHED_SECONDS = 270.0
"""kube-controller-manager must become leader again, and write a ConfigMap in each namespace."""
_INSTANCE_SECONDS = 180.0
"""For each kube-apiserver that is replaced: Helm waits for that in an upgrade, but is not used here."""
_MARK = 16
_SERVERS = "roll-out kube-apiserver"
_CLIENTS = "client-ca-file"
"""kube-apiserver's flag for the file that it reloads itself."""


@dataclass(frozen=True)
class Rotation:
    """Inputs of the steps."""

    cluster: Cluster
    found: CaTrust
    on_host: AuthorityOnHost
    tools: Tools
    port: int
    """That of each kube-apiserver."""
    gates: GateCatalog
    release: tuple[PipelineStep, ...]
    """The steps that give kube-controller-manager the signing CA's file that the phase's values name."""

    def trust(self, settings: Callable[[], Mapping[str, object]]) -> Pipeline:
        """`settings`: the fields of kubeadm's configuration that determine a CA's form. Raises ApiError.

        Each step comes after those that create its inputs. The undo runs in reverse order, so pods are restarted once
        all files are restored.
        """
        new = NewAuthority(self.on_host, self.found.keeper or self.cluster.controllers[0])
        cluster = self.gates.of_cluster()
        in_use = self.in_use()
        steps: list[PipelineStep] = []
        if not self.found.trusted:
            always = self.gates.of_controllers()
            steps.append(PipelineStep(NewCaStep(self.tools.kube, new, lambda: dict(settings())), always, always))
            steps.append(PipelineStep(SigningFileStep(self.on_host, self.cluster.controllers), (), ()))
            steps += self.release
            if servers := self._readers():
                back = WayBackStep(self._rolled(servers), f"{API_SERVER.name}-before")
                steps.append(PipelineStep(back, (), (*self._own_of_servers(), *always)))
            back = WayBackStep(self._rolled((*self._leaders, *self._others)))
            steps.append(PipelineStep(back, (), (*self.own(), in_use, *always)))
            for node in self.found.nodes:
                kube, clock = self.tools.kube, self.tools.clock
                step = NodeTrustStep(self.on_host, kube, clock, node.host, self.found.old, lambda: new.pem)
                steps.append(PipelineStep(step, (self._accepted(new.keeper, node.host), *cluster), always))
        info = ClusterInfoStep(self.tools.kube, self.found.old, lambda: new.pem)
        if self._info_lacks():
            steps.append(PipelineStep(info, (), ()))
        servers = self._readers()
        if servers and (steps or self._unmarked(servers)):
            rolled = RollOutStep(self._rolled(servers), lambda: new.fingerprint, _SERVERS)
            steps.append(PipelineStep(rolled, (*self._own_of_servers(), *cluster), ()))
        published = self._published(lambda: new.fingerprint, trusted=True)
        for name, workloads in self._rolled_in_order():
            if steps or self._unmarked(workloads):
                rolled = RollOutStep(self._rolled(workloads), lambda: new.fingerprint, name)
                steps.append(PipelineStep(rolled, (*self.own(), in_use, published, *cluster), ()))
        return Pipeline(tuple(steps))

    def cancel(self) -> Pipeline:
        """Stop trusting the new CA: no certificate of it may still be in use. Raises ApiError."""
        return self._alone(self.found.old, self.found.new, "old", "new", None)

    def finish(self) -> Pipeline:
        """Stop trusting the old CA: no certificate of it may still be in use. Raises ApiError."""
        kept = next((node.host for node in self.found.nodes if node.kept), None)
        return self._alone(self.found.new, self.found.old, "new", "old", kept)

    def _alone(self, stays: str, goes: str, staying: str, going: str, keeper: Host | None) -> Pipeline:
        """Only one of two CAs (both by their fingerprints) stays trusted. The other one's clients must then be refused;
        checked if the controller `keeper` has such a client certificate.
        """
        tools, cluster, alone = self.tools, self.gates.of_cluster(), f"the {staying} CA"
        info = ClusterInfoStep(tools.kube, stays, lambda: goes, trusted=False, alone=alone)
        steps = [PipelineStep(info, (), ())]
        unasked: tuple[GateRun, ...] = ()
        for node in self.found.nodes:
            refused = (self._accepted(keeper, node.host, accepted=False),) if keeper else ()
            if node.late or node.trusting(goes):
                step = NodeTrustStep(
                    self.on_host, tools.kube, tools.clock, node.host, stays, lambda: goes, trusted=False, alone=alone
                )
                steps.append(PipelineStep(step, (*refused, *cluster), ()))
            else:  # an interrupted run may have changed it, and not have seen its gate hold
                unasked += refused
        steps += self.release
        if servers := self._readers():
            rolled = RollOutStep(self._rolled(servers), lambda: "", _SERVERS)
            steps.append(PipelineStep(rolled, (*self._own_of_servers(), *cluster), ()))
        published = self._published(lambda: goes, trusted=False, word=f"the {going} CA")
        # The others last: before it is published what pods trust, they would begin with what goes.
        for name, workloads in self._rolled_in_order():
            rolled = RollOutStep(self._rolled(workloads), lambda: "", name)
            steps.append(PipelineStep(rolled, (*unasked, *self.own(), self.in_use(), published, *cluster), ()))
        # After all of kube-apiserver's have read their files: one that hasn't adds its CAs again.
        aggregated = self.gates.run(AggregatedGate(tools.kube, goes))
        steps.append(PipelineStep(AggregatedApisStep(tools.kube, goes), (aggregated,), ()))
        # Controllers last: what is kept there says which CA is the old one, and so that something is left to do.
        forget = ForgetCaStep(self.on_host, (*self.cluster.workers, *self.cluster.controllers), going)
        return Pipeline((*steps, PipelineStep(forget, cluster, ())))

    def own(self) -> tuple[GateRun, ...]:
        """The gates of the release. Raises ApiError."""
        return self.gates.own(RELEASE, self._manifest, namespace=API_SERVER.namespace, target=None)

    def _own_of_servers(self) -> tuple[GateRun, ...]:
        """The gates of kube-apiserver's release. Raises ApiError."""
        seconds = max(self.gates.policy.deadline_seconds, _INSTANCE_SECONDS * len(self.cluster.controllers))
        patient = replace(self.gates, policy=replace(self.gates.policy, deadline_seconds=seconds))
        manifest = self.tools.helm.manifest(API_SERVER.name, API_SERVER.namespace)
        return patient.own(API_SERVER.name, manifest, namespace=API_SERVER.namespace, target=None)

    def in_use(self) -> GateRun:
        """The gate that every component has started after its kubeconfig last changed."""
        return self.gates.run(InUseGate(self.tools.kube, self.tools.hosts, self.cluster.controllers))

    def _accepted(self, keeper: Host, host: Host, *, accepted: bool = True) -> GateRun:
        gate = AcceptedGate(self.tools.kube, self.on_host, keeper, host, self._port(host), accepted)
        return self.gates.run(gate)

    def _port(self, host: Host) -> int | None:
        return self.port if host in self.cluster.controllers else None

    def _rolled(self, workloads: tuple[WorkloadRef, ...]) -> RollOut:
        tools = self.tools
        return RollOut(tools.kube, tools.hosts, tools.clock, self.cluster.controllers, workloads)

    def _rolled_in_order(self) -> tuple[tuple[str, tuple[WorkloadRef, ...]], ...]:
        """The publisher of the CA bundle for pods first, then the pods that read it."""
        return ("roll-out leaders", self._leaders), ("roll-out others", self._others)

    def _readers(self) -> tuple[WorkloadRef, ...]:
        """kube-apiserver, if it uses the CA's file for more than client certificates: it then reads the file only at
        its start. (For kubelets, from v1.36 on, again after minutes, and only if it connects to one.) Also if an
        earlier rotation has marked it. Raises ApiError.
        """
        flags = api_server_flags(self.tools.kube)
        reads = any(value == self.on_host.authority for flag, value in flags.items() if flag != _CLIENTS)
        return (API_SERVER,) if reads or annotated(self.tools.kube, API_SERVER) else ()

    @property
    def _leaders(self) -> tuple[WorkloadRef, ...]:
        return tuple(WorkloadRef("Deployment", API_SERVER.namespace, name) for name in COMPONENTS)

    @property
    def _others(self) -> tuple[WorkloadRef, ...]:
        """kube-proxy and CoreDNS, if the release has them: API clients that trust the CA bundle of their pod."""
        return tuple(ref for ref in workloads_in(self._manifest, API_SERVER.namespace) if ref not in self._leaders)

    @property
    def _manifest(self) -> str:
        return self.tools.helm.manifest(RELEASE, API_SERVER.namespace)

    def _published(self, which: Callable[[], str], *, trusted: bool, word: str = "the new CA") -> GateRun:
        gate = PublishedGate(self.tools.kube, which, trusted, word)
        scaled = self.gates.scaled
        return GateRun(gate, replace(scaled, deadline_seconds=max(scaled.deadline_seconds, _PUBLISHED_SECONDS)))

    def _info_lacks(self) -> bool:
        """Whether ConfigMap cluster-info trusts only the old CA."""
        found = trusted_by(cluster_info(self.tools.kube))
        return any(self.found.old in each and self.found.new not in each for each in found)

    def _unmarked(self, workloads: tuple[WorkloadRef, ...]) -> bool:
        marks = [annotated(self.tools.kube, ref) for ref in workloads]
        return any(mark is not None and mark != self.found.new[:_MARK] for mark in marks)
