"""Controllers that are down: each way on is named, and a run without one of them is refused for what needs it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.preflight.conftest import CONTROL_PLANE, V, World
from tests.unit.recover.host_facts_json import host_facts
from upgrader.errors import Blocked
from upgrader.model.cluster import Host
from upgrader.model.components import COMPONENTS
from upgrader.model.finding import Finding
from upgrader.model.left_out import LEFT_OUT, LeftOut, LeftOutPhase
from upgrader.onhost.sending.host_facts import EtcdServer, HostFacts, Member, Unknown
from upgrader.preflight.context import DEPLOYMENTS, NODES, PODS, PreflightContext
from upgrader.preflight.control_plane import check_control_plane
from upgrader.preflight.down_controllers import etcd_problem, refuse_relabelled
from upgrader.preflight.etcd_members import check_etcd_members
from upgrader.preflight.nodes import check_nodes, check_workers
from upgrader.steps.playbook.plan import PlannedPlaybook

NAMES = ("controller-1", "controller-2", "controller-3")
LAST = NAMES[-1]
OUT = LeftOut("out", V(1, 36, 3))


@pytest.fixture
def three(world: World) -> World:
    """Three healthy controllers."""
    controllers = tuple(Host(name, f"10.0.0.{number}") for number, name in enumerate(NAMES, 2))
    world.cluster = replace(world.cluster, controllers=controllers)
    world.hosts.commands["true"] = world.hosts.commands["id"]
    for name in NAMES:
        world.node(name, labels=CONTROL_PLANE)
        world.facts[name] = with_member(name)
    return world


def with_member(name: str, **server: Any) -> HostFacts:
    """A controller with a healthy member of an etcd of three."""
    members = tuple(Member(f"id{each[-1]}", each, (), (), learner=False) for each in NAMES)
    found = EtcdServer(healthy=True, version="3.6.8", id=f"id{name[-1]}", leader="id1", members=members)
    facts = host_facts({})
    return replace(facts, etcd=replace(facts.etcd, manifest=True, server=replace(found, **server)))


def down(world: World, name: str) -> None:
    """Neither its kubelet nor SSH answers."""
    world.hosts.down.add(name)
    node = world.node(name, ready="Unknown", labels=CONTROL_PLANE)
    node["spec"]["taints"] = [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]
    world.kube.put(NODES, node)


def marked(world: World, mark: LeftOut = OUT) -> PreflightContext:
    """What checks are given of a run without the last one, whose node has this mark."""
    found = world.kube.get(NODES, LAST)
    assert found is not None
    meta = {**found["metadata"], "labels": {}, "annotations": {LEFT_OUT: mark.text()}}
    world.kube.put(NODES, {**found, "metadata": meta})
    world.facts.pop(LAST, None)
    cluster = replace(world.cluster, controllers=world.cluster.controllers[:2])
    context = replace(world.context(), cluster=cluster, leaves_out=True, left_out={LAST: mark})
    return replace(context, examine=lambda: world.examine()[:2])


def found(context: PreflightContext) -> dict[str, Finding]:
    """What the check of nodes finds."""
    return {item.id: item for item in check_nodes(context)}


def test_refusal_names_the_controller_what_is_unknown_and_every_way_on(three: World) -> None:
    """By default no run starts; one of three may be repaired, left out, or removed."""
    assert found(three.context()) == {}
    down(three, LAST)
    told = found(three.context())
    assert told.keys() == {"nodes.down"} and told["nodes.down"].blocking
    told_of = told["nodes.down"]
    assert LAST in told_of.title and "The machine may be powered off" in told_of.diagnosis
    for way in ("Repair it", f"controllers remove {LAST} --dead", "`policy.degraded: allow`"):
        assert way in told_of.remedy
    three.manifests["kube-apiserver"] = ""
    allowed = found(replace(three.context(), leaves_out=True))["nodes.down"]
    assert "`upgrader run` does that first" in allowed.remedy


def test_second_controller_that_is_down_can_not_be_left_out(three: World) -> None:
    """Nor can one of two: the others' etcd has no majority."""
    down(three, LAST)
    down(three, NAMES[1])
    remedies = [item.remedy for item in check_nodes(three.context()) if item.id == "nodes.down"]
    assert len(remedies) == 2 and not any("degraded" in each for each in remedies)


def test_controller_that_answers_over_ssh_is_not_down(three: World) -> None:
    """Its kubelet alone is silent: what runs there is not known, and it isn't left out."""
    down(three, LAST)
    three.hosts.down.clear()
    assert found(three.context()).keys() == {"nodes.unknown"}


def test_run_without_a_controller(three: World) -> None:
    """It is a warning, which the report repeats; it is no worker, no stranger to etcd, and no label is missed."""
    down(three, LAST)
    context = marked(three)
    told = found(context)
    assert told.keys() == {"nodes.left-out"} and not told["nodes.left-out"].blocking
    assert f"When {LAST} is back: upgrader resume" in told["nodes.left-out"].remedy
    assert list(check_workers(context)) == []
    assert {item.id for item in check_etcd_members(context)} == {"etcd-members.no-spare"}


def test_controller_that_is_back_gets_its_turn_first(three: World) -> None:
    """Another run would leave it further behind."""
    told = found(marked(three))["nodes.returned"]
    assert told.blocking and "upgrader resume" in told.remedy


def test_upgrade_that_cannot_be_completed_keeps_no_run_from_starting(three: World) -> None:
    """A return waits for the end of the upgrade before it, and that one fails again: without the controller, a new run
    goes on from there, as while it was down.
    """
    mark = LeftOut("out", V(1, 36, 3), V(1, 37, 1))
    told = found(replace(marked(three, mark), upgrade_to_resume="20260101T000000-v1.37.1"))
    assert told.keys() == {"nodes.left-out"} and not told["nodes.left-out"].blocking
    assert "once upgrade 20260101T000000-v1.37.1 is complete" in told["nodes.left-out"].diagnosis
    assert "v1.36.3 or v1.37.1" in told["nodes.left-out"].diagnosis
    assert "upgrader resume" in told["nodes.left-out"].remedy


def test_label_that_somebody_gave_back(three: World) -> None:
    """Pods of the control plane would be placed there, and no gate would ask them. A return gives it back itself."""
    down(three, LAST)
    for phase, refused in (("out", True), ("returning", False)):
        mark = LeftOut(phase, OUT.version)  # type: ignore[arg-type]
        context = marked(three, mark)
        node = dict(three.kube.get(NODES, LAST) or {})
        three.kube.put(NODES, {**node, "metadata": {**node["metadata"], "labels": CONTROL_PLANE}})
        told = found(context)
        assert ("nodes.relabelled" in told) is refused
        if refused:
            assert told["nodes.relabelled"].blocking and f"kubectl label node {LAST}" in told["nodes.relabelled"].remedy
            with pytest.raises(Blocked, match=f"controller {LAST} is left out of runs, but its node has the label"):
                refuse_relabelled(three.kube, {LAST: mark})
        else:
            refuse_relabelled(three.kube, {LAST: mark})


def test_controller_that_is_to_be_left_out_has_its_label(three: World) -> None:
    """The upgrade is checked before anything is done to its node: that is no label that somebody gave back."""
    down(three, LAST)
    context = marked(three)
    node = dict(three.kube.get(NODES, LAST) or {})
    three.kube.put(NODES, {**node, "metadata": {**node["metadata"], "annotations": {}, "labels": CONTROL_PLANE}})
    assert found(context).keys() == {"nodes.left-out"}


def test_nothing_to_upgrade_leaves_nobody_out(three: World) -> None:
    """The remedy is no command that refuses again."""
    down(three, LAST)
    context = replace(three.context(), leaves_out=True)
    assert context.plan is not None
    idle = replace(context, plan=replace(context.plan, steps=()))
    assert "Nothing would be upgraded, so the run doesn't leave it out" in found(idle)["nodes.down"].remedy


def test_pods_of_the_controller_are_not_asked_for(three: World) -> None:
    """They are listed until it is left out, and the Deployment counts them: two of two are Ready, not two of three."""
    down(three, LAST)
    for component in COMPONENTS:
        found = dict(three.kube.get(DEPLOYMENTS, component, "kube-system") or {})
        three.kube.put(DEPLOYMENTS, {**found, "spec": {**found["spec"], "replicas": len(NAMES)}})
        three.kube.delete(PODS, f"{component}-abc", "kube-system")
        for name in NAMES:
            pod = three.pod(f"{component}-{name}", {"app": component}, ready=name != LAST)
            three.kube.put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": name}})
    assert {item.id for item in check_control_plane(three.context())} == {"control-plane.not-ready"}
    assert list(check_control_plane(marked(three))) == []
    pod = three.pod(f"{COMPONENTS[0]}-{NAMES[1]}", {"app": COMPONENTS[0]}, ready=False)
    three.kube.put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": NAMES[1]}})
    (told,) = check_control_plane(marked(three))
    assert told.title == f"{COMPONENTS[0]}: 1 of 2 pods Ready"


@pytest.mark.parametrize(("phase", "way"), [("leaving", "upgrader run"), ("returning", "upgrader resume")])
def test_half_done_is_completed_first(three: World, phase: LeftOutPhase, way: str) -> None:
    """The releases may count it, or not."""
    down(three, LAST)
    told = found(marked(three, LeftOut(phase, OUT.version)))["nodes.half-left-out"]
    assert told.blocking and way in told.remedy


@pytest.mark.parametrize(
    ("version", "target", "refused"),
    [
        (V(1, 36, 3), V(1, 36, 4), False),
        (V(1, 36, 3), V(1, 37, 1), False),
        (V(1, 35, 3), V(1, 37, 1), True),
        (V(1, 38, 0), V(1, 37, 1), True),
        (None, V(1, 36, 4), False),
        (None, V(1, 37, 1), True),
    ],
)
def test_kube_apiservers_stay_within_one_minor(three: World, version: Any, target: Any, refused: bool) -> None:
    """What it was left out at may start at any moment; an unknown version allows patches only."""
    down(three, LAST)
    three.target = target
    assert ("nodes.left-out-skew" in found(marked(three, LeftOut("out", version)))) is refused


@pytest.mark.parametrize(
    ("target", "refused"), [(V(1, 36, 4), False), (V(1, 37, 1), False), (V(1, 38, 0), True), (V(1, 35, 9), True)]
)
def test_each_version_that_it_may_start_counts(three: World, target: Any, refused: bool) -> None:
    """It died in the middle of an upgrade: the newer one alone would allow one minor too much."""
    down(three, LAST)
    three.target = target
    mark = LeftOut("out", V(1, 36, 3), V(1, 37, 1))
    assert ("nodes.left-out-skew" in found(marked(three, mark))) is refused
    assert LeftOut.of({"metadata": {"annotations": {LEFT_OUT: mark.text()}}}) == mark


def test_step_that_needs_every_controller(three: World) -> None:
    """What a playbook doesn't do on the one that is down would never be done."""
    down(three, LAST)
    context = marked(three)
    assert context.plan is not None
    playbook = PlannedPlaybook(Path("/c/tune.yml"), None)
    told = found(replace(context, plan=replace(context.plan, steps=(playbook,))))["nodes.needs-all"]
    assert told.blocking and playbook.name in told.title


def test_member_of_etcd_that_is_not_healthy(three: World) -> None:
    """No run begins without a controller while etcd has less than its majority, or that isn't known."""
    down(three, LAST)
    three.facts[NAMES[1]] = with_member(NAMES[1], healthy=False, said="no leader")
    told = found(marked(three))["nodes.no-quorum"]
    assert told.blocking and "no leader" in told.title


def test_what_is_wrong_with_etcd(three: World) -> None:
    """Each answer that is missing is one; an etcd on other machines is not for these controllers to tell."""
    cluster = replace(three.cluster, controllers=three.cluster.controllers[:2])
    good = {name: with_member(name) for name in NAMES[:2]}
    assert etcd_problem(good, cluster) == ""
    assert "controller-2 could not be examined" in etcd_problem({NAMES[0]: good[NAMES[0]]}, cluster)
    silent = replace(good[NAMES[1]], etcd=replace(good[NAMES[1]].etcd, server=Unknown("refused")))
    assert "doesn't answer: refused" in etcd_problem({**good, NAMES[1]: silent}, cluster)
    unlisted = with_member(NAMES[1], members=Unknown("no answer"))
    assert "doesn't list the others" in etcd_problem({**good, NAMES[1]: unlisted}, cluster)
    five = tuple(Member(f"id{each}", f"m{each}", (), (), learner=False) for each in range(1, 6))
    larger = {name: with_member(name, members=five) for name in NAMES[:2]}
    assert etcd_problem(larger, cluster) == "2 of 5 members are healthy, but 3 are needed"
    facts = host_facts({})
    elsewhere = replace(facts, certificates=(), etcd=replace(facts.etcd, manifest=False, data="missing"))
    assert etcd_problem(dict.fromkeys(NAMES[:2], elsewhere), cluster) == ""


def test_left_out_but_no_longer_allowed(three: World) -> None:
    """upgrader.yaml says that no controller is left out: the way back is named, and no label is to be set by hand."""
    down(three, LAST)
    marked(three)
    told = found(three.context())
    assert told.keys() == {"nodes.down", "nodes.still-left-out"}
    assert "upgrader resume" in told["nodes.still-left-out"].remedy
