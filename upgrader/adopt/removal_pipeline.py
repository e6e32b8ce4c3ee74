"""A controller's way out of the control plane, as a pipeline: an order in which no client loses a request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from upgrader.adopt.accept_queues import ResetQueuesStep
from upgrader.adopt.endpoints import PublishEndpointStep
from upgrader.adopt.etcd_membership import MemberToRemove
from upgrader.adopt.left_out_pipeline import Return
from upgrader.adopt.manifest_step import StaticPods
from upgrader.adopt.removal_steps import (
    DeleteNodeStep,
    ForgetOneStep,
    LeaveEtcdStep,
    LeaveStep,
    RewireKubeletStep,
    StopStaticPodsStep,
    WithdrawNodeStep,
)
from upgrader.model.cluster import Cluster, Host
from upgrader.pipeline import GateRun, Pipeline, PipelineStep, Step
from upgrader.ports import Tools
from upgrader.steps.context import StepContext
from upgrader.steps.plan import Plan, own_steps
from upgrader.steps.release.kind import ReleaseKind
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.verify import VerifyStep

__all__ = ["Removal"]

_RELEASES = ("kubernetes", "kube-apiserver")
"""In this order: a leader that loses the API of its own controller would give its lease up only after a while."""


@dataclass(frozen=True)
class Removal:
    """What the steps are built from. `staying` is the cluster without the controller."""

    host: Host
    dead: bool
    staying: Cluster
    tools: Tools
    member: MemberToRemove
    own: frozenset[str]
    """The controller's addresses."""
    server: str
    """The URL of the API that its kubelet is to use, once its own controller has none."""
    back: Return | None = None
    """How another one, which was left out and is back, takes its part in the place of one that is dead."""

    def pipeline(self, plans: Mapping[str, Plan], build: StepContext) -> Pipeline:
        """`plans`, one for each release, and `build` are of the cluster without the controller, as are all gates: that
        one isn't asked any more.
        """
        plan = plans["kube-apiserver"]
        always = (self.back.before if self.back else build).gates.of_controllers()
        steps = [PipelineStep(VerifyStep("healthy"), always, (), changes=False)]
        planned = own_steps(plans, PlannedRelease)
        kind = ReleaseKind(build)
        steps += [kind.free(planned[name], plans[name]) for name in _RELEASES if planned[name].pending]
        releases = [kind.step(planned[name], plans[name]) for name in _RELEASES]
        if self.dead:
            steps += [_gated(step, ()) for step in self._gone(plan)]
            if self.back:  # kube-apiserver comes first, as in any return
                return Pipeline((*steps, self.back.begin(plans), *releases[::-1], *self.back.end(plans, build)))
            return Pipeline((*steps, *releases, *(_gated(step, always) for step in self._alone())))
        steps += [_gated(step, always) for step in self._before()]
        steps += releases
        steps += [_gated(step, always) for step in self._behind(plan)]
        return Pipeline((*steps[:-1], _gated(steps[-1].step, build.gates.of_cluster())))

    def _gone(self, plan: Plan) -> Iterator[Step]:
        """What is left of a dead machine: Helm would wait for its DaemonSets' pods for as long as it has a Node."""
        yield WithdrawNodeStep(self.tools.kube, self.host)
        yield from self._etcd(plan)
        yield DeleteNodeStep(self.tools.kube, self.host)

    def _before(self) -> Iterator[Step]:
        tools = self.tools
        yield RewireKubeletStep(tools.hosts, tools.kube, tools.clock, self.host, self.own, self.server)
        yield WithdrawNodeStep(tools.kube, self.host)

    def _behind(self, plan: Plan) -> Iterator[Step]:
        tools = self.tools
        yield LeaveStep(tools.kube, tools.clock, self.host)
        yield ForgetOneStep(tools.hosts, tools.clock, self.host)
        yield StopStaticPodsStep(self._pods(plan))
        yield ResetQueuesStep(tools.hosts, (self.host,))
        yield from self._alone()
        yield from self._etcd(plan)

    def _alone(self) -> Iterator[Step]:
        """One kube-apiserver doesn't register itself; the others do."""
        if len(self.staying.controllers) == 1:
            yield PublishEndpointStep(self.tools.kube)

    def _etcd(self, plan: Plan) -> Iterator[Step]:
        """Nothing where etcd isn't on the controllers."""
        if self.member.ask:
            ask = next(host for host in self.staying.controllers if host.name == self.member.ask)
            pods = None if self.dead else self._pods(plan)
            yield LeaveEtcdStep(self.tools.hosts, self.tools.clock, self.host, ask, self.member, pods)

    def _pods(self, plan: Plan) -> StaticPods:
        tools = self.tools
        return StaticPods(tools.hosts, tools.kube, tools.clock, (self.host,), plan.target)


def _gated(step: Step, gates: tuple[GateRun, ...]) -> PipelineStep:
    return PipelineStep(step, gates, ())
