"""The adoption of controllers that joined later, as a pipeline: the same engine, gates and journal as the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from upgrader.adopt.accept_queues import SetQueuesStep
from upgrader.adopt.facts import ControllerFacts
from upgrader.adopt.joined_steps import GrowStep, SettleEndpointsStep, fixed_endpoints, keeping_endpoints
from upgrader.adopt.kubeconfigs_step import KubeconfigsStep
from upgrader.adopt.leaders_api import OwnServer
from upgrader.adopt.manifest_step import PortSharingStep, RetireStep, StaticPods
from upgrader.adopt.pipelines import LEADERS, needs_port_sharing
from upgrader.model.cluster import Cluster, Host
from upgrader.model.settings import BUILT_IN_CHARTS
from upgrader.pipeline import Pipeline, PipelineStep, Step
from upgrader.ports import Tools
from upgrader.steps.context import StepContext
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.release.helm_release import ChartStep
from upgrader.steps.release.kind import ReleaseKind
from upgrader.steps.release.plan import PlannedRelease

__all__ = ["JoinedControllers"]


@dataclass(frozen=True)
class JoinedControllers:
    """What the steps are built from. `cluster` has all controllers; `new` are those that weren't adopted yet."""

    cluster: Cluster
    new: tuple[Host, ...]
    facts: Sequence[ControllerFacts]
    """Those of the controllers on which static pods still run."""
    tools: Tools
    served: tuple[str, ...]
    """Where clients use the API, other than at the controllers' own addresses."""
    addresses: tuple[str, ...]
    """The controllers' own."""
    kubeconfigs: tuple[OwnServer, ...] = ()
    """Those of the new controllers that the charts' pods need changed."""

    @property
    def before(self) -> Cluster:
        """The cluster without its new controllers: what must be healthy again when the adoption is undone."""
        left = tuple(host for host in self.cluster.controllers if host not in self.new)
        return replace(self.cluster, controllers=left)

    def pipeline(self, plan: Plan, build: StepContext) -> Pipeline:
        """The releases in their order, each static pod retired once a pod of its release runs on its controller and
        has a checkpoint there.
        """
        undo = replace(build, cluster=self.before)
        planned = {step.name: step for step in planned_of(plan, PlannedRelease)}
        checkpointer, api, kubernetes = (self._release(planned[name], plan, build, undo) for name in BUILT_IN_CHARTS)
        tools = self.tools
        pods = StaticPods(tools.hosts, tools.kube, tools.clock, self._static, plan.target, served=self.served)
        freed = [ReleaseKind(build).free(planned[name], plan) for name in BUILT_IN_CHARTS if planned[name].pending]
        steps = [replace(item, undo_gates=undo.gates.of_controllers()) for item in freed]
        if restart := needs_port_sharing(self.facts):
            sharing = PortSharingStep(tools.hosts, tools.kube, tools.clock, restart)
            steps.append(PipelineStep(sharing, undo.gates.of_controllers(), undo.gates.of_controllers()))
        if self.new:
            steps.append(PipelineStep(SetQueuesStep(tools.hosts, self.new), (), ()))
        steps += [checkpointer, replace(api, gates=api.gates + checkpointer.gates)]
        if self._static:
            retire = RetireStep("retire kube-apiserver", pods, ("kube-apiserver",))
            # Its undo restores the API of that controller itself, and works over SSH.
            steps.append(PipelineStep(retire, steps[-1].gates, api.undo_gates, undo_needs_api=False))
        if self.kubeconfigs:
            steps.append(PipelineStep(KubeconfigsStep(tools.hosts, self.kubeconfigs), (), ()))
        steps.append(replace(kubernetes, gates=kubernetes.gates + checkpointer.gates))
        if self._static:
            retire = RetireStep("retire controllers", pods, LEADERS)
            steps.append(PipelineStep(retire, steps[-1].gates, kubernetes.undo_gates))
        if self._fixed(planned):
            settled = ReleaseKind(build, {"kube-apiserver": self._settle}).step(planned["kube-apiserver"], plan)
            steps.append(replace(settled, undo_gates=api.undo_gates, watched=None, undo_watched=None))
        return Pipeline(tuple(steps))

    @property
    def _static(self) -> tuple[Host, ...]:
        return tuple(each.host for each in self.facts)

    def _fixed(self, planned: Mapping[str, PlannedRelease]) -> tuple[str, ...]:
        """The endpoint that is to be removed, at the end."""
        step = planned["kube-apiserver"]
        return () if fixed_endpoints(step.after) else fixed_endpoints(step.before)

    def _release(self, step: PlannedRelease, plan: Plan, build: StepContext, undo: StepContext) -> PipelineStep:
        def grown(chart: ChartStep) -> Step:
            if step.name == "kube-apiserver" and (fixed := self._fixed({step.name: step})):
                chart = keeping_endpoints(chart, fixed)
            return GrowStep(chart, self.tools.kube, self.new, len(self.before.controllers))

        made, back = (ReleaseKind(each, {step.name: grown}).step(step, plan) for each in (build, undo))
        return replace(made, undo_gates=back.undo_gates)

    def _settle(self, chart: ChartStep) -> Step:
        return SettleEndpointsStep(chart, self.tools.kube, self.tools.clock, self.addresses)
