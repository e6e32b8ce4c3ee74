"""Releases of the pipeline: planned from their rendered manifests, upgraded by Helm, undone by its rollback."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from upgrader.engine.state.run_state import RunState, StepState
from upgrader.errors import UsageError
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.gate_catalog import with_own_policy
from upgrader.gates.shared_reads import ReadMemory
from upgrader.gates.workload_watcher import watch_workloads
from upgrader.model.release import ReleaseSpec, RestorePoint
from upgrader.model.rollout_groups import groups_in
from upgrader.model.rollout_time import rollout_seconds
from upgrader.model.settings import BUILT_IN_CHARTS, ReleaseSettings
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import GateRun, PipelineStep, Step
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.release.down_workers import DownWorkers
from upgrader.steps.release.free_release import FreeReleaseStep
from upgrader.steps.release.helm_release import ChartStep
from upgrader.steps.release.interrupted_release import ReleaseInspector
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.release.unseen_scheduler import UnseenScheduler, has_scheduler
from upgrader.steps.step_kind import PlannedKind, Undoing, not_named
from upgrader.steps.verify import VerifyStep

__all__ = ["ReleaseKind"]

_NEVER_UNINSTALLED = BUILT_IN_CHARTS
"""A run upgrades them, with whatever chart; `adopt` installs them, and only `adopt --undo` removes them."""


@dataclass(frozen=True)
class ReleaseKind(PlannedKind[PlannedRelease]):
    """Builds the steps of releases. `wraps` wraps the chart's step of a release, by name."""

    wraps: Mapping[str, Callable[[ChartStep], Step]] = field(default_factory=dict)

    name: ClassVar = PlannedRelease.kind
    in_pipeline: ClassVar = True

    def replan(self, planned: PlannedRelease, state: RunState) -> PlannedRelease:
        """From the manifest to which the run would go back."""
        begun = state.step(planned.name)
        if begun is not None and begun.restore_point is not None:
            self._check(begun, begun.restore_point)
        step = replace(planned, pending=FreeReleaseStep.name_for(planned.name) in state.planned)
        if begun is None:
            return step
        if begun.restore_point is None:
            return replace(step, action="unchanged")
        before = self._manifest(begun.restore_point)
        return replace(step, action="upgrade" if before else "install", summary=begun.summary, before=before)

    def before(self, plan: Plan) -> Iterable[PipelineStep]:
        """Each release that an interrupted Helm left pending is freed."""
        stuck = (step for step in planned_of(plan, PlannedRelease) if step.pending)
        return (self.context.approved(step, self.free(step, plan)) for step in stuck)

    def free(self, planned: PlannedRelease, plan: Plan) -> PipelineStep:
        """Free a release, with the gates of the revision that it rolls back to."""
        spec, tools, timeout = planned.spec, self.context.tools, self.helm_seconds(planned.before, planned.after)
        free = FreeReleaseStep(spec.name, spec.namespace, tools.helm, tools.clock, timeout, self._down)
        return PipelineStep(
            free,
            self._gates(spec, planned.before, plan.current),
            (),
            self._inspector(spec, timeout),
            groups=groups_in(spec.namespace, planned.before),
        )

    def forward(self, planned: PlannedRelease, plan: Plan) -> PipelineStep:
        """Its chart with the planned values, and the gates of what that installs."""
        return self.step(planned, plan, self.context.further_gates(planned))

    def step(self, planned: PlannedRelease, plan: Plan, further: tuple[GateRun, ...] = ()) -> PipelineStep:
        """The same with these gates beside those of its manifest."""
        spec, wrap = planned.spec, self.wraps.get(planned.name, _as_it_is)
        changes = planned.action != "unchanged"
        new = {change.container: plan.target for change in planned.images} if plan.target != plan.current else {}
        own = self._gates(spec, planned.after, plan.target, applied=changes, brought=new)
        gates = with_own_policy(own, further)
        undo_gates = self._undo_gates(spec, planned.before, plan.current)
        groups = groups_in(spec.namespace, planned.before, planned.after) | self.context.groups(planned.name)
        if not changes:
            return PipelineStep(VerifyStep(planned.name), gates, undo_gates, changes=False, groups=groups)
        seconds = self.helm_seconds(planned.before, planned.after)
        chart = replace(
            self._chart(spec, planned.summary, planned.before, planned.after, seconds), before=planned.before
        )
        return PipelineStep(
            wrap(chart),
            gates,
            undo_gates,
            self._inspector(spec, seconds),
            watched=lambda check: wrap(chart.watched(check)),
            undo_watched=lambda check: wrap(chart.undo_watched(check)),
            confirm=chart.confirm,
            groups=groups,
        )

    def undoes(self, step: StepState, point: RestorePoint) -> bool:
        """One that names a release."""
        return bool(point.release)

    def undo(self, undoing: Undoing) -> PipelineStep:
        """Helm's rollback, or what uninstalls what the run installed."""
        step, point = undoing.step, undoing.point
        self._check(step, point)
        spec = ReleaseSpec(point.release, point.namespace, Path())
        before = self._manifest(point)
        seconds, undo_gates = self.helm_seconds(before), self._undo_gates(spec, before, undoing.current)
        chart = self._chart(spec, step.summary, before, "", seconds)
        return PipelineStep(
            chart,
            (),
            undo_gates,
            self._inspector(spec, seconds),
            undo_watched=chart.undo_watched,
            groups=groups_in(spec.namespace, before) | self.context.groups(step.name),
        )

    def helm_seconds(self, *manifests: str) -> float:
        """Helm's timeout for a release: as configured, or longer where a DaemonSet needs it for all nodes."""
        cluster, health = self.context.cluster, self.context.health_before
        controllers = len(cluster.controllers)
        nodes = controllers + len(health.workers if health else cluster.workers)
        needed = [rollout_seconds(manifest, controllers=controllers, nodes=nodes) for manifest in manifests]
        return max([self.context.settings.helm_timeout_seconds, *needed])

    def _check(self, step: StepState, point: RestorePoint) -> None:
        """Raise UsageError where upgrader.yaml has no such release, or the journal wants one removed that no run is."""
        named = (item for item in self.context.settings.pipeline if isinstance(item, ReleaseSettings))
        item = next((each for each in named if each.name == step.name), None)
        if item is None or (point.release, point.namespace) != (item.name, item.namespace):
            what = f"release {point.release!r} in namespace {point.namespace!r}" if point.release else "a playbook"
            see = f" (helm history {point.release} -n {point.namespace})" if point.release else ""
            raise not_named(step, what, see)
        if point.revision is None and item.name in _NEVER_UNINSTALLED:
            raise UsageError(
                f"the run's journal says that {item.name} was not installed before: upgrader doesn't undo that, "
                "because it would remove a part of the control plane",
                remedy=f"Check its earlier revisions (helm history {item.name} -n {item.namespace}), then use `helm "
                "rollback`. If the run really installed it, keep it.",
            )

    def _chart(self, spec: ReleaseSpec, change: str, before: str, after: str, timeout_seconds: float) -> ChartStep:
        """`after` is the manifest whose workloads are watched while Helm waits for them; `before`: what a rollback
        goes back to.
        """
        context, gates = self.context, self.context.gates
        clock, patience, pace = context.tools.clock, context.settings.recovery.patience_seconds, gates.scaled
        # What is read beside Helm may be from before its last change: no gate behind the step gets that for an answer.
        beside = context.shared_reads(ReadMemory())
        controllers = [host.name for host in context.cluster.controllers]
        chart = ChartStep(
            spec=spec,
            change=change,
            helm=context.tools.helm,
            timeout_seconds=timeout_seconds,
            watcher=lambda: watch_workloads(
                beside,
                after,
                clock=clock,
                namespace=spec.namespace,
                absence=ApiAbsence(beside, clock, patience, pace.recheck_seconds),
                glance=gates.health.glance,
                every_seconds=pace.interval_seconds,
                recheck_seconds=pace.recheck_seconds,
            ),
            after=after,
            down=self._down,
        )
        if not has_scheduler(before, spec.namespace):
            return chart
        return replace(
            chart,
            undo_help=lambda note: UnseenScheduler(context.tools.kube, clock, spec.namespace, controllers, note),
        )

    @property
    def _down(self) -> DownWorkers:
        context, health = self.context, self.context.health_before
        controllers = frozenset(host.name for host in context.cluster.controllers)
        return DownWorkers(context.tools.kube, context.tools.clock, controllers, health.workers if health else None)

    def _inspector(self, spec: ReleaseSpec, timeout_seconds: float) -> ReleaseInspector:
        return ReleaseInspector(spec, self.context.tools.helm, self.context.tools.clock, timeout_seconds, self._down)

    def _gates(
        self,
        spec: ReleaseSpec,
        manifest: str,
        target: KubernetesVersion | None,
        *,
        applied: bool = False,
        brought: Mapping[str, KubernetesVersion] = MappingProxyType({}),
    ) -> tuple[GateRun, ...]:
        return self.context.gates.of_release(
            spec.name, manifest, namespace=spec.namespace, target=target, applied=applied, brought=brought
        )

    def _undo_gates(self, spec: ReleaseSpec, manifest: str, target: KubernetesVersion | None) -> tuple[GateRun, ...]:
        own = self.context.gates.of_undo(spec.name, manifest, namespace=spec.namespace, target=target)
        # Of a release that wasn't installed before, there may be nothing to wait for.
        return with_own_policy(own, self.context.further_undo_gates(spec.name)) if manifest else own

    def _manifest(self, point: RestorePoint) -> str:
        """What the release was before; "" when it was not installed."""
        if point.revision is None:
            return ""
        return self.context.tools.helm.manifest(point.release, point.namespace, point.revision)


def _as_it_is(chart: ChartStep) -> Step:
    return chart
