"""A rotation's phases as pipelines: what trusts the old CA trusts the new one too, and the way out of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from upgrader.gates.manifest_workloads import workloads_in
from upgrader.gates.release_gates import GateCatalog
from upgrader.model.ca_trust import CaTrust
from upgrader.model.cluster import Cluster, Host
from upgrader.model.workload import WorkloadRef
from upgrader.pipeline import GateRun, Pipeline, PipelineStep
from upgrader.ports import Tools
from upgrader.preflight.renewed_certificates import COMPONENTS
from upgrader.renewal.authority_on_host import AuthorityOnHost, NewAuthority
from upgrader.renewal.gates import API_SERVER, InUseGate
from upgrader.renewal.onhost.bundles import trusted_by
from upgrader.renewal.trust_gates import AcceptedGate, PublishedGate
from upgrader.renewal.trust_steps import (
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

__all__ = ["RELEASE", "Rotation"]

RELEASE = "kubernetes"
"""The release of kube-controller-manager, which signs."""
_PUBLISHED_SECONDS = 270.0
"""kube-controller-manager has to lead again, and to write a ConfigMap in each namespace."""
_MARK = 16


@dataclass(frozen=True)
class Rotation:
    """What the steps are built from."""

    cluster: Cluster
    found: CaTrust
    on_host: AuthorityOnHost
    tools: Tools
    port: int
    """That of each kube-apiserver."""
    gates: GateCatalog
    release: tuple[PipelineStep, ...]
    """What gives kube-controller-manager the file that the phase's values have for the CA that signs."""

    def trust(self, settings: Callable[[], Mapping[str, object]]) -> Pipeline:
        """`settings`: what of kubeadm's configuration decides on a CA's form. Raises ApiError.

        Nothing that a later step reads is there before the step that makes it, and each is undone in the opposite
        order: pods end last, and begin again once all files are as they were.
        """
        new = NewAuthority(self.on_host, self.found.keeper or self.cluster.controllers[0])
        cluster = self.gates.of_cluster()
        in_use = self._run(InUseGate(self.tools.kube, self.tools.hosts, self.cluster.controllers))
        steps: list[PipelineStep] = []
        if not self.found.trusted:
            always = self.gates.of_controllers()
            steps.append(PipelineStep(NewCaStep(self.tools.kube, new, lambda: dict(settings())), always, always))
            steps.append(PipelineStep(SigningFileStep(self.on_host, self.cluster.controllers), (), ()))
            steps += self.release
            back = WayBackStep(self._rolled((*self._leaders, *self._others)))
            steps.append(PipelineStep(back, (), (*self._own(), in_use, *always)))
            for node in self.found.nodes:
                step = self._node(node.host, lambda: new.pem)
                accepted = self._run(AcceptedGate(self.tools.kube, new, node.host, self._port(node.host)))
                steps.append(PipelineStep(step, (accepted, *cluster), always))
        info = ClusterInfoStep(self.tools.kube, self.found.signs, lambda: new.pem)
        if self._info_lacks():
            steps.append(PipelineStep(info, (), ()))
        published = self._published(lambda: new.fingerprint, trusted=True)
        for name, workloads in (("roll-out leaders", self._leaders), ("roll-out others", self._others)):
            if steps or self._unmarked(workloads):
                rolled = RollOutStep(self._rolled(workloads), lambda: new.fingerprint, name)
                steps.append(PipelineStep(rolled, (*self._own(), in_use, published, *cluster), ()))
        return Pipeline(tuple(steps))

    def cancel(self) -> Pipeline:
        """Out of trust: nothing may present what the new CA has issued. Raises ApiError."""
        which, cluster = self.found.new, self.gates.of_cluster()
        info = ClusterInfoStep(self.tools.kube, self.found.signs, lambda: which, trusted=False)
        steps = [PipelineStep(info, (), ())]
        steps += [
            PipelineStep(self._node(node.host, lambda: which, trusted=False), cluster, ())
            for node in self.found.nodes
            if node.late or node.trusting(which)
        ]
        steps.append(PipelineStep(AggregatedApisStep(self.tools.kube, which), (), ()))
        steps += self.release
        rolled = RollOutStep(self._rolled((*self._leaders, *self._others)), lambda: "", "pods-before")
        in_use = self._run(InUseGate(self.tools.kube, self.tools.hosts, self.cluster.controllers))
        published = self._published(lambda: which, trusted=False)
        steps.append(PipelineStep(rolled, (*self._own(), in_use, published, *cluster), ()))
        forget = ForgetCaStep(self.on_host, self.cluster.controllers)
        return Pipeline((*steps, PipelineStep(forget, cluster, ())))

    def _node(self, host: Host, new: Callable[[], str], *, trusted: bool = True) -> NodeTrustStep:
        tools = self.tools
        return NodeTrustStep(self.on_host, tools.kube, tools.clock, host, self.found.signs, new, trusted)

    def _port(self, host: Host) -> int | None:
        return self.port if host in self.cluster.controllers else None

    def _rolled(self, workloads: tuple[WorkloadRef, ...]) -> RollOut:
        tools = self.tools
        return RollOut(tools.kube, tools.hosts, tools.clock, self.cluster.controllers, workloads)

    @property
    def _leaders(self) -> tuple[WorkloadRef, ...]:
        return tuple(WorkloadRef("Deployment", API_SERVER.namespace, name) for name in COMPONENTS)

    @property
    def _others(self) -> tuple[WorkloadRef, ...]:
        """kube-proxy and CoreDNS, where the release has them: clients of the API that trust what their pod is told."""
        return tuple(ref for ref in workloads_in(self._manifest, API_SERVER.namespace) if ref not in self._leaders)

    @property
    def _manifest(self) -> str:
        return self.tools.helm.manifest(RELEASE, API_SERVER.namespace)

    def _own(self) -> tuple[GateRun, ...]:
        return self.gates.own(RELEASE, self._manifest, namespace=API_SERVER.namespace, target=None)

    def _published(self, which: Callable[[], str], *, trusted: bool) -> GateRun:
        gate = PublishedGate(self.tools.kube, which, trusted)
        paced = self.gates.paced
        return GateRun(gate, replace(paced, deadline_seconds=max(paced.deadline_seconds, _PUBLISHED_SECONDS)))

    def _run(self, gate: AcceptedGate | InUseGate) -> GateRun:
        return self.gates.run(gate)

    def _info_lacks(self) -> bool:
        """Whether ConfigMap cluster-info trusts the old CA alone."""
        found = trusted_by(cluster_info(self.tools.kube))
        return any(self.found.signs in each and self.found.new not in each for each in found)

    def _unmarked(self, workloads: tuple[WorkloadRef, ...]) -> bool:
        marks = [annotated(self.tools.kube, ref) for ref in workloads]
        return any(mark is not None and mark != self.found.new[:_MARK] for mark in marks)
