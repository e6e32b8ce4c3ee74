"""The steps of pools of nodes in a run: forward, resumed, and undone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from testkit.fakes.playbooks import FakePlaybooks
from tests.unit.steps.nodes.fleet import Fleet
from upgrader.engine.state.run_state import RunState, StepState
from upgrader.errors import Interrupted, UsageError
from upgrader.model.cluster import Cluster, Host
from upgrader.model.kubelet_config import KubeletConfig
from upgrader.model.node_configuration import NodeConfiguration
from upgrader.model.node_settings import NodePool, NodeSource, NodesSettings
from upgrader.model.observed import Observed, ObservedNode
from upgrader.model.outcome import StepPhase
from upgrader.model.release import NodeBefore, RestorePoint
from upgrader.model.settings import Settings
from upgrader.model.surge import Surge
from upgrader.model.version import KubernetesVersion
from upgrader.pipeline import Pipeline
from upgrader.ports import Tools
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.pipeline_builder import PipelineBuilder
from upgrader.steps.plan import changed_inputs, step_inputs

OLD, NEW = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
NODES = NodesSettings(NodeSource("packages"), (NodePool("controllers"), NodePool("workers")))
POINT = RestorePoint(nodes=(NodeBefore("worker-1", OLD),))


def builder(
    nodes: NodesSettings | None = NODES, kube: FakeKube | None = None, playbooks: FakePlaybooks | None = None
) -> PipelineBuilder:
    """Of a cluster with a controller and a worker, and no releases."""
    settings = Settings(Path("/c"), NEW, Path("/c/kubeconfig"), Path("/c/hosts.yml"), (), nodes=nodes)
    hosts = (Host("controller-1", "10.0.0.2"),), (Host("worker-1", "10.0.0.3"),)
    cluster = Cluster(Path("/c"), Path("/c/kubeconfig"), "demo", Path("/c/hosts.yml"), *hosts)
    tools = Tools(FakeHelm(), kube or FakeKube(), playbooks or FakePlaybooks(), FakeClock(), FakeHosts())
    return PipelineBuilder(settings, cluster, tools)


def observed(controller: KubernetesVersion = OLD, worker: KubernetesVersion = OLD) -> Observed:
    """The nodes' kubelets."""
    kubelets = {"controller-1": controller, "worker-1": worker}
    return Observed(NEW, kubelets, {}, nodes=dict.fromkeys(kubelets, ObservedNode()))


def names(pipeline: Pipeline) -> list[str]:
    """Its steps."""
    return [item.step.name for item in pipeline.steps]


def state(*steps: StepState) -> RunState:
    """A run that has begun these."""
    planned = tuple(step.name for step in steps)
    return RunState(steps=steps, planned=planned, target=NEW, current=OLD, rollback_to="")


def test_without_the_section_there_are_no_such_steps() -> None:
    """A run is what it was before."""
    one = builder(None)
    assert names(one.forward(one.plan((), observed()))) == []


def test_programs_are_staged_before_any_change() -> None:
    """Then the controllers, then the workers, each with the gates of the cluster."""
    one = builder()
    pipeline = one.forward(one.plan((), observed()))
    assert names(pipeline) == ["stage-nodes", "nodes-controllers", "nodes-workers"]
    assert [item.changes for item in pipeline.steps] == [False, True, True]
    assert [item.changes_logins for item in pipeline.steps[1:]] == [False, False]
    assert [run.gate.name for run in pipeline.steps[1].gates] == ["nodes", "critical-pods"]
    assert pipeline.steps[1].step.capture() == RestorePoint(nodes=(NodeBefore("controller-1", OLD),))


def test_pool_with_nothing_to_change_is_only_verified() -> None:
    """A repeated run has the same steps, and changes nothing."""
    one = builder()
    pipeline = one.forward(one.plan((), observed(NEW, NEW)))
    assert names(pipeline) == ["stage-nodes", "nodes-controllers", "nodes-workers"]
    assert [item.changes for item in pipeline.steps] == [False, False, False]
    assert [item.step.capture() for item in pipeline.steps] == [None, None, None]


def test_pool_waits_for_its_approval() -> None:
    """Before its first node is changed, and not where none changes; with a surge, before that is added."""
    waits = NodePool("workers", approval_seconds=60.0)
    surging = replace(waits, surge=Surge(1, Path("/add.yml"), Path("/remove.yml")))
    for pool, first in ((waits, "nodes-workers"), (surging, "surge-workers")):
        one = builder(replace(NODES, pools=(NodePool("controllers"), pool)))
        steps = one.forward(one.plan((), observed())).steps
        assert {item.step.name: item.approval_seconds for item in steps if item.approval_seconds} == {first: 60.0}
        steps = one.forward(one.plan((), observed(worker=NEW))).steps
        assert [item.step.name for item in steps if item.approval_seconds] == []


def test_resumed_run_has_the_nodes_that_it_had() -> None:
    """A node that got its new kubelet before the interruption may still be cordoned: its step goes on."""
    one = builder()
    begun = StepState("nodes-workers", "applying", restore_point=POINT)
    ended = StepState("nodes-controllers", "passed")
    plan = one.replan(state(ended, begun), (), observed(OLD, NEW))
    found = {step.name: [str(node) for node in step.nodes] for step in plan.steps if isinstance(step, PlannedNodes)}
    assert found == {"nodes-controllers": [], "nodes-workers": ["worker-1 v1.36.3 → v1.37.1"]}


def test_rollback_returns_the_nodes_of_the_journal() -> None:
    """By the settings of the pool that upgrader.yaml has now."""
    pipeline = builder().rollback(state(StepState("nodes-workers", "passed", restore_point=POINT)))
    assert names(pipeline) == ["nodes-workers"]
    assert [run.gate.name for run in pipeline.steps[0].undo_gates] == ["nodes", "critical-pods"]


def test_rollback_of_nodes_ends_once_another_process_has_the_lock() -> None:
    """In the middle of a drain, as on the way forward: until its next playbook, both would evict pods."""
    fleet, playbooks = Fleet("worker-1"), FakePlaybooks()
    fleet.set_node("worker-1", NEW)
    fleet.add_budget()
    begun = state(StepState("nodes-workers", "passed", restore_point=POINT))
    (item,) = builder(kube=fleet.kube, playbooks=playbooks).rollback(begun).steps

    def lost() -> None:
        raise Interrupted("the cluster's lock was taken over")

    step = item.undo_watched(lost) if item.undo_watched else item.step
    with pytest.raises(Interrupted, match="taken over"):
        step.undo(POINT, fleet.notes.append)
    assert playbooks.ran == []


@pytest.mark.parametrize(
    ("nodes", "step", "node", "told"),
    [
        (None, "nodes-workers", "worker-1", "no section `nodes`"),
        (NODES, "nodes-gpu", "worker-1", "no such pool"),
        (NODES, "nodes-workers", "elsewhere", "they aren't in the inventory"),
        (NODES, "nodes-workers", "controller-1", "they aren't in the inventory"),
    ],
)
def test_journal_is_only_followed_where_the_folder_says_the_same(
    nodes: NodesSettings | None, step: str, node: str, told: str
) -> None:
    """A journal of the cluster can't have machines changed that upgrader.yaml and the inventory don't name."""
    point = RestorePoint(nodes=(NodeBefore(node, OLD),))
    with pytest.raises(UsageError, match=told):
        builder(nodes).rollback(state(StepState(step, "passed", restore_point=point)))


def test_inputs_of_a_pool_are_its_source_and_the_playbooks() -> None:
    """A run that is resumed with other programs, or other playbooks, says so."""
    plan = builder().plan((), observed())
    other = replace(NODES, source=NodeSource("url", url="https://x"))
    digests = {item.step: item.digest for item in step_inputs(plan)}
    changed = {item.step: item.digest for item in step_inputs(builder(other).plan((), observed()))}
    assert set(digests) == {"nodes-controllers", "nodes-workers"}
    assert all(digests[name] != changed[name] for name in digests)


def test_digest_of_a_plan_tells_nodes_apart() -> None:
    """Equal digests mean the same run from the same start."""
    one = builder()
    assert one.plan((), observed()).digest != one.plan((), observed(NEW)).digest


def test_hop_on_the_way_leaves_the_nodes_to_a_later_one() -> None:
    """Nodes are drained where the next hop would leave a kubelet too far behind, and at the end; not for each minor."""
    one = builder()

    def drained(then: KubernetesVersion | None) -> bool:
        return any(isinstance(step, PlannedNodes) for step in one.plan((), observed(), then=then).steps)

    assert OLD.minor == 36
    assert [drained(KubernetesVersion(1, minor, 0)) for minor in (38, 39, 40)] == [False, False, True]
    assert drained(None)


def test_resumed_hop_leaves_the_nodes_as_it_did_before() -> None:
    """What comes after a hop isn't in its journal: which steps it had, is."""
    begun = replace(state(), planned=("kube-apiserver",), rollback_to=None)
    assert builder().replan(begun, (), observed()).steps == ()


CONFIGURED = replace(NODES, configuration=NodeConfiguration({"maxPods": 150}))
KUBEADM = KubeletConfig("kind: KubeletConfiguration\nmaxPods: 110\n")


def test_nodes_that_join_later_come_last() -> None:
    """When every node has shown that it works; a run that was begun without the step is resumed without it, and one
    that has it keeps it, whatever became of the ConfigMap.
    """
    one = builder(CONFIGURED)
    found = replace(observed(), kubelet=KUBEADM)
    pipeline = one.forward(one.plan((), found))
    assert names(pipeline) == ["stage-nodes", "nodes-controllers", "nodes-workers", "kubelet-config"]
    assert [run.gate.name for run in pipeline.steps[-1].gates] == ["kubelet-config"]
    assert pipeline.steps[-1].step.summary() == "maxPods, for nodes that join later"
    assert names(one.forward(one.plan((), observed()))) == names(pipeline)[:-1]
    planned = ("nodes-controllers", "nodes-workers")
    assert [step.name for step in one.replan(RunState(planned=planned), (), found).steps] == [*planned]
    with_it = (*planned, "kubelet-config")
    assert [step.name for step in one.replan(RunState(planned=with_it), (), observed()).steps] == [*with_it]
    baked = replace(one, settings=replace(one.settings, bake_seconds=60.0)).with_bake(pipeline).steps[-1]
    assert "kubelet-config" not in [run.gate.name for run in baked.gates]


def test_interrupted_step_of_the_config_map_is_planned_from_its_restore_point() -> None:
    """What it has written already doesn't make it a step without a change, which nothing would undo."""
    one, planned = builder(CONFIGURED), ("nodes-controllers", "nodes-workers", "kubelet-config")
    written = replace(observed(NEW, NEW), kubelet=KubeletConfig("kind: KubeletConfiguration\nmaxPods: 150\n"))
    assert one.plan((), written).steps[-1].action == "unchanged"
    begun = StepState("kubelet-config", "applying", restore_point=RestorePoint(kubelet="0" * 64))
    again = one.replan(RunState(planned=planned, steps=(begun,), current=OLD), (), written)
    assert again.steps[-1].action == "upgrade"
    verified = StepState("kubelet-config", "gating")
    still = one.replan(RunState(planned=planned, steps=(verified,), current=OLD), (), written)
    assert still.steps[-1].action == "unchanged"
    undo = one.rollback(state(StepState("kubelet-config", "passed", restore_point=begun.restore_point)))
    assert names(undo) == ["kubelet-config"]


def test_journal_can_not_have_ansible_run_anything() -> None:
    """What a journal names as a configuration becomes a variable of Ansible, which would run a template in it."""
    point = RestorePoint(nodes=(NodeBefore("worker-1", OLD),), configuration="{{ lookup('pipe', 'id') }}")
    with pytest.raises(UsageError, match="invalid configuration fingerprint"):
        builder().rollback(state(StepState("nodes-workers", "passed", restore_point=point)))


@pytest.mark.parametrize("began", [NODES, replace(NODES, configuration=NodeConfiguration({"maxPods": 151}))])
def test_pool_that_has_begun_goes_on_with_its_own_configuration(began: NodesSettings) -> None:
    """A node's restore point has the name of one upgrade: with another configuration it would be another's, and the run
    would have no way back from it. A pool that has passed keeps its own, and the way back goes by the journal's.
    """
    point = replace(POINT, configuration=began.configuration.fingerprint)
    phases: tuple[StepPhase, ...] = ("applying", "gating", "failed")
    others: tuple[StepPhase, ...] = ("passed", "undoing", "undone", "undo-failed")
    for phase in phases:
        with pytest.raises(UsageError, match="nodes-workers started with a different node configuration") as refused:
            builder(CONFIGURED).replan(state(StepState("nodes-workers", phase, restore_point=point)), (), observed())
        assert "upgrader rollback" in refused.value.remedy
        builder(began).replan(state(StepState("nodes-workers", phase, restore_point=point)), (), observed())
    for phase in others:
        builder(CONFIGURED).replan(state(StepState("nodes-workers", phase, restore_point=point)), (), observed())
    builder(CONFIGURED).rollback(state(StepState("nodes-workers", "failed", restore_point=point)))


def test_changed_configuration_is_a_changed_input() -> None:
    """A resume notices it."""
    before, after = (step_inputs(one.plan((), replace(observed(), kubelet=KUBEADM))) for one in _two())
    assert changed_inputs(before, after) == ("nodes-controllers", "nodes-workers", "kubelet-config")


def _two() -> tuple[PipelineBuilder, PipelineBuilder]:
    other = replace(NODES, configuration=NodeConfiguration({"maxPods": 151}))
    return builder(CONFIGURED), builder(other)
