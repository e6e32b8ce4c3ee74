"""From a journal to what goes on with its run: the plan as it was when the run began, or the way back.

The way back is made from the journal and from Helm's own records alone: values that were edited since, a chart that is
gone, or a pipeline with other steps don't stand in its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from upgrader.assemble import PLAYBOOK_SECONDS, Tools
from upgrader.engine.state import RunState, StepState
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.release_gates import gates_for
from upgrader.gates.workload_watcher import watch_workloads
from upgrader.model.cluster import Cluster
from upgrader.model.observed import Observed
from upgrader.model.plan import Plan, PlannedPlaybook, PlannedStep
from upgrader.model.release import ReleaseSpec, RestorePoint
from upgrader.model.settings import Settings
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import GateRun, Pipeline, PipelineStep
from upgrader.planner import IntendedRelease, plan_run
from upgrader.ports import Helm
from upgrader.steps.chart import ChartStep
from upgrader.steps.doubt import ReleaseDoubt
from upgrader.steps.marker import PlaybookMarkers
from upgrader.steps.playbook import PlaybookStep

__all__ = ["plan_again", "way_back"]


def plan_again(
    state: RunState, wanted: Sequence[IntendedRelease | PlannedPlaybook], observed: Observed, helm: Helm
) -> Plan:
    """The plan of the run, as it was made when it began; its steps are the run's, if the pipeline is still the same.

    What was begun since is planned as if it hadn't been: what it was is in its way back. Raises HelmError when Helm
    has forgotten that.
    """
    now = plan_run(wanted, observed, KubernetesVersion.parse(state.target))
    steps = tuple(_as_planned(step, state, helm) for step in now.steps)
    came_from = KubernetesVersion.parse(state.came_from) if state.came_from else observed.server
    return Plan(came_from, now.target, steps)


def _as_planned(step: PlannedStep, state: RunState, helm: Helm) -> PlannedStep:
    begun = state.step(step.name)
    if isinstance(step, PlannedPlaybook):
        return step
    step = replace(step, pending=f"free {step.name}" in state.planned)
    if begun is None:
        return step
    if begun.way_back is None:
        return replace(step, action="unchanged")
    before = _manifest(begun.way_back, helm)
    return replace(step, action="upgrade" if before else "install", summary=begun.summary, before=before)


def way_back(state: RunState, settings: Settings, cluster: Cluster, tools: Tools) -> Pipeline:
    """The steps that the run has still to take back, each with the gates of what it goes back to."""
    left = [step for step in state.way_back if step.to_undo]
    return Pipeline(tuple(_backwards(step, state, settings, cluster, tools) for step in left))


def _backwards(step: StepState, state: RunState, settings: Settings, cluster: Cluster, tools: Tools) -> PipelineStep:
    point = step.way_back
    assert point is not None
    if not point.release:
        file = Path(f"{step.name}.yml")
        markers = PlaybookMarkers(tools.hosts, cluster.controllers, file)
        playbook = PlaybookStep(file, cluster.inventory, tools.playbooks, PLAYBOOK_SECONDS, markers)
        return PipelineStep(playbook, (), _gates(point, "", state, settings, cluster, tools))
    spec = ReleaseSpec(point.release, point.namespace, Path())
    chart = ChartStep(
        spec=spec,
        change=step.summary,
        helm=tools.helm,
        timeout_seconds=settings.helm_timeout_seconds,
        watcher=lambda: watch_workloads(
            tools.kube,
            "",
            clock=tools.clock,
            namespace=point.namespace,
            absence=ApiAbsence(tools.kube, tools.clock, settings.recovery.patience_seconds),
        ),
    )
    doubt = ReleaseDoubt(spec, tools.helm, tools.clock, settings.helm_timeout_seconds)
    gates = _gates(point, _manifest(point, tools.helm), state, settings, cluster, tools)
    return PipelineStep(chart, (), gates, doubt)


def _manifest(point: RestorePoint, helm: Helm) -> str:
    """What the release was before; "" when it was not installed."""
    return "" if point.revision is None else helm.manifest(point.release, point.namespace, point.revision)


def _gates(
    point: RestorePoint, manifest: str, state: RunState, settings: Settings, cluster: Cluster, tools: Tools
) -> tuple[GateRun, ...]:
    return gates_for(
        point.release if manifest else "",
        manifest,
        namespace=point.namespace,
        kube=tools.kube,
        clock=tools.clock,
        cluster=cluster,
        version=KubernetesVersion.parse(state.came_from) if state.came_from else None,
        policy=settings.gates,
    )
