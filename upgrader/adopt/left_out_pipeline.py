"""A controller that is down is left out of the control plane, and taken back, each as a pipeline."""

from __future__ import annotations

from dataclasses import dataclass, replace

from upgrader.adopt.left_out_steps import LeaveOutStep, MarkStep, RemovePodsStep
from upgrader.model.cluster import Host
from upgrader.model.settings import BUILT_IN_CHARTS
from upgrader.pipeline import GateRun, Pipeline, PipelineStep, Step
from upgrader.ports import Tools
from upgrader.steps.context import StepContext
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.release.kind import ReleaseKind
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.verify import VerifyStep

__all__ = ["LeavingOut", "Return"]

_CHECKPOINTER, *_COUNTED = BUILT_IN_CHARTS


@dataclass(frozen=True)
class LeavingOut:
    """What a controller is left out by: the label of its node, and the releases' counts."""

    host: Host
    tools: Tools

    def pipeline(self, plan: Plan, build: StepContext) -> Pipeline:
        """`plan` and `build` are of the cluster without the controller, as are all gates.

        The releases' gates come once the API no longer lists pods on that controller: these can't end, and would count
        as pods that are still terminating.
        """
        planned = {step.name: step for step in planned_of(plan, PlannedRelease)}
        kind = ReleaseKind(build)
        steps = [PipelineStep(VerifyStep("healthy"), build.gates.of_controllers(), (), changes=False)]
        steps += [kind.free(planned[name], plan) for name in _COUNTED if planned[name].pending]
        steps.append(_step(LeaveOutStep(self.tools.kube, self.host, plan.target)))
        steps += [replace(kind.step(planned[name], plan), gates=(), undo_gates=()) for name in _COUNTED]
        gates = [gate for name in BUILT_IN_CHARTS for gate in _own_gates(planned[name], plan, build)]
        removal = RemovePodsStep(self.tools.kube, self.tools.clock, self.host)
        steps.append(_step(removal, *gates, *build.gates.of_cluster()))
        steps.append(_step(MarkStep(self.tools.kube, self.host, plan.target, "out")))
        return Pipeline(tuple(steps))


@dataclass(frozen=True)
class Return:
    """How a controller that was left out gets its turn."""

    host: Host
    tools: Tools
    before: StepContext
    """Of the cluster without it, which has to be healthy first."""

    def pipeline(self, plan: Plan, build: StepContext) -> Pipeline:
        """`plan` and `build` are of the cluster with the controller.

        kube-apiserver comes first: the kubelet may use its own controller's, and the others' clients need it there. The
        pod-checkpointer's DaemonSet needs only the label.
        """
        planned = {step.name: step for step in planned_of(plan, PlannedRelease)}
        kind, kube = ReleaseKind(build), self.tools.kube
        steps = [PipelineStep(VerifyStep("healthy"), self.before.gates.of_controllers(), (), changes=False)]
        steps += [kind.free(planned[name], plan) for name in _COUNTED if planned[name].pending]
        back = MarkStep(kube, self.host, plan.target, "returning", labelled=True, name="take-back")
        steps.append(_step(back))
        steps += [kind.step(planned[name], plan) for name in _COUNTED]
        gates = _own_gates(planned[_CHECKPOINTER], plan, build)
        verified = (*gates, *build.gates.of_cluster())
        steps.append(PipelineStep(VerifyStep("returned"), verified, (), changes=False))
        steps.append(_step(MarkStep(kube, self.host, plan.target, None)))
        return Pipeline(tuple(steps))


def _own_gates(planned: PlannedRelease, plan: Plan, build: StepContext) -> tuple[GateRun, ...]:
    """Of a release as these steps leave it: the pod-checkpointer's stays as it is."""
    manifest = planned.before if planned.name == _CHECKPOINTER else planned.after
    return build.gates.own(planned.name, manifest, namespace=planned.spec.namespace, target=plan.target)


def _step(step: Step, *gates: GateRun) -> PipelineStep:
    return PipelineStep(step, gates, ())
