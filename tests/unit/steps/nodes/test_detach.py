"""Nodes are out of their load balancer while they are upgraded, and in it again afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.steps.nodes.fleet import NEW, OLD, Fleet, Killed
from upgrader.contract.detach import ATTACHED, DETACHED, DETACHMENT, OWNER
from upgrader.contract.times import timestamp
from upgrader.errors import PlaybookError, RollbackFailed, StepFailed
from upgrader.model.node_mark import NodeMark
from upgrader.model.node_settings import DetachPolicy, DrainPolicy
from upgrader.model.release import NodeBefore, RestorePoint
from upgrader.ports import PlaybookResult
from upgrader.steps.nodes.api_resources import NODES
from upgrader.steps.nodes.step import NodesInspector

DONE, AS_BEFORE = str(NEW), str(OLD)
POLICY = DetachPolicy(grace_seconds=30, deadline_seconds=120)


class Agent:
    """Who serves the load balancer of a fleet: it answers `seconds` after it has seen what is asked."""

    def __init__(self, fleet: Fleet, seconds: float = 5.0) -> None:
        self.fleet, self.seconds = fleet, seconds
        self.runs = True
        self.well = True
        """Whether nodes pass the load balancer's check: else none gets back."""
        self.out_since: dict[str, float] = {}
        self.log: list[str] = []
        self._seen: dict[tuple[str, bool], float] = {}
        fleet.kube.watchers.append(self)

    def __call__(self) -> None:
        for name in self.fleet.names if self.runs else ():
            annotations = self.fleet.node(name)["metadata"].get("annotations") or {}
            asked, out = DETACHMENT in annotations, DETACHED in annotations
            if asked == out:
                self._seen.pop((name, not asked), None)
                continue
            now = self.fleet.clock.monotonic()
            if now - self._seen.setdefault((name, asked), now) < self.seconds or not (asked or self.well):
                continue
            del self._seen[name, asked]
            self.log.append(f"{name} {'out' if asked else 'back'}")
            if asked:
                self.out_since[name] = now
                self.fleet.annotate(name, out=timestamp(now), back=None)
            else:
                self.fleet.annotate(name, out=None, back=timestamp(now))


def fleet_of(*names: str, seconds: float = 5.0) -> tuple[Fleet, Agent]:
    """Nodes that are taken out of a load balancer whose agent runs."""
    fleet = Fleet(*names)
    fleet.detach = POLICY
    return fleet, Agent(fleet, seconds)


def is_in(fleet: Fleet, name: str) -> bool:
    """Nobody wants it out, nothing says that it is out, and no mark is left."""
    return not (fleet.node(name)["metadata"].get("annotations") or {}).keys() - {ATTACHED}


def test_each_node_is_out_while_it_is_upgraded() -> None:
    """Asked for before its cordon, out for the grace period before its drain, back before the next node's turn; and the
    notes say so.
    """
    fleet, agent = fleet_of("worker-1", "worker-2")
    asked_uncordoned: list[bool] = []
    evicted: dict[str, float] = {}

    def look() -> None:
        for name in fleet.names:
            node = fleet.node(name)
            if DETACHMENT in (node["metadata"].get("annotations") or {}) and not fleet.is_out(name):
                asked_uncordoned.append(not (node.get("spec") or {}).get("unschedulable"))
            if f"web-{name}" not in fleet.pods():
                evicted.setdefault(name, fleet.clock.monotonic())

    fleet.kube.watchers.append(look)
    fleet.step().apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": DONE, "worker-2": DONE}
    assert agent.log == ["worker-1 out", "worker-1 back", "worker-2 out", "worker-2 back"]
    assert asked_uncordoned and all(asked_uncordoned)
    assert all(evicted[name] - agent.out_since[name] >= 30 for name in fleet.names)
    of_one = [note.partition(": ")[2] for note in fleet.notes if note.startswith("worker-1: ")]
    assert of_one == [
        "requesting its removal from the load balancer",
        f"out of the load balancer since {timestamp(agent.out_since['worker-1'])}",
        "cordoned, draining it",
        "drained",
        "replacing its binaries",
        f"Ready with kubelet {NEW}; uncordoned",
        "in the load balancer again",
    ]


def test_a_batch_is_out_together() -> None:
    """All are asked for at once: that takes no longer than one."""
    fleet, agent = fleet_of("worker-1", "worker-2", seconds=60)
    fleet.step(at_once=2).apply(fleet.notes.append)
    assert agent.log == ["worker-1 out", "worker-2 out", "worker-1 back", "worker-2 back"]
    assert fleet.clock.monotonic() < 250


def test_without_the_setting_nobody_is_asked() -> None:
    """No annotation, and no wait."""
    fleet = Fleet("worker-1")
    agent = Agent(fleet)
    fleet.step().apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": DONE} and agent.log == []


def test_a_load_balancer_that_does_not_answer_fails_the_node() -> None:
    """At the deadline; nothing of the node was changed, not even cordoned, and the wish is taken back."""
    fleet, agent = fleet_of("worker-1", "worker-2")
    agent.runs = False
    with pytest.raises(StepFailed) as caught:
        fleet.step().apply(fleet.notes.append)
    assert "worker-1: it was not removed from the load balancer within 120 s" in caught.value.message
    assert f"waiting for the annotation {DETACHED} on the node" in caught.value.message
    assert fleet.state() == {"worker-1": AS_BEFORE, "worker-2": AS_BEFORE}
    assert fleet.ran == [] and fleet.most_cordoned == 0 and len(fleet.pods()) == 2
    assert is_in(fleet, "worker-1") and is_in(fleet, "worker-2")


def test_a_drain_that_may_be_skipped_does_not_excuse_a_load_balancer() -> None:
    """`onBlocked: skip-node` is about pods."""
    fleet, agent = fleet_of("worker-1")
    agent.runs = False
    with pytest.raises(StepFailed, match="not removed from the load balancer"):
        fleet.step(drain=DrainPolicy(30.0, "skip-node")).apply(fleet.notes.append)


def test_a_timestamp_that_can_not_be_read_is_waited_for() -> None:
    """The notes say what stands there, once; one that can be read lets it go on."""
    fleet, agent = fleet_of("worker-1")
    agent.runs = False

    def write() -> None:
        now = fleet.clock.monotonic()
        if DETACHMENT in (fleet.node("worker-1")["metadata"].get("annotations") or {}) and not agent.runs:
            fleet.annotate("worker-1", out="half past nine" if now < 20 else timestamp(now))
            agent.runs = now >= 20

    fleet.kube.watchers.append(write)
    fleet.step().apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": DONE}
    told = f"worker-1: waiting for a time in the annotation {DETACHED}, which is 'half past nine'"
    assert fleet.notes.count(told) == 1


def test_a_timestamp_that_can_not_be_read_until_the_deadline_is_in_the_error() -> None:
    """The same, out and back."""
    fleet, agent = fleet_of("worker-1")
    agent.runs = False

    def spoil_first() -> None:
        if DETACHMENT in (fleet.node("worker-1")["metadata"].get("annotations") or {}):
            fleet.annotate("worker-1", out="yes")

    fleet.kube.watchers.append(spoil_first)
    with pytest.raises(StepFailed, match=r"waiting for a time in the annotation .*, which is 'yes'"):
        fleet.step().apply(fleet.notes.append)

    fleet, agent = fleet_of("worker-1")

    def spoil() -> None:
        if agent.log == ["worker-1 out", "worker-1 back"]:
            fleet.annotate("worker-1", back="no")

    fleet.kube.watchers.append(spoil)
    with pytest.raises(StepFailed, match=f"waiting for a time in the annotation {ATTACHED}, which is 'no'"):
        fleet.step().apply(fleet.notes.append)


def test_an_old_answer_is_none() -> None:
    """What an earlier detachment has left is taken off with the new wish."""
    fleet, agent = fleet_of("worker-1")
    fleet.annotate("worker-1", out=timestamp(1), back=timestamp(2))
    agent.runs = False
    with pytest.raises(StepFailed, match="not removed from the load balancer"):
        fleet.step().apply(fleet.notes.append)


def test_a_node_that_somebody_else_took_out_stays_out() -> None:
    """As with a cordon: it is waited for, upgraded, and the annotation is still there afterwards."""
    fleet, agent = fleet_of("worker-1")
    fleet.annotate("worker-1", asked="maintenance")
    fleet.step().apply(fleet.notes.append)
    assert fleet.is_out("worker-1") and agent.log == ["worker-1 out"]
    assert fleet.node("worker-1")["metadata"]["annotations"][DETACHMENT] == "maintenance"
    assert fleet.node("worker-1")["status"]["nodeInfo"]["kubeletVersion"] == DONE


def test_a_node_that_an_ingress_daemon_set_took_out_is_taken_over() -> None:
    """It would put the node back as soon as its own pods are ready, in the middle of the upgrade: it isn't its own any
    more, and the upgrade puts the node back at its end.
    """
    fleet, agent = fleet_of("worker-1")
    node = dict(fleet.node("worker-1"))
    lent = {DETACHMENT: "true", OWNER: f"edge/nginx {DETACHMENT}"}
    metadata = {**node["metadata"], "annotations": {**(node["metadata"].get("annotations") or {}), **lent}}
    fleet.kube.put(NODES, {**node, "metadata": metadata})
    fleet.step().apply(fleet.notes.append)
    assert OWNER not in fleet.node("worker-1")["metadata"]["annotations"]
    assert not fleet.is_out("worker-1") and agent.log == ["worker-1 out", "worker-1 back"]


def test_a_wish_that_is_taken_off_is_made_again() -> None:
    """Whoever removes the annotation in the middle doesn't have a node drained that serves clients."""
    fleet, agent = fleet_of("worker-1", seconds=20)
    times: list[float] = []

    def meddle() -> None:
        now = fleet.clock.monotonic()
        if not times and now > 10:
            times.append(now)
            fleet.annotate("worker-1", asked=None)

    fleet.kube.watchers.append(meddle)
    fleet.step().apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": DONE} and times
    assert agent.log == ["worker-1 out", "worker-1 back"]


def test_somebody_who_wants_it_out_in_the_end_has_it() -> None:
    """A wish that comes while the node gets back isn't ours to remove, and nothing is waited for."""
    fleet, agent = fleet_of("worker-1", seconds=5)

    def want() -> None:
        if f"worker-1: Ready with kubelet {NEW}; uncordoned" in fleet.notes:
            agent.runs = False
            fleet.annotate("worker-1", asked="maintenance")

    fleet.kube.watchers.append(want)
    fleet.step().apply(fleet.notes.append)
    assert "worker-1: stays out of the load balancer, because another client requests its removal" in fleet.notes
    assert NodeMark.of(fleet.node("worker-1")) is None


def test_a_node_that_fails_is_put_back_and_attached() -> None:
    """Old programs, uncordoned, and in the load balancer again."""
    fleet, agent = fleet_of("worker-1")
    fleet.never_ready.add("worker-1")
    with pytest.raises(StepFailed, match=r"its old binaries were restored: it is at v1\.36\.3, and Ready"):
        fleet.step().apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": AS_BEFORE}
    assert is_in(fleet, "worker-1") and agent.log == ["worker-1 out", "worker-1 back"]


def test_a_node_whose_drain_is_blocked_is_attached_again() -> None:
    """Nothing of it was changed."""
    fleet, agent = fleet_of("worker-1")
    fleet.add_budget()
    with pytest.raises(StepFailed, match="was not drained"):
        fleet.step(drain=DrainPolicy(30.0)).apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": AS_BEFORE}
    assert is_in(fleet, "worker-1") and agent.log == ["worker-1 out", "worker-1 back"]


def test_a_node_that_does_not_get_back_has_failed() -> None:
    """Its service may not work with the new kubelet: it is put back. As long as that doesn't help, the error says both,
    the mark stays, and the next run waits for it and goes on.
    """
    fleet, agent = fleet_of("worker-1")
    agent.well = False
    with pytest.raises(StepFailed) as caught:
        fleet.step().apply(fleet.notes.append)
    assert fleet.ran == ["upgrade-node.yml worker-1", "restore-node.yml worker-1"]
    assert "it was not added to the load balancer again within 120 s" in caught.value.message
    assert "it is unchanged, and uncordoned, but it was not added to the load balancer again" in caught.value.message
    mark = NodeMark.of(fleet.node("worker-1"))
    assert mark and mark.phase == "attach"
    agent.well = True
    fleet.step().apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": DONE} and is_in(fleet, "worker-1")


def test_a_node_that_gets_back_only_with_its_old_programs() -> None:
    """It is taken out while it is put back, and in again afterwards."""
    fleet, agent = fleet_of("worker-1")

    def fit() -> None:
        agent.well = fleet.node("worker-1")["status"]["nodeInfo"]["kubeletVersion"] == AS_BEFORE

    fleet.kube.watchers.insert(0, fit)
    with pytest.raises(StepFailed, match=r"its old binaries were restored: it is at v1\.36\.3, and Ready"):
        fleet.step().apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": AS_BEFORE} and is_in(fleet, "worker-1")


def test_undo_takes_nodes_out_and_back() -> None:
    """On the way back, too."""
    fleet, agent = fleet_of("worker-1", "worker-2")
    step = fleet.step()
    step.apply(fleet.notes.append)
    agent.log.clear()
    step.undo(step.capture(), fleet.notes.append)
    assert fleet.state() == {"worker-1": AS_BEFORE, "worker-2": AS_BEFORE}
    assert agent.log == ["worker-2 out", "worker-2 back", "worker-1 out", "worker-1 back"]


def test_undo_is_not_stopped_by_a_load_balancer_that_does_not_answer() -> None:
    """It waits 30 s for it, and goes on; a node that was never out has nothing to get back to."""
    fleet, agent = fleet_of("worker-1")
    step = fleet.step()
    step.apply(fleet.notes.append)
    agent.runs = False
    begun = fleet.clock.monotonic()
    step.undo(step.capture(), fleet.notes.append)
    assert fleet.state() == {"worker-1": AS_BEFORE} and is_in(fleet, "worker-1")
    assert fleet.clock.monotonic() - begun < 90
    assert any("within 30 s" in note and note.endswith("; draining it anyway") for note in fleet.notes)


def test_undo_says_which_node_did_not_get_back() -> None:
    """Its programs are the old ones; it isn't where it was, and the next undo waits for it alone."""
    fleet, agent = fleet_of("worker-1", "worker-2")
    step = fleet.step()
    step.apply(fleet.notes.append)
    agent.well = False
    with pytest.raises(
        RollbackFailed, match=r"worker-2: it is unchanged, and uncordoned, but it was not added to the load"
    ):
        step.undo(step.capture(), fleet.notes.append)
    agent.well = True
    fleet.ran.clear()
    step.undo(step.capture(), fleet.notes.append)
    assert fleet.state() == {"worker-1": AS_BEFORE, "worker-2": AS_BEFORE}
    assert is_in(fleet, "worker-1") and is_in(fleet, "worker-2") and not fleet.ran


def test_a_setting_that_was_removed_leaves_no_node_out() -> None:
    """A run that was killed while a node was out, and goes on without `detach`: the node gets back."""
    fleet, _ = fleet_of("worker-1")
    fleet.step().batch.cordons.detach("worker-1")
    fleet.detach = None
    fleet.step().apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": DONE} and is_in(fleet, "worker-1")


@pytest.mark.parametrize("at_once", [1, 2])
def test_killed_at_any_request_it_is_completed(at_once: int) -> None:
    """Wherever the process dies, the next one completes it: upgraded, in the load balancer, no mark left; and never was
    a node changed that was in it.
    """
    for lives in range(1000):
        fleet, _ = fleet_of("worker-1", "worker-2")
        if not fleet.dies(lives, at_once):
            break
        again = fleet.step(at_once=at_once)
        if not NodesInspector(again).inspect(again.capture()).applied:
            again.apply(fleet.notes.append)
        assert fleet.state() == {"worker-1": DONE, "worker-2": DONE}, f"killed at request {lives}"
        assert is_in(fleet, "worker-1") and is_in(fleet, "worker-2"), f"killed at request {lives}"
    assert lives > 40


@pytest.mark.parametrize("at_once", [1, 2])
def test_killed_at_any_request_it_is_undone(at_once: int) -> None:
    """Wherever the process dies, its undo returns every node, even if that dies in the middle as well."""
    for lives in range(1000):
        fleet, _ = fleet_of("worker-1", "worker-2")
        died = fleet.dies(lives, at_once)
        point = RestorePoint(nodes=(NodeBefore("worker-1", OLD), NodeBefore("worker-2", OLD)))
        fleet.kube.lives = lives % 41
        try:
            fleet.step(at_once=at_once).undo(point, fleet.notes.append)
        except Killed:
            fleet.kube.lives = -1
            fleet.step(at_once=at_once).undo(point, fleet.notes.append)
        assert fleet.state() == {"worker-1": AS_BEFORE, "worker-2": AS_BEFORE}, f"killed at request {lives}"
        assert is_in(fleet, "worker-1") and is_in(fleet, "worker-2"), f"killed at request {lives}"
        if not died:
            break


def test_a_check_ends_the_waits() -> None:
    """What watches the API's clients ends a wait for the load balancer, and its grace period; the undo gets it back."""
    for seconds in (3, 20):
        fleet, _ = fleet_of("worker-1")

        def disturbed(fleet: Fleet = fleet, seconds: int = seconds) -> None:
            if fleet.clock.monotonic() > seconds:
                raise StepFailed("clients are disturbed")

        step = fleet.step().watched(disturbed)
        with pytest.raises(StepFailed, match="disturbed"):
            step.apply(fleet.notes.append)
        assert fleet.clock.monotonic() < 30
        fleet.step().undo(step.capture(), fleet.notes.append)
        assert fleet.state() == {"worker-1": AS_BEFORE} and is_in(fleet, "worker-1")


def test_a_node_that_leaves_the_cluster_is_no_failure() -> None:
    """An autoscaler may remove it while it is out: nobody waits for it."""
    fleet, agent = fleet_of("worker-1", "worker-2")
    step = fleet.step()
    agent.runs = False

    def leave() -> None:
        if "worker-1" in fleet.names and fleet.clock.monotonic() > 5:
            fleet.names = ("worker-2",)
            fleet.kube._objects.pop(("v1", "nodes", "", "worker-1"))
            agent.runs = True

    fleet.kube.watchers.insert(0, leave)
    run = fleet.run

    def without_machine(playbook: Path, *, limit: str = "", **more: Any) -> PlaybookResult:
        if limit == "worker-1":
            raise PlaybookError("unreachable", hosts={"worker-1": "unreachable"})
        return run(playbook, limit=limit, **more)

    fleet.run = without_machine  # type: ignore[method-assign]
    step.apply(fleet.notes.append)
    assert fleet.state() == {"worker-2": DONE}
    assert "worker-1: it is no longer a node of the cluster" in fleet.notes
