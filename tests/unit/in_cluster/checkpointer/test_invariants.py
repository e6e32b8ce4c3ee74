"""Promises that are checked before the disk is changed, each against a plan that would break it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.unit.in_cluster.checkpointer.builders import API, pod
from tests.unit.in_cluster.checkpointer.cluster import Cluster, instance, passes, sandbox
from upgrader.in_cluster.checkpointer import loop as loop_module
from upgrader.in_cluster.checkpointer.decision.durations import History, StandbyTimeline, Timeline
from upgrader.in_cluster.checkpointer.decision.invariants import checked
from upgrader.in_cluster.checkpointer.decision.rules import Desired
from upgrader.in_cluster.checkpointer.decision.settings import Settings
from upgrader.in_cluster.checkpointer.observed_values import ParentPod
from upgrader.in_cluster.checkpointer.reporting.metrics import render
from upgrader.onhost.node.generation_choice import Generation, WorkloadInventory
from upgrader.onhost.node.workload_policy import Policy

SETTINGS = Settings(ready_for=30, grace=20, release_after=30)
KEPT = WorkloadInventory(Policy.API_AWAY, (Generation(1, "a"), Generation(2, "b"), Generation(3, "c")))
ACTIVE = replace(KEPT, active=True, active_number=3)
DAMAGED = replace(ACTIVE, generations=(*KEPT.generations[:2], Generation(3, "", intact=False)))
POD = ParentPod(API, "kube-system", "kube-apiserver-abc-x1", "u1", "2026-01-01T00:00:00Z", True, False, "new")
CALM = History(1000.0, answering_since=0.0, runtime_known=True, timelines={API: Timeline(parent_ready_since=0.0)})
AWAY = History(1000.0, away_since=0.0, runtime_known=True, timelines={API: Timeline(absent_since=0.0)})
FAILING = replace(AWAY, timelines={API: Timeline(standby=StandbyTimeline(3, 0.0, failing_since=0.0))})
UP = replace(AWAY, timelines={API: Timeline(standby=StandbyTimeline(3, 0.0, up_since=990.0, failing_since=0.0))})
PRUNE = Desired(prune=((API, 1),))
END = Desired(manifests={API: None})
START = Desired(manifests={API: 3})
SWITCH = Desired(manifests={API: 2}, failed={API: 3})
UNNEEDED = replace(CALM, timelines={API: Timeline(unneeded_since=0.0)})


@dataclass(frozen=True)
class Case:
    """A plan, what it is made for, and the invariants that it breaks."""

    plan: Desired
    history: History
    disk: WorkloadInventory = field(default=ACTIVE)
    broken: tuple[str, ...] = ()


CASES = {
    "a good capture": Case(
        Desired(capture=(POD,)), replace(CALM, timelines={API: Timeline(ready_since={("u1", "new"): 0.0})}), KEPT
    ),
    "a capture of what was not Ready for long enough": Case(
        Desired(capture=(POD,)),
        replace(CALM, timelines={API: Timeline(ready_since={("u1", "new"): 990.0})}),
        KEPT,
        ("I1",),
    ),
    "a capture of what is not known": Case(Desired(capture=(replace(POD, digest=None),)), CALM, KEPT, ("I1",)),
    "a good pruning": Case(PRUNE, CALM),
    "a pruning while the API is unreachable": Case(PRUNE, AWAY, broken=("I2",)),
    "a pruning while the runtime is unknown": Case(PRUNE, replace(CALM, runtime_known=False), broken=("I2",)),
    "a good end": Case(END, CALM),
    "an end while the runtime is unknown": Case(END, replace(CALM, runtime_known=False), broken=("I2",)),
    "an end before the API is back": Case(END, AWAY, broken=("I2", "I5")),
    "an end just after the API is back": Case(END, replace(CALM, answering_since=990.0), broken=("I5",)),
    "an end before the parent stands": Case(END, replace(CALM, timelines={}), broken=("I5",)),
    "an end of the checkpointer's own": Case(END, CALM, replace(ACTIVE, policy=Policy.ALWAYS), ("I5",)),
    "a good end for another holder of the lease": Case(
        END,
        replace(CALM, timelines={API: Timeline(lease_elsewhere_since=0.0)}),
        replace(ACTIVE, policy=Policy.LEASE),
    ),
    "a lease means nothing to kube-apiserver": Case(
        END, replace(CALM, timelines={API: Timeline(lease_elsewhere_since=0.0)}), broken=("I5",)
    ),
    "a good start": Case(START, AWAY, KEPT),
    "a start while the API answers": Case(START, CALM, KEPT, ("I4",)),
    "a start while the runtime is unknown": Case(START, replace(AWAY, runtime_known=False), KEPT, ("I4",)),
    "a start beside its own pod": Case(START, replace(AWAY, timelines={}), KEPT, ("I4",)),
    "the checkpointer's own needs no evidence": Case(START, History(), replace(KEPT, policy=Policy.ALWAYS)),
    "a good switch": Case(SWITCH, FAILING),
    "a switch from one that runs": Case(SWITCH, UP, broken=("I3",)),
    "a switch before its time is over": Case(SWITCH, replace(FAILING, now=30.0), broken=("I3",)),
    "a switch from what was never seen": Case(SWITCH, AWAY, broken=("I3",)),
    "a switch from a damaged one that runs": Case(SWITCH, UP, DAMAGED, ("I3",)),
    "a good switch from a damaged one": Case(SWITCH, AWAY, DAMAGED),
    "a switch of the checkpointer's own while the API is unreachable": Case(
        SWITCH, AWAY, replace(ACTIVE, policy=Policy.ALWAYS), ("I3",)
    ),
    "a good switch of the checkpointer's own": Case(SWITCH, CALM, replace(ACTIVE, policy=Policy.ALWAYS)),
    "a switch without a mark": Case(Desired(manifests={API: 2}), FAILING, broken=("I7",)),
    "a switch to one that failed while another is left": Case(
        SWITCH,
        FAILING,
        replace(ACTIVE, generations=(KEPT.generations[0], Generation(2, "b", failed=True), KEPT.generations[2])),
        ("I7",),
    ),
    "a good removal": Case(Desired(manifests={API: None}, forget=(API,)), UNNEEDED),
    "a removal too soon": Case(Desired(forget=(API,)), replace(UNNEEDED, now=100.0), KEPT, ("I8",)),
    "a removal while the API is unreachable": Case(
        Desired(forget=(API,)), replace(UNNEEDED, answering_since=None), KEPT, ("I8", "I2")
    ),
    "a removal of the checkpointer's own": Case(
        Desired(forget=(API,)), UNNEEDED, replace(KEPT, policy=Policy.ALWAYS), ("I8",)
    ),
    "a good end beside another's static pod": Case(
        END, replace(CALM, timelines={API: Timeline(barred="kubeadm's", barred_since=0.0)})
    ),
    "a start beside another's static pod": Case(
        START,
        replace(AWAY, timelines={API: replace(AWAY.of(API), barred="kubeadm's", barred_since=0.0)}),
        KEPT,
        ("I4",),
    ),
    "the active one pruned": Case(Desired(prune=((API, 3),)), CALM, broken=("I6",)),
    "the last-known-good pruned": Case(Desired(prune=((API, 3),)), CALM, KEPT, ("I6",)),
    "the one to be started pruned": Case(
        Desired(manifests={API: 1}, prune=((API, 1),)), replace(AWAY, answering_since=0.0), KEPT, ("I6",)
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_invariant(case: Case) -> None:
    """A plan that breaks none is carried out as it is; of one that breaks any, nothing deletes or replaces."""
    plan, violations = checked(case.plan, case.history, {API: case.disk}, SETTINGS)
    assert tuple(v.invariant for v in violations) == case.broken
    if not violations:
        assert plan == case.plan
        return
    assert (plan.prune, plan.forget, plan.failed) == ((), (), {})
    assert plan.manifests == {} or not case.disk.active
    assert plan.capture == () or "I1" not in case.broken
    assert plan.manifests == {} or "I4" not in case.broken
    assert all(v.invariant in str(v) and str(API) in str(v) for v in violations)


def test_a_violation_keeps_no_standby_pod_from_starting() -> None:
    """Holding back what would be deleted must not cost the API."""
    plan = Desired(manifests={API: 3}, prune=((API, 1),))
    assert checked(plan, AWAY, {API: KEPT}, SETTINGS)[0] == Desired(manifests={API: 3})


def test_a_pass_with_a_bad_plan_deletes_nothing_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The violation is logged with its number and counted, the node is not Ready; then decisions count again."""
    cluster = Cluster(sandboxes=[sandbox()])
    loop = instance(tmp_path, cluster)
    for number in range(2):
        cluster.found = [pod(uid=f"u{number}", image_id=f"sha256:{number}")]
        passes(loop, cluster, 14)
    bad = Desired(prune=((API, 1), (API, 2)), manifests={API: None})
    with monkeypatch.context() as patch:
        patch.setattr(loop_module, "decide", lambda *_: bad)
        passes(loop, cluster, 0)
    report, counters = loop.board.get()
    assert set(loop.store.read()[API].records) == {1, 2}
    assert report is not None and "invariant I6 is violated" in report.failure and report.unready()
    assert any("invariant I6 is violated" in line for line in caplog.messages)
    assert counters.invariant_violations == 1
    assert "upgrader_checkpointer_invariant_violations_total 1.0" in render(report, counters, cluster.now)
    passes(loop, cluster, 0)
    report, counters = loop.board.get()
    assert report is not None and report.failure == ""
    assert counters.invariant_violations == 1
