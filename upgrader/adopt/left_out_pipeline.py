"""A controller that is down is left out of the control plane, and taken back, each as a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from upgrader.adopt.left_out_steps import LeaveOutStep, MarkStep, RemovePodsStep
from upgrader.model.cluster import Host
from upgrader.model.left_out import LeftOut
from upgrader.model.settings import BUILT_IN_CHARTS
from upgrader.pipeline import GateRun, Pipeline, PipelineStep, Step
from upgrader.ports import Tools
from upgrader.steps.context import StepContext
from upgrader.steps.plan import Plan, own_steps
from upgrader.steps.release.kind import ReleaseKind
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.verify import VerifyStep

__all__ = ["LeavingOut", "Return"]

_CHECKPOINTER, *_COUNTED = BUILT_IN_CHARTS
_API_SERVER = "kube-apiserver"


@dataclass(frozen=True)
class LeavingOut:
    """What a controller is left out by: the label of its node, and the releases' counts."""

    host: Host
    tools: Tools
    mark: LeftOut
    """With the versions that the controller may start."""

    def pipeline(self, plans: Mapping[str, Plan], build: StepContext) -> Pipeline:
        """`plans`, one for each release, and `build` are of the cluster without the controller, as are all gates.

        The releases' gates come once the API no longer lists pods on that controller: these can't end, and would count
        as pods that are still terminating.
        """
        planned, version = own_steps(plans, PlannedRelease), plans[_API_SERVER].target
        kind = ReleaseKind(build)
        steps = [PipelineStep(VerifyStep("healthy"), build.gates.of_controllers(), (), changes=False)]
        steps += [kind.free(planned[name], plans[name]) for name in _COUNTED if planned[name].pending]
        steps.append(_step(LeaveOutStep(self.tools.kube, self.host, self.mark)))
        steps += [replace(kind.step(planned[name], plans[name]), gates=(), undo_gates=()) for name in _COUNTED]
        gates = [gate for name in BUILT_IN_CHARTS for gate in _own_gates(planned[name], plans[name], build)]
        removal = RemovePodsStep(self.tools.kube, self.tools.clock, self.host)
        steps.append(_step(removal, *gates, *build.gates.of_cluster()))
        steps.append(_step(MarkStep(self.tools.kube, self.host, version, "out")))
        return Pipeline(tuple(steps))


@dataclass(frozen=True)
class Return:
    """How a controller that was left out gets its turn."""

    host: Host
    tools: Tools
    before: StepContext
    """Of the cluster without it, which has to be healthy first."""

    def pipeline(self, plans: Mapping[str, Plan], build: StepContext) -> Pipeline:
        """`plans`, one for each release, and `build` are of the cluster with the controller.

        kube-apiserver comes first: the kubelet may use its own controller's, and the others' clients need it there. The
        pod-checkpointer's DaemonSet needs only the label.
        """
        planned, kind = own_steps(plans, PlannedRelease), ReleaseKind(build)
        steps = [PipelineStep(VerifyStep("healthy"), self.before.gates.of_controllers(), (), changes=False)]
        steps += [kind.free(planned[name], plans[name]) for name in _COUNTED if planned[name].pending]
        releases = (kind.step(planned[name], plans[name]) for name in _COUNTED)
        return Pipeline((*steps, self.begin(plans), *releases, *self.end(plans, build)))

    def begin(self, plans: Mapping[str, Plan]) -> PipelineStep:
        """From here on, pods of the releases may be placed on it."""
        version = plans[_API_SERVER].target
        return _step(MarkStep(self.tools.kube, self.host, version, "returning", labelled=True, name="take-back"))

    def end(self, plans: Mapping[str, Plan], build: StepContext) -> tuple[PipelineStep, ...]:
        """Behind the releases: all of them are healthy with it, and it takes part again."""
        planned, version = own_steps(plans, PlannedRelease), plans[_API_SERVER].target
        gates = _own_gates(planned[_CHECKPOINTER], plans[_CHECKPOINTER], build)
        verified = (*gates, *build.gates.of_cluster())
        returned = PipelineStep(VerifyStep("returned"), verified, (), changes=False)
        return returned, _step(MarkStep(self.tools.kube, self.host, version, None))


def _own_gates(planned: PlannedRelease, plan: Plan, build: StepContext) -> tuple[GateRun, ...]:
    """Of a release as these steps leave it: the pod-checkpointer's stays as it is."""
    manifest = planned.before if planned.name == _CHECKPOINTER else planned.after
    return build.gates.own(planned.name, manifest, namespace=planned.spec.namespace, target=plan.target)


def _step(step: Step, *gates: GateRun) -> PipelineStep:
    return PipelineStep(step, gates, ())
