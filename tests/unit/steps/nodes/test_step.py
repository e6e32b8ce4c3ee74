"""The step that upgrades a pool's nodes."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from tests.unit.steps.nodes.fleet import NEW, OLD, Fleet, Killed
from upgrader.errors import GateFailed, PlaybookError, RollbackFailed, StepFailed
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.model.node_settings import DrainPolicy, OnBlocked
from upgrader.model.release import NodeBefore, RestorePoint
from upgrader.ports import PlaybookResult
from upgrader.steps.nodes.step import NodesInspector

DONE, AS_BEFORE = str(NEW), str(OLD)


def test_nodes_are_upgraded_one_after_the_other() -> None:
    """Each is cordoned, drained, upgraded and uncordoned before the next one, with the gates in between."""
    fleet = Fleet("worker-1", "worker-2")
    fleet.step().apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": DONE, "worker-2": DONE}
    assert fleet.ran == ["upgrade-node.yml worker-1", "upgrade-node.yml worker-2"]
    assert fleet.pods() == set(), "a controller makes them again elsewhere"
    assert fleet.most_cordoned == 1
    assert fleet.notes.index("gates") > fleet.notes.index(f"worker-1: Ready with kubelet {NEW}; uncordoned")
    assert fleet.notes.index("gates") < fleet.notes.index("worker-2: cordoned, draining it")


def test_batch_is_upgraded_together() -> None:
    """As many at once as the pool allows, and no more."""
    fleet = Fleet("worker-1", "worker-2", "worker-3")
    fleet.step(at_once=2).apply(fleet.notes.append)
    assert set(fleet.state().values()) == {DONE}
    assert fleet.ran == ["upgrade-node.yml worker-1,worker-2", "upgrade-node.yml worker-3"]
    assert fleet.most_cordoned == 2


def test_cordon_of_somebody_else_stays() -> None:
    """A node that an administrator has cordoned is upgraded, and is still cordoned afterwards."""
    fleet = Fleet("worker-1")
    fleet.kube.patch(NODES, "worker-1", {"spec": {"unschedulable": True}})
    fleet.step().apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": f"{NEW} cordoned"}


def test_budget_that_blocks_is_named() -> None:
    """After the drain's deadline the node is uncordoned as it was, and the error names budget, pod and node."""
    fleet = Fleet("worker-1", "worker-2")
    fleet.add_budget()
    with pytest.raises(StepFailed) as caught:
        fleet.step(drain=DrainPolicy(30.0)).apply(fleet.notes.append)
    told = caught.value.message
    assert "worker-1: it was not drained within 30 s" in told
    assert "PodDisruptionBudget default/web (minAvailable 3; 3 of 3 pods are healthy)" in told
    assert "pod default/web-worker-1" in told
    assert "1 of 2 nodes of pool workers failed (maxFailed: 0)" in told
    assert fleet.state() == {"worker-1": AS_BEFORE, "worker-2": AS_BEFORE}
    assert fleet.ran == [] and fleet.pods() == {"web-worker-1", "web-worker-2"}


def test_waiting_for_a_budget_is_told_once() -> None:
    """While it waits, the operator is told which budget it waits for, and not again every two seconds."""
    fleet = Fleet("worker-1")
    fleet.add_budget()
    with pytest.raises(StepFailed):
        fleet.step(drain=DrainPolicy(30.0)).apply(fleet.notes.append)
    assert len([note for note in fleet.notes if note.endswith("; waiting")]) == 1


def test_budget_that_opens_lets_the_drain_go_on() -> None:
    """A refused eviction is tried again until the budget allows it."""
    fleet = Fleet("worker-1")
    fleet.add_budget()

    def open_it() -> None:
        if fleet.clock.monotonic() > 10:
            fleet.add_budget(1)

    fleet.kube.watchers.append(open_it)
    fleet.step().apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": DONE}


def test_skipped_node_is_no_failure() -> None:
    """`onBlocked: skip-node`: the node keeps its version, and the others are upgraded."""
    fleet = Fleet("worker-1", "worker-2")
    fleet.add_pod("alone", "worker-1")
    fleet.step(drain=DrainPolicy(30.0, "skip-node")).apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": AS_BEFORE, "worker-2": DONE}
    assert any("worker-1: skipped: pod default/alone" in note for note in fleet.notes)
    assert "alone" in fleet.pods()


def test_force_deletes_what_a_budget_keeps() -> None:
    """`onBlocked: force`: after the deadline, pods are deleted whatever their budgets say, and those without a
    controller are evicted.
    """
    fleet = Fleet("worker-1")
    fleet.add_budget()
    fleet.add_pod("alone", "worker-1")
    fleet.step(drain=DrainPolicy(30.0, "force")).apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": DONE}
    assert fleet.pods() == set()
    assert fleet.clock.monotonic() > 30


def test_pod_without_a_controller_is_never_evicted_unasked() -> None:
    """It would be gone for good: the node fails at once, without a wait and without an eviction."""
    fleet = Fleet("worker-1")
    fleet.add_pod("alone", "worker-1")
    with pytest.raises(StepFailed, match=r"pod default/alone on it has no controller"):
        fleet.step().apply(fleet.notes.append)
    assert fleet.pods() == {"alone", "web-worker-1"}
    assert fleet.clock.monotonic() < 30
    assert fleet.state() == {"worker-1": AS_BEFORE}


def test_pod_that_tolerates_the_cordon_is_evicted_once() -> None:
    """It may come back on the same node, as often as it is evicted: that doesn't keep the node from its upgrade."""
    fleet = Fleet("worker-1")
    made: list[str] = []

    def make_again() -> None:
        if not made or made[-1] not in fleet.pods():
            made.append(f"operator-{len(made)}")
            tolerant = {"tolerations": [{"operator": "Exists"}]}
            fleet.add_pod(made[-1], "worker-1", owner="ReplicaSet", spec=tolerant)

    fleet.kube.watchers.append(make_again)
    fleet.step().apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": DONE}
    assert made == ["operator-0", "operator-1"]


def test_pod_that_does_not_end_is_named() -> None:
    """An evicted pod that doesn't end is what the message says."""
    fleet = Fleet("worker-1")
    fleet.kube.lingering.add("web-worker-1")
    with pytest.raises(StepFailed, match=r"these pods have not terminated: default/web-worker-1"):
        fleet.step(drain=DrainPolicy(30.0)).apply(fleet.notes.append)


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        ({"finalizers": ["example.com/x"]}, "(finalizers: example.com/x)"),
        ({"deletionGracePeriodSeconds": 7200}, "(grace period: 7200 s)"),
    ],
)
def test_force_does_not_wait_for_ever(meta: dict[str, Any], why: str) -> None:
    """A pod with a finalizer, or with hours to end, is no budget's: the node fails by the second deadline, with why."""
    fleet = Fleet("worker-1")
    fleet.add_pod("slow", "worker-1", owner="ReplicaSet", deletionTimestamp="2026-01-01T00:00:00Z", **meta)
    with pytest.raises(StepFailed, match=re.escape(f"these pods have not terminated: default/slow {why}")):
        fleet.step(drain=DrainPolicy(30.0, "force")).apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": AS_BEFORE} and fleet.clock.monotonic() < 120


def test_node_that_loses_power_in_its_drain_is_the_cause() -> None:
    """Its pods never end; the message says that the node no longer answers, and it is uncordoned for when it does."""
    fleet = Fleet("worker-1")
    fleet.kube.lingering.add("web-worker-1")

    def cut_power() -> None:
        if fleet.clock.monotonic() > 10:
            fleet.kube.watchers.pop()
            fleet.set_node("worker-1", OLD, ready=False)

    fleet.kube.watchers.append(cut_power)
    with pytest.raises(StepFailed, match=r"node worker-1 is not Ready \(False\): kubelet says no"):
        fleet.step(drain=DrainPolicy(30.0)).apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": AS_BEFORE}
    assert fleet.ran == []


def test_node_that_is_never_ready_is_put_back() -> None:
    """It gets its old programs, is uncordoned once it is Ready with them, and the message has its kubelet's words."""
    fleet = Fleet("worker-1", "worker-2")
    fleet.never_ready.add("worker-1")
    with pytest.raises(StepFailed) as caught:
        fleet.step().apply(fleet.notes.append)
    told = caught.value.message
    assert f"node worker-1 was not Ready with kubelet {NEW} within 60 s: it is not Ready (False)" in told
    assert "its kubelet: E0101 no such flag" in told
    assert f"its old binaries were restored: it is at {OLD}, and Ready" in told
    assert fleet.state() == {"worker-1": AS_BEFORE, "worker-2": AS_BEFORE}
    assert fleet.ran == ["upgrade-node.yml worker-1", "restore-node.yml worker-1"]
    assert any(note.startswith("waiting up to 60 s for worker-1 to be back: ") for note in fleet.notes)


def test_playbook_that_fails_on_one_node_fails_that_one() -> None:
    """The others of its batch are upgraded; what failed is put back."""
    fleet = Fleet("worker-1", "worker-2")
    fleet.fails["worker-2"] = "task 'Restart the kubelet': timed out"
    with pytest.raises(StepFailed, match=r"worker-2: playbook upgrade-node\.yml: task 'Restart the kubelet'"):
        fleet.step(at_once=2).apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": DONE, "worker-2": AS_BEFORE}


def test_node_that_can_not_be_put_back_stays_cordoned() -> None:
    """Nothing is placed on it, and the message says so."""
    fleet = Fleet("worker-1")
    fleet.never_ready.add("worker-1")
    fleet.irreparable.add("worker-1")
    with pytest.raises(StepFailed, match=r"restoring it to v1\.36\.3 failed, and it stays cordoned: .*disk full"):
        fleet.step().apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": f"{NEW} cordoned marked"}


def test_as_many_as_allowed_may_fail() -> None:
    """With `maxFailed: 1`, one that fails is put back, with why it failed, and the rest is upgraded; a second one fails
    the step."""
    fleet = Fleet("worker-1", "worker-2", "worker-3")
    fleet.never_ready.add("worker-1")
    fleet.step(max_failed=1).apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": AS_BEFORE, "worker-2": DONE, "worker-3": DONE}
    (told,) = [
        note for note in fleet.notes if "it failed, and keeps its old version (allowed by maxFailed: 1): " in note
    ]
    assert told.startswith("worker-1: ") and "was not Ready with kubelet v1.37.1" in told

    fleet = Fleet("worker-1", "worker-2", "worker-3")
    fleet.never_ready |= {"worker-1", "worker-2"}
    with pytest.raises(StepFailed, match=r"2 of 3 nodes of pool workers failed \(maxFailed: 1\)"):
        fleet.step(max_failed=1).apply(fleet.notes.append)
    assert fleet.state()["worker-3"] == AS_BEFORE


def test_gate_between_batches_ends_the_step() -> None:
    """A cluster that isn't healthy after a batch loses no further node."""
    fleet = Fleet("worker-1", "worker-2")

    def unhealthy() -> None:
        raise GateFailed("gate critical-pods failed", remedy="look")

    with pytest.raises(GateFailed):
        fleet.step(hold_gates=unhealthy).apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": DONE, "worker-2": AS_BEFORE}


def test_check_ends_a_wait() -> None:
    """What watches the API's clients ends a drain that disturbs them; undoing the step uncordons the node."""
    fleet = Fleet("worker-1")
    fleet.add_budget()

    def disturbed() -> None:
        raise StepFailed("clients are disturbed")

    step = fleet.step().watched(disturbed)
    with pytest.raises(StepFailed, match="disturbed"):
        step.apply(fleet.notes.append)
    fleet.step().undo(step.capture(), fleet.notes.append)
    assert fleet.state() == {"worker-1": AS_BEFORE}


def test_node_that_left_the_cluster_is_no_failure() -> None:
    """A node that was removed since the plan is told of, and left out."""
    fleet = Fleet("worker-1", "worker-2")
    fleet.kube.delete(NODES, "worker-1")
    fleet.names = ("worker-2",)
    step = fleet.step()
    fleet.names = ("worker-1", "worker-2")
    wanted = fleet.step()
    fleet.names = ("worker-2",)
    wanted.apply(fleet.notes.append)
    assert "worker-1: it is no longer a node of the cluster" in fleet.notes
    assert NodesInspector(step).inspect(None).applied


def test_node_that_leaves_the_cluster_in_its_upgrade_is_no_failure() -> None:
    """An autoscaler may remove the one that was just drained: its machine is gone, and so is what could be put back."""
    fleet = Fleet("worker-1", "worker-2")
    step = fleet.step()
    fleet.names = ("worker-2",)
    run = fleet.run

    def without_machine(playbook: Path, *, limit: str = "", **more: Any) -> PlaybookResult:
        if limit == "worker-1":
            fleet.ran.append(f"{playbook.name} {limit}")
            fleet.kube.delete(NODES, "worker-1")
            raise PlaybookError("unreachable", hosts={"worker-1": "unreachable"})
        return run(playbook, limit=limit, **more)

    fleet.run = without_machine  # type: ignore[method-assign]
    step.apply(fleet.notes.append)
    assert fleet.state() == {"worker-2": DONE}
    assert fleet.ran == ["upgrade-node.yml worker-1", "upgrade-node.yml worker-2"]
    assert "worker-1: it is no longer a node of the cluster" in fleet.notes


def test_undo_returns_every_node_newest_first() -> None:
    """Each is drained, put back and uncordoned; a node that never changed is left alone."""
    fleet = Fleet("worker-1", "worker-2", "worker-3")
    step = fleet.step()
    point = step.capture()
    assert str(point) == f"kubelet {OLD}"
    step.apply(fleet.notes.append)
    fleet.set_node("worker-3", OLD)
    fleet.ran.clear()
    step.undo(point, fleet.notes.append)
    assert set(fleet.state().values()) == {AS_BEFORE}
    assert fleet.ran == ["restore-node.yml worker-2", "restore-node.yml worker-1"]


def test_undo_is_not_stopped_by_a_budget() -> None:
    """A kubelet can be replaced under running pods: what keeps them doesn't keep the node from its old version."""
    fleet = Fleet("worker-1")
    step = fleet.step(drain=DrainPolicy(30.0))
    step.apply(fleet.notes.append)
    fleet.add_pod("web-again", "worker-1", owner="ReplicaSet")
    fleet.add_budget()
    step.undo(step.capture(), fleet.notes.append)
    assert fleet.state() == {"worker-1": AS_BEFORE}
    assert any("restoring its old binaries while the remaining pods run" in note for note in fleet.notes)


@pytest.mark.parametrize("policy", ["fail", "force"])
def test_undo_waits_only_briefly_for_a_drain(policy: OnBlocked) -> None:
    """It goes on beside the pods that are left, so that it need not wait for them as long as an upgrade; and deletes
    none of them, whatever an upgrade may.
    """
    fleet = Fleet("worker-1")
    step = fleet.step(drain=DrainPolicy(3600.0, policy))
    step.apply(fleet.notes.append)
    fleet.add_pod("web-again", "worker-1", owner="ReplicaSet")
    fleet.add_budget()
    begun = fleet.clock.monotonic()
    step.undo(step.capture(), fleet.notes.append)
    assert fleet.state() == {"worker-1": AS_BEFORE} and "web-again" in fleet.pods()
    assert fleet.clock.monotonic() - begun < 60


def test_undo_is_not_stopped_by_critical_pods() -> None:
    """A broken release may be why the run is rolled back, and it is only undone once the nodes are back."""
    fleet = Fleet("worker-1")
    step = fleet.step()
    step.apply(fleet.notes.append)
    critical = {"priorityClassName": "system-node-critical"}
    fleet.add_pod("kube-proxy-x", "worker-1", owner="DaemonSet", namespace="kube-system", spec=critical)
    step.undo(step.capture(), fleet.notes.append)
    assert fleet.state() == {"worker-1": AS_BEFORE}


def test_undo_goes_on_past_a_node_that_fails() -> None:
    """All that can be put back are; the error names the one that can't."""
    fleet = Fleet("worker-1", "worker-2")
    step = fleet.step()
    step.apply(fleet.notes.append)
    fleet.irreparable.add("worker-2")
    with pytest.raises(RollbackFailed, match=r"1 of 2 nodes were not restored:\n  worker-2: .*disk full"):
        step.undo(step.capture(), fleet.notes.append)
    assert fleet.state()["worker-1"] == AS_BEFORE


def test_undo_of_a_machine_that_is_gone_for_good_has_a_way_out() -> None:
    """The error names it, and it works: a node that was deleted is put back to nothing."""
    fleet = Fleet("worker-1", "worker-2")
    step = fleet.step()
    step.apply(fleet.notes.append)
    point = step.capture()
    fleet.irreparable.add("worker-2")
    with pytest.raises(RollbackFailed) as refused:
        step.undo(point, fleet.notes.append)
    assert "run `kubectl delete node worker-2`, then `upgrader resume`" in refused.value.remedy
    fleet.kube.delete(NODES, "worker-2")
    fleet.names = ("worker-1",)
    step.undo(point, fleet.notes.append)
    assert "worker-2: it is no longer a node of the cluster" in fleet.notes


def test_undo_of_a_node_whose_disk_is_full_is_completed_once_it_has_room() -> None:
    """With neither kubelet is it back: the error names the pressure, and the undo that is tried again puts it back."""
    fleet = Fleet("worker-1", "worker-2")
    step = fleet.step()
    fleet.full.add("worker-2")
    with pytest.raises(StepFailed, match="worker-2"):
        step.apply(fleet.notes.append)
    with pytest.raises(RollbackFailed, match=r"worker-2: .*it has DiskPressure") as refused:
        step.undo(step.capture(), fleet.notes.append)
    assert "`upgrader resume`" in refused.value.remedy
    fleet.full.clear()
    fleet.set_node("worker-2", OLD)
    step.undo(step.capture(), fleet.notes.append)
    assert fleet.state() == {"worker-1": AS_BEFORE, "worker-2": AS_BEFORE}


def test_unreachable_api_is_waited_for() -> None:
    """The API that is away for a while, as while its own node's kubelet is replaced, costs the step nothing."""
    fleet = Fleet("worker-1")

    def away() -> None:
        fleet.kube.unavailable = 5 < fleet.clock.monotonic() < 40

    fleet.kube.watchers.append(away)
    fleet.kube.lingering.add("web-worker-1")

    def end_the_pod() -> None:
        if fleet.clock.monotonic() > 45:
            fleet.kube._objects.pop(("v1", "pods", "default", "web-worker-1"), None)

    fleet.kube.watchers.append(end_the_pod)
    fleet.step().apply(fleet.notes.append)
    assert fleet.state() == {"worker-1": DONE}


def test_wait_for_an_api_that_is_away_is_told() -> None:
    """Each way, for each node: two minutes without a word look like a run that hangs."""
    fleet = Fleet("worker-1")
    step, away = fleet.step(), [0.0]

    def back() -> None:
        fleet.kube.unavailable = fleet.clock.monotonic() < away[0] + 20

    fleet.kube.watchers.append(back)
    step.apply(fleet.notes.append)
    told = [note for note in fleet.notes if note.startswith("waiting up to 120 s")]
    assert [note.partition(": ")[0] for note in told] == ["waiting up to 120 s for the API to answer for node worker-1"]
    fleet.notes.clear()
    away[0] = fleet.clock.monotonic()
    step.undo(step.capture(), fleet.notes.append)
    assert any(note.startswith("waiting up to 120 s for the API to answer for node worker-1") for note in fleet.notes)


@pytest.mark.parametrize("at_once", [1, 2])
def test_killed_at_any_request_it_is_completed(at_once: int) -> None:
    """Wherever the process dies, another one completes the step: all upgraded, uncordoned, and no mark left."""
    for lives in range(1000):
        fleet = Fleet("worker-1", "worker-2")
        if not fleet.dies(lives, at_once):
            break
        again = fleet.step(at_once=at_once)
        if not NodesInspector(again).inspect(again.capture()).applied:
            again.apply(fleet.notes.append)
        assert fleet.state() == {"worker-1": DONE, "worker-2": DONE}, f"killed at request {lives}"
        assert fleet.most_cordoned <= at_once, f"killed at request {lives}"
    assert lives > 20


@pytest.mark.parametrize("at_once", [1, 2])
def test_resumed_step_asks_no_gate_that_its_own_cordon_breaks(at_once: int) -> None:
    """The gate `nodes` doesn't hold while a controller is cordoned: what was interrupted is completed before it."""
    for lives in range(1000):
        fleet = Fleet("worker-1", "worker-2", "worker-3")
        died = fleet.dies(lives, at_once)

        def hold(fleet: Fleet = fleet) -> None:
            cordoned = [name for name, found in fleet.state().items() if "cordoned" in found]
            if cordoned:
                raise GateFailed(f"{cordoned} is cordoned", remedy="")

        fleet.step(at_once=at_once, hold_gates=hold).apply(fleet.notes.append)
        assert set(fleet.state().values()) == {DONE}, f"killed at request {lives}"
        assert fleet.most_cordoned <= at_once, f"killed at request {lives}"
        if not died:
            break


def test_resumed_step_holds_its_gates_only_before_what_is_left() -> None:
    """Not for each batch that was done before: of hundreds of nodes, that would take hours."""
    fleet = Fleet("worker-1", "worker-2", "worker-3", "worker-4")
    for name in ("worker-1", "worker-2", "worker-3"):
        fleet.set_node(name, NEW)
    fleet.step().apply(fleet.notes.append)
    assert fleet.notes.count("gates") == 1
    assert set(fleet.state().values()) == {DONE}


@pytest.mark.parametrize("at_once", [1, 2])
def test_killed_at_any_request_it_is_undone(at_once: int) -> None:
    """Wherever the process dies, its undo returns every node, even if it dies once in the middle as well."""
    for lives in range(1000):
        fleet = Fleet("worker-1", "worker-2")
        died = fleet.dies(lives, at_once)
        point = RestorePoint(nodes=(NodeBefore("worker-1", OLD), NodeBefore("worker-2", OLD)))
        fleet.kube.lives = lives % 17
        try:
            fleet.step(at_once=at_once).undo(point, fleet.notes.append)
        except Killed:
            fleet.kube.lives = -1
            fleet.step(at_once=at_once).undo(point, fleet.notes.append)
        assert fleet.state() == {"worker-1": AS_BEFORE, "worker-2": AS_BEFORE}, f"killed at request {lives}"
        if not died:
            break


def test_failure_is_completed_after_a_kill() -> None:
    """A process that dies while it puts a failed node back leaves a mark: the next one puts it back, and says why."""
    for lives in range(1000):
        fleet = Fleet("worker-1")
        fleet.never_ready.add("worker-1")
        fleet.kube.lives = lives
        step = fleet.step()
        try:
            step.apply(fleet.notes.append)
        except Killed:
            fleet.kube.lives = -1
            with pytest.raises(StepFailed, match=r"was not Ready with kubelet"):
                fleet.step().apply(fleet.notes.append)
        except StepFailed:
            break
        assert fleet.state() == {"worker-1": AS_BEFORE}, f"killed at request {lives}"


def test_inspection_says_how_far_it_got() -> None:
    """What an interrupted step left is told by node and phase."""
    fleet = Fleet("worker-1", "worker-2", "worker-3")
    assert isinstance(fleet.clock, FakeClock)
    fleet.set_node("worker-1", NEW)
    fleet.step().batch.cordons.cordon("worker-2", "swap")
    found = NodesInspector(fleet.step()).inspect(None)
    assert not found.applied
    assert found.found == "1 of 3 nodes are upgraded; left: worker-2 swap, worker-3 pending"


def test_heartbeats_of_a_large_batch_are_read_together() -> None:
    """However many nodes come back at once, the wait for them costs the API one list a round, and not three reads for
    each node and second.
    """
    fleet = Fleet(*(f"n{number}" for number in range(20)))
    asked: Counter[str] = Counter()
    check = fleet.kube._check

    def counted(what: str) -> None:
        asked[" ".join(what.split()[:2])] += 1
        check(what)

    fleet.kube._check = counted  # type: ignore[method-assign]
    fleet.step(at_once=20).apply(fleet.notes.append)
    assert set(fleet.state().values()) == {str(NEW)}
    assert (asked["get leases"], asked["list leases"]) == (0, 3)
