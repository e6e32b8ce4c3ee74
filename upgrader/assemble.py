"""From settings and a plan to a pipeline that can run: which step carries out what, behind which gates."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.release_gates import gates_for, workload_gate
from upgrader.gates.workload_watcher import watch_workloads
from upgrader.model.cluster import Cluster
from upgrader.model.plan import Plan, PlannedPlaybook, PlannedRelease
from upgrader.model.release import ReleaseSpec
from upgrader.model.settings import PlaybookSettings, ReleaseSettings, Settings, StepSettings
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import GateRun, Pipeline, PipelineStep
from upgrader.planner import IntendedRelease
from upgrader.ports import Clock, Helm, Hosts, Kube, Playbooks
from upgrader.steps.chart import ChartStep
from upgrader.steps.doubt import ReleaseDoubt
from upgrader.steps.marker import PlaybookDoubt, PlaybookMarkers
from upgrader.steps.playbook import PlaybookStep
from upgrader.steps.unstick import UnstickStep
from upgrader.steps.verify import VerifyStep

__all__ = ["PLAYBOOK_SECONDS", "VERSIONED_RELEASES", "Tools", "assemble", "intended", "release_specs"]

VERSIONED_RELEASES = ("kube-apiserver", "kubernetes")
"""The built-in charts whose `kubernetesVersion` value a run sets to its target."""

PLAYBOOK_SECONDS = 1800.0


@dataclass(frozen=True)
class Tools:
    """The ports that steps and gates work through."""

    helm: Helm
    kube: Kube
    playbooks: Playbooks
    clock: Clock
    hosts: Hosts


def release_specs(settings: Settings, charts: Path, target: KubernetesVersion) -> Iterator[ReleaseSpec]:
    """Each release of the pipeline as it should be at `target`; `charts` is the folder of the built-in charts."""
    for item in settings.pipeline:
        if isinstance(item, ReleaseSettings):
            yield _spec(item, charts, target)


def intended(
    settings: Settings, charts: Path, target: KubernetesVersion, helm: Helm
) -> Iterator[IntendedRelease | PlannedPlaybook]:
    """The pipeline as intent, each chart rendered; raises HelmError for values that a chart's schema refuses."""
    for item in settings.pipeline:
        if isinstance(item, ReleaseSettings):
            spec = _spec(item, charts, target)
            yield IntendedRelease(spec, helm.render(spec))
        else:
            yield PlannedPlaybook(item.playbook)


def _spec(item: ReleaseSettings, charts: Path, target: KubernetesVersion) -> ReleaseSpec:
    values: dict[str, Any] = dict(item.values)
    if item.chart is None and item.name in VERSIONED_RELEASES:
        values["kubernetesVersion"] = str(target)
    return ReleaseSpec(item.name, item.namespace, item.chart or charts / item.name, values)


def assemble(
    plan: Plan, settings: Settings, cluster: Cluster, tools: Tools, *, take_ownership: Collection[str] = ()
) -> Pipeline:
    """One pipeline step for each planned step; `take_ownership` names releases that may take others' objects over."""
    by_name = {item.name: item for item in settings.pipeline}
    stuck = [planned for planned in plan.steps if isinstance(planned, PlannedRelease) and planned.pending]
    freed = [_free(planned, plan, settings, cluster, tools) for planned in stuck]
    steps = [
        _step(planned, by_name[planned.name], plan, settings, cluster, tools, take_ownership) for planned in plan.steps
    ]
    return Pipeline((*freed, *_gates_behind_the_first_change(steps)))


def _gates_behind_the_first_change(steps: list[PipelineStep]) -> Iterator[PipelineStep]:
    """The steps, with the gates of those that come before the first change, and change nothing, held behind it.

    What is unhealthy before anything was changed may be just what the run is meant to cure: a kube-apiserver that
    crash-loops keeps the pod-checkpointer from being Ready. Whether a run may begin is for the checks to say.
    """
    first = next((index for index, item in enumerate(steps) if not isinstance(item.step, VerifyStep)), 0)
    if first == 0:
        yield from steps
        return
    change = steps[first]
    moved: list[GateRun] = []
    for item in steps[:first]:
        moved += [gate for gate in item.gates if gate not in moved]
        yield PipelineStep(VerifyStep(item.step.name, change.step.name), (), ())
    yield replace(change, gates=(*change.gates, *(gate for gate in moved if gate not in change.gates)))
    yield from steps[first + 1 :]


def _free(planned: PlannedRelease, plan: Plan, settings: Settings, cluster: Cluster, tools: Tools) -> PipelineStep:
    """Free a release, and hold the gates of the revision that it goes back to."""
    spec, timeout = planned.spec, settings.helm_timeout_seconds
    step = UnstickStep(spec.name, spec.namespace, tools.helm, tools.clock, timeout)
    gates = _gates(spec, planned.before, plan.current, settings, cluster, tools)
    return PipelineStep(step, gates, (), ReleaseDoubt(spec, tools.helm, tools.clock, timeout))


def _step(
    planned: PlannedRelease | PlannedPlaybook,
    item: StepSettings,
    plan: Plan,
    settings: Settings,
    cluster: Cluster,
    tools: Tools,
    take_ownership: Collection[str],
) -> PipelineStep:
    own = tuple(workload_gate(gate, tools.kube, tools.clock) for gate in item.gates)
    if isinstance(planned, PlannedPlaybook):
        assert isinstance(item, PlaybookSettings)
        markers = PlaybookMarkers(tools.hosts, cluster.controllers, planned.playbook)
        step = PlaybookStep(planned.playbook, cluster.inventory, tools.playbooks, PLAYBOOK_SECONDS, markers)
        gates = _gates(None, "", plan.current, settings, cluster, tools)
        return PipelineStep(step, gates + own, gates, PlaybookDoubt(markers))
    gates = _gates(planned.spec, planned.after, plan.target, settings, cluster, tools)
    undo_gates = _gates(planned.spec, planned.before, plan.current, settings, cluster, tools)
    if planned.action == "unchanged":
        return PipelineStep(VerifyStep(planned.name), gates + own, undo_gates)
    chart = ChartStep(
        spec=planned.spec,
        change=planned.summary,
        helm=tools.helm,
        timeout_seconds=settings.helm_timeout_seconds,
        watcher=lambda: watch_workloads(
            tools.kube,
            planned.after,
            clock=tools.clock,
            namespace=planned.spec.namespace,
            absence=ApiAbsence(tools.kube, tools.clock, settings.recovery.patience_seconds),
        ),
        take_ownership=planned.name in take_ownership,
    )
    doubt = ReleaseDoubt(planned.spec, tools.helm, tools.clock, settings.helm_timeout_seconds)
    return PipelineStep(chart, gates + own, undo_gates, doubt)


def _gates(
    spec: ReleaseSpec | None,
    manifest: str,
    version: KubernetesVersion,
    settings: Settings,
    cluster: Cluster,
    tools: Tools,
) -> tuple[GateRun, ...]:
    """The gates of a release that has this manifest; without a manifest (not installed), the cluster's own."""
    return gates_for(
        spec.name if spec and manifest else "",
        manifest,
        namespace=spec.namespace if spec else "",
        kube=tools.kube,
        clock=tools.clock,
        cluster=cluster,
        version=version,
        policy=settings.gates,
    )
