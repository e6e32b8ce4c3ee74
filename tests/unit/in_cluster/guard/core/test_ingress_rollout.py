"""Node by node: detached, then replaced, then attached, and never more nodes at a time than may be."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.in_cluster.guard.core.builders import Json
from tests.unit.in_cluster.guard.core.test_ingress import DETACH, item
from upgrader.contract.detach import ATTACHED, DETACHED, DETACHMENT, OWNER
from upgrader.contract.times import timestamp
from upgrader.in_cluster.guard.core.ingress import DUE, IngressDaemonSet, read
from upgrader.in_cluster.guard.core.ingress_objects import PODS, REVISION, deployment
from upgrader.in_cluster.guard.core.ingress_rollout import (
    DETACH_ASKED,
    IngressDecision,
    Node,
    NodeDeployment,
    NodeWork,
    decide,
    is_healthy,
    node_deployment,
)
from upgrader.in_cluster.guard.core.taints import Taint

OLD, NOW = "old", 1000.0
LABELS = {"ingress": "true"}
BY_NODE = read(item(DETACH))
BY_POD = read(item())


def _node(name: str, **annotations: str) -> Node:
    return Node(name, LABELS, {key.replace("__", "/"): value for key, value in annotations.items()})


def _now(which: IngressDaemonSet, node: str) -> str:
    return str(deployment(which, node)["metadata"]["annotations"][REVISION])


def _its(node: str, revision: str = OLD, marks: dict[str, str] | None = None, **changes: Any) -> NodeDeployment:
    made = NodeDeployment(f"nginx-{node}", node, {REVISION: revision, **(marks or {})}, 2, 2, True)
    return replace(made, **changes)


def _work(which: IngressDaemonSet, node: Node, its: NodeDeployment, now: float = NOW) -> NodeWork:
    (work,) = decide(which, [node], [its], now).work
    return work


MINE = {OWNER: f"ns/nginx {DETACHMENT}"}
MARKS = {DUE: timestamp(NOW), DETACH_ASKED: timestamp(NOW)}


def test_each_selected_node_gets_a_deployment() -> None:
    """The others don't."""
    decision = decide(BY_NODE, [_node("n1"), _node("n2"), Node("n3")], [], NOW)
    assert [w.node for w in decision.work] == ["n1", "n2"]
    assert all(w.apply == deployment(BY_NODE, w.node) for w in decision.work)
    assert (decision.desired, decision.updated, decision.ready, decision.updating) == (2, 0, 0, 0)


def test_nothing_is_done_when_all_is_as_it_should_be() -> None:
    """Counts for the status, and no work."""
    decision = decide(BY_NODE, [_node("n1")], [_its("n1", _now(BY_NODE, "n1"))], NOW)
    assert decision == IngressDecision((), desired=1, updated=1, ready=1, updating=0)


def test_what_is_held_begins_on_no_node_and_goes_on_where_it_has_begun() -> None:
    """Also where nobody is served; a node that is new gets its pods, and one that is gone is put back."""
    nodes = [_node("n1"), _node("n2"), _node("n3"), Node("n4", LABELS, {DETACHMENT: "true", **MINE})]
    its = [_its("n1"), _its("n2", ready=0), _its("n4", marks=MARKS), _its("gone")]
    which = read(item({**DETACH, "maxUnavailableNodes": 4}))
    decision = decide(which, nodes, its, NOW, held="the upgrade r1 to end")
    work = {each.node: each for each in decision.work}
    assert work["n1"] == NodeWork("n1", waits_for="the upgrade r1 to end")
    assert work["n2"] == NodeWork("n2", waits_for="the upgrade r1 to end")
    assert work["n3"].apply is not None and work["gone"].delete == "nginx-gone"
    assert "annotation" in work["n4"].waits_for
    assert (decision.updating, decision.under_way) == (1, True)


def test_what_is_held_gets_more_pods_and_no_fewer() -> None:
    """Fewer wait; a new template isn't needed for either."""
    its = _its("n1", _now(BY_NODE, "n1"), replicas=3, ready=3)
    (work,) = decide(BY_NODE, [_node("n1")], [its], NOW, held="it").work
    assert work == NodeWork("n1", waits_for="it")
    (work,) = decide(BY_NODE, [_node("n1")], [replace(its, replicas=1)], NOW, held="it").work
    assert work.apply is not None


def test_more_pods_on_a_node_are_no_update() -> None:
    """The Deployment gets its number at once, with no detachment."""
    work = _work(BY_NODE, _node("n1"), _its("n1", _now(BY_NODE, "n1"), replicas=1, ready=1))
    assert work.apply is not None and not work.patch_node and not work.patch_deployment


def test_the_health_port_fails_before_anything_else() -> None:
    """503 before the first pod goes; the same patch remembers since when the node is asked for."""
    work = _work(BY_NODE, _node("n1"), _its("n1"))
    assert work == NodeWork("n1", patch_deployment=MARKS, waits_for="the health port to fail")


def test_then_the_node_is_detached_and_waited_for() -> None:
    """Annotated; answered; the grace period over; then all its pods at once."""
    its = _its("n1", marks=MARKS)
    assert _work(BY_NODE, _node("n1"), its).patch_node == {DETACHMENT: "true", **MINE}
    asked = Node("n1", LABELS, {DETACHMENT: "true", **MINE})
    assert "annotation" in _work(BY_NODE, asked, its).waits_for
    answered = Node("n1", LABELS, {DETACHMENT: "true", DETACHED: timestamp(NOW), **MINE}, noticed=NOW)
    early = _work(BY_NODE, answered, its, NOW + 29)
    assert early.apply is None and early.again_in == 1
    late = _work(BY_NODE, answered, its, NOW + 30)
    assert late.apply == deployment(BY_NODE, "n1")


def test_what_is_asked_for_anew_has_a_grace_of_its_own() -> None:
    """Somebody has taken the annotation off in the middle: the time at which it was asked for first says nothing."""
    which = read(item({"maxUnavailableNodes": 1, "annotateNodeToDetach": {"key": "k", "gracePeriodSeconds": 10}}))
    again = _work(which, _node("n1"), _its("n1", marks=MARKS), NOW + 60)
    assert again.patch_node == {"k": "", OWNER: "ns/nginx k"}
    assert again.patch_deployment == {DETACH_ASKED: timestamp(NOW + 60)}
    asked = Node("n1", LABELS, {"k": "", OWNER: "ns/nginx k"})
    marked = _its("n1", marks={**MARKS, DETACH_ASKED: timestamp(NOW + 60)})
    assert _work(which, asked, marked, NOW + 61).again_in == 9


def test_then_all_pods_must_be_ready() -> None:
    """The controller has seen it, no old pod is left, and each is ready; then the health port answers again."""
    marked = _its("n1", _now(BY_NODE, "n1"), MARKS)
    out = Node("n1", LABELS, {DETACHMENT: "true", DETACHED: timestamp(NOW)})
    for its in (replace(marked, settled=False), replace(marked, ready=1)):
        work = _work(BY_NODE, out, its)
        assert "to be ready" in work.waits_for and not work.patch_deployment and not work.patch_node
    assert _work(BY_NODE, out, marked).patch_deployment == {DUE: None}


def test_then_the_node_is_attached_again() -> None:
    """By the Node's annotation: the original edits the Deployment, so that it never is."""
    its = _its("n1", _now(BY_NODE, "n1"), {DETACH_ASKED: timestamp(NOW)})
    out = Node("n1", LABELS, {DETACHMENT: "true", DETACHED: timestamp(NOW), **MINE})
    assert _work(BY_NODE, out, its).patch_node == {DETACHMENT: None, OWNER: None}
    assert "attachment-timestamp" in _work(BY_NODE, Node("n1", LABELS, {DETACHED: "x"}), its).waits_for
    back = Node("n1", LABELS, {ATTACHED: timestamp(NOW)})
    assert _work(BY_NODE, back, its).patch_deployment == {DETACH_ASKED: None}


def test_without_a_detachment_the_health_port_must_do() -> None:
    """Mark, wait for the grace period, replace, unmark."""
    which = read(item({"annotateDeploymentToDetach": {"gracePeriodSeconds": 10}}))
    assert _work(which, _node("n1"), _its("n1")).patch_deployment == {DUE: timestamp(NOW)}
    marked = _its("n1", marks={DUE: timestamp(NOW)})
    assert _work(which, _node("n1"), marked, NOW + 9).again_in == 1
    assert _work(which, _node("n1"), marked, NOW + 10).apply is not None
    left_over = _its("n1", _now(which, "n1"), {DETACH_ASKED: "x"})
    assert _work(which, _node("n1"), left_over).patch_deployment == {DETACH_ASKED: None}


def test_a_mark_that_cannot_be_read_is_made_again() -> None:
    """Nobody knows since when: from now on."""
    assert _work(BY_POD, _node("n1"), _its("n1", marks={DUE: "yes"})).patch_deployment == {DUE: timestamp(NOW)}


def _begun(which: IngressDaemonSet, nodes: list[Node], its: list[NodeDeployment]) -> list[str]:
    return [w.node for w in decide(which, nodes, its, NOW).work if w.patch_deployment]


def test_no_more_nodes_than_may_be_begin() -> None:
    """Two of four by maxUnavailableNodes, one of four by default; those that began go on."""
    names = ["n1", "n2", "n3", "n4"]
    nodes = [_node(n) for n in names]
    assert _begun(BY_NODE, nodes, [_its(n) for n in names]) == ["n1", "n2"]
    assert _begun(BY_POD, nodes, [_its(n) for n in names]) == ["n1"]
    its = [_its("n1"), _its("n2", marks=MARKS), _its("n3", _now(BY_NODE, "n3"), MARKS), _its("n4")]
    assert [w.node for w in decide(BY_NODE, nodes, its, NOW).work] == ["n2", "n3"]


def test_a_node_that_is_not_whole_counts_and_goes_first() -> None:
    """A node short of a pod is one that is unavailable already."""
    nodes = [_node("n1"), _node("n2")]
    assert _begun(BY_POD, nodes, [_its("n1"), _its("n2", ready=1)]) == ["n2"]
    assert _begun(BY_POD, nodes, [_its("n1"), _its("n2", _now(BY_POD, "n2"), ready=1)]) == []


def test_a_node_that_somebody_else_has_detached_counts() -> None:
    """As the upgrade of its kubelet does; and nobody attaches it but who detached it."""
    away = Node("n2", LABELS, {DETACHMENT: "true"})
    which = read(item({**DETACH, "maxUnavailableNodes": 1}))
    decision = decide(which, [_node("n1"), away], [_its("n1"), _its("n2", _now(which, "n2"))], NOW)
    assert decision.work == ()


@pytest.mark.parametrize("node", [None, Node("n1", {}), Node("n1", {}, {DETACHMENT: "true", **MINE})])
def test_a_node_that_goes_or_is_no_longer_selected_loses_its_deployment(node: Node | None) -> None:
    """What was asked of it is taken back, in case it stays."""
    decision = decide(BY_NODE, [node] if node else [], [_its("n1", marks=MARKS)], NOW)
    (work,) = decision.work
    assert work.delete == "nginx-n1"
    assert work.patch_node == ({DETACHMENT: None, OWNER: None} if node and node.annotations else {})
    assert decision.desired == 0


def test_the_health_port_answers_for_all_pods_and_no_update() -> None:
    """200 only if all the node's pods are ready and no update of them is due; the original ignores the latter."""
    good = _its("n1", pods=2)
    assert is_healthy(good, DUE)
    assert not is_healthy(None, DUE)
    assert not is_healthy(replace(good, ready=1), DUE)
    assert not is_healthy(replace(good, replicas=1, ready=1), DUE), "somebody has scaled it down"
    assert not is_healthy(replace(good, replicas=0, ready=0, pods=0), DUE)
    assert not is_healthy(_its("n1", marks={DUE: timestamp(NOW)}), DUE)


def test_a_node_that_somebody_else_has_detached_waits_for_its_turn() -> None:
    """Whoever has it out, as the upgrade of its kubelet does, puts it back."""
    theirs = Node("n1", LABELS, {DETACHMENT: "true", OWNER: f"ns/other {DETACHMENT}"})
    for node in (theirs, Node("n1", LABELS, {DETACHMENT: "true"})):
        for its in (_its("n1"), _its("n1", marks=MARKS)):
            work = _work(BY_NODE, node, its)
            assert "another client" in work.waits_for
            assert not work.patch_node and not work.patch_deployment and work.apply is None
        back = _work(BY_NODE, node, _its("n1", _now(BY_NODE, "n1"), {DETACH_ASKED: timestamp(NOW)}))
        assert back.patch_deployment == {DETACH_ASKED: None} and not back.patch_node
        (gone,) = decide(BY_NODE, [replace(node, labels={})], [_its("n1", marks=MARKS)], NOW).work
        assert gone.delete and not gone.patch_node


def test_another_key_than_at_the_beginning_is_taken_back() -> None:
    """The Node says by which annotation it was asked for."""
    node = Node("n1", LABELS, {"old/key": "", OWNER: "ns/nginx old/key"})
    its = _its("n1", _now(BY_POD, "n1"), {DETACH_ASKED: timestamp(NOW)})
    assert _work(BY_POD, node, its).patch_node == {"old/key": None, OWNER: None}
    assert _work(BY_NODE, node, its).patch_node == {"old/key": None, OWNER: None}


def test_taints_keep_pods_away_as_a_daemon_sets() -> None:
    """NoExecute from all nodes, NoSchedule from those that have none yet; tolerated ones from none."""
    execute, schedule = Taint("k", "v", "NoExecute"), Taint("k", "v", "NoSchedule")
    fresh = [decide(BY_POD, [Node("n1", LABELS, taints=(taint,))], [], NOW).desired for taint in (execute, schedule)]
    assert fresh == [0, 0]
    its = [_its("n1", _now(BY_POD, "n1"))]
    kept = [decide(BY_POD, [Node("n1", LABELS, taints=(taint,))], its, NOW).work for taint in (execute, schedule)]
    assert [bool(work) for work in kept] == [True, False]
    assert decide(BY_POD, [Node("n1", LABELS, taints=(execute,))], its, NOW).work[0].delete == "nginx-n1"
    lenient = read(item(pod={"tolerations": [{"key": "k", "operator": "Exists"}]}))
    assert decide(lenient, [Node("n1", LABELS, taints=(execute, schedule))], [], NOW).desired == 1
    unschedulable = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
    assert decide(BY_POD, [Node("n1", LABELS, taints=(unschedulable,))], [], NOW).desired == 1


def test_a_deployment_is_read_as_its_controller_left_it() -> None:
    """Settled only when the newest spec was seen, all pods are of it, and no older ones are left."""
    made = deployment(BY_NODE, "n1")
    status = {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 1}
    seen = node_deployment({**made, "metadata": {**made["metadata"], "generation": 2}, "status": status})
    assert (seen.node, seen.name, seen.replicas, seen.ready, seen.pods) == ("n1", "nginx-n1", 2, 1, 2)
    assert seen.settled and not seen.whole
    for change in ({"observedGeneration": 1}, {"updatedReplicas": 1}, {"replicas": 3}):
        item_ = {**made, "metadata": {**made["metadata"], "generation": 2}, "status": {**status, **change}}
        assert not node_deployment(item_).settled
    assert not node_deployment(made).whole
    bare = node_deployment({"metadata": {"name": "x", "annotations": {PODS: "many"}}})
    assert (bare.node, bare.replicas, bare.ready, bare.settled, bare.pods) == ("", 1, 0, False, 0)


@dataclass
class _Cluster:
    """Nodes, their Deployments, an agent at the load balancer, and what may never happen."""

    which: IngressDaemonSet
    nodes: dict[str, Node] = field(default_factory=dict)
    its: dict[str, NodeDeployment] = field(default_factory=dict)
    now: float = NOW

    def carry_out(self, work: NodeWork) -> None:
        """Do the work as the API would store it, and look whether it is safe."""
        its = self.its[work.node]
        if work.apply is not None:
            node = self.nodes[work.node]
            assert DUE in its.annotations, "503 before the first pod goes"
            assert DETACHED in node.annotations and DETACHMENT in node.annotations, "no pod goes before the node is out"
            assert node.noticed is not None and self.now - node.noticed >= 30, "nor before the grace"
            revision = work.apply["metadata"]["annotations"][REVISION]
            its = replace(its, annotations={**its.annotations, REVISION: revision}, ready=0, settled=False)
        self.its[work.node] = replace(its, annotations=_patched(its.annotations, work.patch_deployment))
        node = self.nodes[work.node]
        self.nodes[work.node] = replace(node, annotations=_patched(node.annotations, work.patch_node))

    def agent(self, name: str) -> None:
        """Answer what the node's annotation asks."""
        node = self.nodes[name]
        if DETACHMENT in node.annotations and DETACHED not in node.annotations:
            annotations = {**_patched(node.annotations, {ATTACHED: None}), DETACHED: timestamp(self.now)}
            self.nodes[name] = replace(node, annotations=annotations, noticed=self.now)
        elif DETACHMENT not in node.annotations and DETACHED in node.annotations:
            assert is_healthy(self.its[name], DUE), "attached only after a good check"
            annotations = {**_patched(node.annotations, {DETACHED: None}), ATTACHED: timestamp(self.now)}
            self.nodes[name] = replace(node, annotations=annotations, noticed=None)

    def kubelet(self, name: str) -> None:
        """Make a pod ready, or end the last old one."""
        its = self.its[name]
        self.its[name] = replace(its, ready=min(its.replicas, its.ready + 1), settled=True)


def _patched(annotations: Any, patch: Any) -> Json:
    return {k: v for k, v in {**annotations, **patch}.items() if v is not None}


@settings(max_examples=30)
@given(st.data())
def test_every_node_is_updated_however_the_controller_is_killed(data: st.DataObject) -> None:
    """Any part of the work is done in any order, as by controllers that die: safe at each step, and it ends."""
    most = data.draw(st.integers(1, 3))
    cluster = _Cluster(read(item({**DETACH, "maxUnavailableNodes": most})))
    names = [f"n{n}" for n in range(data.draw(st.integers(1, 4)))]
    for name in names:
        cluster.nodes[name], cluster.its[name] = _node(name), _its(name, ready=data.draw(st.integers(1, 2)))
    broken = sum(not d.whole for d in cluster.its.values())
    steps = 0
    while steps < 600:
        steps += 1
        cluster.now += data.draw(st.sampled_from([0.0, 1.0, 40.0])) if steps < 60 else 40.0
        decision = decide(cluster.which, cluster.nodes.values(), cluster.its.values(), cluster.now)
        if not decision.work:
            break
        for work in decision.work:
            if steps >= 60 or data.draw(st.booleans()):
                cluster.carry_out(work)
        for name in names:
            if steps >= 60 or data.draw(st.booleans()):
                cluster.agent(name)
                cluster.kubelet(name)
        assert sum(DETACHMENT in n.annotations for n in cluster.nodes.values()) <= most
        assert sum(not d.whole for d in cluster.its.values()) <= max(most, broken)
    assert decide(cluster.which, cluster.nodes.values(), cluster.its.values(), cluster.now).updated == len(names)
    assert all(DETACHMENT not in n.annotations and ATTACHED in n.annotations for n in cluster.nodes.values())
    assert all(is_healthy(d, DUE) and DETACH_ASKED not in d.annotations for d in cluster.its.values())
