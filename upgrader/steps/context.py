"""What every kind builds its steps from, and the gates of upgrader.yaml that go with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

from upgrader.gates.gate_catalog import GateCatalog
from upgrader.gates.gate_memory import GateMemory
from upgrader.gates.shared_reads import ReadMemory, SharedReads
from upgrader.model.bundle_index import BundledImages, BundleIndex
from upgrader.model.cluster import Cluster
from upgrader.model.gate_settings import OF_GUARD, MetricGateSettings, StepGate, WorkloadGate
from upgrader.model.health_before import HealthBefore
from upgrader.model.settings import Settings
from upgrader.pipeline import GateRun, PipelineStep
from upgrader.ports import Age, Tools
from upgrader.steps.planned import PlannedStep
from upgrader.steps.verify import VerifyStep

__all__ = ["ImageSource", "StepContext"]


class ImageSource(Protocol):
    """An open bundle."""

    @property
    def index(self) -> BundleIndex:
        """What it has."""
        ...

    def content(self, images: BundledImages) -> Iterator[bytes]:
        """An image archive, piece by piece. Raises UsageError if it doesn't match its checksum."""
        ...


@dataclass(frozen=True)
class StepContext:
    """One cluster, and how it is worked on."""

    settings: Settings
    cluster: Cluster
    tools: Tools
    health_before: HealthBefore | None = None
    """The cluster before the run; None where nothing is known of it."""
    memory: GateMemory = field(default_factory=GateMemory)
    age: Age | None = None
    """What encrypts backups; None where a minor upgrade begins without one."""

    @property
    def gates(self) -> GateCatalog:
        """The gates of this cluster."""
        kube, settings = self.shared_reads(self.memory.reads), self.settings
        spare = settings.unhealthy_workers
        return GateCatalog(kube, self.tools.clock, self.cluster, settings.gates, self.health_before, spare, self.memory)

    def shared_reads(self, memory: ReadMemory) -> SharedReads:
        """The API, of which is read once what several ask for."""
        return SharedReads(self.tools.kube, self.tools.clock, memory, self.settings.shortest_interval_seconds)

    def approved(self, planned: PlannedStep, built: PipelineStep) -> PipelineStep:
        """The same step, which waits for an approval if upgrader.yaml has one before it, and it changes anything."""
        seconds = self.settings.approvals.get(planned.name)
        return replace(built, approval_seconds=seconds) if built.changes else built

    def verified(self, planned: PlannedStep) -> PipelineStep:
        """A step with nothing to change, and the gates of the cluster."""
        return PipelineStep(VerifyStep(planned.name), self.gates.of_cluster(), (), changes=False)

    def further_gates(self, step: PlannedStep) -> tuple[GateRun, ...]:
        """The gates of upgrader.yaml behind a planned step, in addition to its own."""
        gates = self._of_file(step.name)
        workloads = (self.gates.of_workload(gate) for gate in gates if isinstance(gate, WorkloadGate))
        metrics = [gate for gate in gates if isinstance(gate, MetricGateSettings)]
        if step.disturbs:
            metrics += self.settings.metric_gates
        return (*workloads, *map(self._metric, metrics))

    def further_undo_gates(self, step: str) -> tuple[GateRun, ...]:
        """Those of them that a rollback waits for, too: others than Helm replace these pods, and Helm knows nothing."""
        gates = (gate for gate in self._of_file(step) if isinstance(gate, WorkloadGate) and gate.kind in OF_GUARD)
        return tuple(map(self.gates.of_workload, gates))

    def groups(self, step: str) -> frozenset[str]:
        """The rollout groups that gates of upgrader.yaml wait for behind a step: held still, they would never pass."""
        gates = (gate for gate in self._of_file(step) if isinstance(gate, WorkloadGate) and gate.kind == "rolloutGroup")
        return frozenset(f"{gate.namespace}/{gate.name}" for gate in gates)

    def _of_file(self, step: str) -> tuple[StepGate, ...]:
        item = next((item for item in self.settings.pipeline if item.name == step), None)
        return item.gates if item else ()

    def _metric(self, gate: MetricGateSettings) -> GateRun:
        assert self.tools.prometheus is not None, "a file with metric gates and without a Prometheus is refused"
        return self.gates.of_metric(self.tools.prometheus, gate)
