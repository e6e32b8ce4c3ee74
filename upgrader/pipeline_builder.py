"""Builds every pipeline of releases and playbooks: forward from a plan, backward from a journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from upgrader.engine.state.run_state import RunState, StepState
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.release_gates import GateCatalog
from upgrader.gates.workload_watcher import watch_workloads
from upgrader.model.cluster import Cluster
from upgrader.model.observed import Observed
from upgrader.model.plan import Plan, PlannedPlaybook, PlannedRelease, PlannedStep
from upgrader.model.release import ReleaseSpec, RestorePoint
from upgrader.model.settings import Settings
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import GateRun, Pipeline, PipelineStep, Step
from upgrader.planner import IntendedStep, plan_run
from upgrader.ports import Tools
from upgrader.steps.free_release import FreeReleaseStep
from upgrader.steps.helm_release import ChartStep
from upgrader.steps.playbook import PlaybookStep
from upgrader.steps.playbook_markers import PlaybookInspector, PlaybookMarkers
from upgrader.steps.release_inspector import ReleaseInspector
from upgrader.steps.verify import VerifyStep

__all__ = ["PLAYBOOK_SECONDS", "PipelineBuilder"]

PLAYBOOK_SECONDS = 1800.0


@dataclass(frozen=True)
class PipelineBuilder:
    """Builds the steps and their gates for one cluster."""

    settings: Settings
    cluster: Cluster
    tools: Tools

    @property
    def gates(self) -> GateCatalog:
        """The gates of this cluster."""
        return GateCatalog(self.tools.kube, self.tools.clock, self.cluster, self.settings.gates)

    def forward(self, plan: Plan, wrap: Mapping[str, Callable[[ChartStep], Step]] | None = None) -> Pipeline:
        """A step for each planned step; `wrap` wraps the chart's step of a release, by name."""
        extra = {item.name: tuple(map(self.gates.of_workload, item.gates)) for item in self.settings.pipeline}
        wraps = wrap or {}
        freed = [self._free(step, plan) for step in plan.steps if isinstance(step, PlannedRelease) and step.pending]
        steps = [self._planned(step, plan, extra[step.name], wraps.get(step.name, _as_it_is)) for step in plan.steps]
        return Pipeline((*freed, *_gates_behind_the_first_change(steps)))

    def rollback(self, state: RunState) -> Pipeline:
        """The steps that are left to undo, each with the gates of its restore point.

        Built only from the journal and Helm's own records: edited values, a removed chart or a changed pipeline don't
        matter.
        """
        return Pipeline(tuple(self._undo(step, state.current) for step in state.rollback_order if step.to_undo))

    def replan(self, state: RunState, intended: Sequence[IntendedStep], observed: Observed) -> Plan:
        """Plan a run again as at its start, if the pipeline is still the same.

        Steps that have begun are planned from their restore points. Raises HelmError when Helm no longer has such a
        revision.
        """
        now = plan_run(intended, observed, self.settings.target)
        steps = tuple(self._as_planned(step, state) for step in now.steps)
        return Plan(state.current or observed.server, now.target, steps)

    def _as_planned(self, step: PlannedStep, state: RunState) -> PlannedStep:
        if isinstance(step, PlannedPlaybook):
            return step
        begun = state.step(step.name)
        step = replace(step, pending=FreeReleaseStep.name_for(step.name) in state.planned)
        if begun is None:
            return step
        if begun.restore_point is None:
            return replace(step, action="unchanged")
        before = self._manifest(begun.restore_point)
        return replace(step, action="upgrade" if before else "install", summary=begun.summary, before=before)

    def _planned(
        self, step: PlannedStep, plan: Plan, extra: tuple[GateRun, ...], wrap: Callable[[ChartStep], Step]
    ) -> PipelineStep:
        if isinstance(step, PlannedPlaybook):
            return self._playbook(step.playbook, extra)
        gates = self._release_gates(step.spec, step.after, plan.target) + extra
        undo_gates = self._release_gates(step.spec, step.before, plan.current)
        if step.action == "unchanged":
            return PipelineStep(VerifyStep(step.name), gates, undo_gates, changes=False)
        chart = self._chart(step.spec, step.summary, step.after)
        return PipelineStep(
            wrap(chart), gates, undo_gates, self._inspector(step.spec), watched=lambda check: wrap(chart.watched(check))
        )

    def _undo(self, step: StepState, current: KubernetesVersion | None) -> PipelineStep:
        point = step.restore_point
        assert point is not None
        if not point.release:
            return self._playbook(Path(f"{step.name}.yml"), ())
        spec = ReleaseSpec(point.release, point.namespace, Path())
        undo_gates = self._release_gates(spec, self._manifest(point), current)
        return PipelineStep(self._chart(spec, step.summary, ""), (), undo_gates, self._inspector(spec))

    def _free(self, step: PlannedRelease, plan: Plan) -> PipelineStep:
        """Free a release, with the gates of the revision that it rolls back to."""
        spec, tools, timeout = step.spec, self.tools, self.settings.helm_timeout_seconds
        free = FreeReleaseStep(spec.name, spec.namespace, tools.helm, tools.clock, timeout)
        return PipelineStep(free, self._release_gates(spec, step.before, plan.current), (), self._inspector(spec))

    def _chart(self, spec: ReleaseSpec, change: str, after: str) -> ChartStep:
        """`after` is the manifest whose workloads are watched while Helm waits for them."""
        kube, clock, patience = self.tools.kube, self.tools.clock, self.settings.recovery.patience_seconds
        return ChartStep(
            spec=spec,
            change=change,
            helm=self.tools.helm,
            timeout_seconds=self.settings.helm_timeout_seconds,
            watcher=lambda: watch_workloads(
                kube, after, clock=clock, namespace=spec.namespace, absence=ApiAbsence(kube, clock, patience)
            ),
        )

    def _playbook(self, file: Path, extra: tuple[GateRun, ...]) -> PipelineStep:
        markers = PlaybookMarkers(self.tools.hosts, self.cluster.controllers, file)
        step = PlaybookStep(file, self.cluster.inventory, self.tools.playbooks, PLAYBOOK_SECONDS, markers)
        gates = self.gates.of_cluster()
        return PipelineStep(step, gates + extra, gates, PlaybookInspector(markers))

    def _inspector(self, spec: ReleaseSpec) -> ReleaseInspector:
        return ReleaseInspector(spec, self.tools.helm, self.tools.clock, self.settings.helm_timeout_seconds)

    def _release_gates(self, spec: ReleaseSpec, manifest: str, target: KubernetesVersion | None) -> tuple[GateRun, ...]:
        return self.gates.of_release(spec.name, manifest, namespace=spec.namespace, target=target)

    def _manifest(self, point: RestorePoint) -> str:
        """What the release was before; "" when it was not installed."""
        if point.revision is None:
            return ""
        return self.tools.helm.manifest(point.release, point.namespace, point.revision)


def _as_it_is(chart: ChartStep) -> Step:
    return chart


def _gates_behind_the_first_change(steps: list[PipelineStep]) -> Iterator[PipelineStep]:
    """Move the gates of the steps before the first change behind that change.

    What is unhealthy before any change may be what the run is meant to fix: a kube-apiserver that crash-loops keeps
    the pod-checkpointer from being Ready. The preflight checks decide whether a run may begin.
    """
    first = next((index for index, item in enumerate(steps) if item.changes), 0)
    if first == 0:
        yield from steps
        return
    change = steps[first]
    moved: list[GateRun] = []
    for item in steps[:first]:
        moved += [gate for gate in item.gates if gate not in moved]
        yield PipelineStep(VerifyStep(item.step.name, change.step.name), (), (), changes=False)
    yield replace(change, gates=(*change.gates, *(gate for gate in moved if gate not in change.gates)))
    yield from steps[first + 1 :]
