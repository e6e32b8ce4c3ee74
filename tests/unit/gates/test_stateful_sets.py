"""When a StatefulSet's rollout is complete, by both of its strategies."""

from __future__ import annotations

import pytest

from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_event, add_node, add_stateful_pod, add_stateful_set, crashed, running
from upgrader.gates.kubernetes_kinds import EVENTS, PODS
from upgrader.gates.rollout_gate import RolloutGate
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.model.workload import WorkloadRef

REF = WorkloadRef("StatefulSet", "shop", "db")


def look(kube: FakeKube) -> Verdict:
    """One look of the gate."""
    return RolloutGate(kube, REF).check()


def rolling(partition: int | None = None) -> dict[str, object]:
    """The strategy RollingUpdate."""
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": partition, "maxUnavailable": 2}}


@pytest.mark.parametrize("strategy", [None, rolling()])
def test_all_pods_new_and_ready(kube: FakeKube, strategy: dict[str, object] | None) -> None:
    """With either strategy: every pod that the spec wants, of the newest revision and Ready."""
    add_stateful_set(kube, strategy=strategy)
    for ordinal in range(3):
        add_stateful_pod(kube, ordinal)
    verdict = look(kube)
    assert verdict.kind is VerdictKind.HOLDS
    assert verdict.reason == "3/3 pods of StatefulSet shop/db are updated and Ready"


def test_what_helm_calls_complete_is_not(kube: FakeKube) -> None:
    """OnDelete: every count is perfect, and no pod was replaced; the verdict says whose task it is."""
    add_stateful_set(kube, updatedReplicas=0)
    for ordinal in range(3):
        add_stateful_pod(kube, ordinal, revision="old")
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert verdict.reason == (
        "0/3 pods of StatefulSet shop/db are updated and Ready; not yet replaced: db-0, db-1, db-2, "
        "which another client must delete (strategy OnDelete)"
    )
    assert "kubectl -n shop delete pod db-0 …" in verdict.remedy


def test_events_of_guard_are_details(kube: FakeKube) -> None:
    """Why guard doesn't roll a group it says by Events on its sets."""
    add_stateful_set(kube, replicas=1)
    add_stateful_pod(kube, 0, revision="old")
    add_event(kube, "db-uid", "RolloutSkipped", "db has the update strategy RollingUpdate")
    found = {**kube.list(EVENTS)[0]}
    found["metadata"] = {**found["metadata"], "namespace": "shop"}
    kube.put(EVENTS, found)
    verdict = look(kube)
    assert verdict.reason.endswith("must delete (strategy OnDelete)")
    assert verdict.details == ("RolloutSkipped: db has the update strategy RollingUpdate",)


@pytest.mark.parametrize(
    ("partition", "start", "old", "kind"),
    [
        (2, 0, (0, 1), VerdictKind.HOLDS),
        (1, 0, (0, 1), VerdictKind.PENDING),
        (3, 0, (0, 1, 2), VerdictKind.HOLDS),
        (9, 0, (0, 1, 2), VerdictKind.HOLDS),
        (2, 5, (5, 6), VerdictKind.HOLDS),
        (2, 5, (5, 7), VerdictKind.PENDING),
        (None, 0, (0,), VerdictKind.PENDING),
    ],
)
def test_partition(kube: FakeKube, partition: int | None, start: int, old: tuple[int, ...], kind: VerdictKind) -> None:
    """Pods from the partition on must be new; those before it may be of any revision. It counts from the first one."""
    add_stateful_set(kube, strategy=rolling(partition), start=start)
    for ordinal in range(start, start + 3):
        add_stateful_pod(kube, ordinal, revision="old" if ordinal in old else "new")
    assert look(kube).kind is kind


def test_pods_that_keep_their_revision_are_ready_all_the_same(kube: FakeKube) -> None:
    """A partition excuses from nothing else."""
    add_stateful_set(kube, strategy=rolling(3))
    for ordinal in range(3):
        add_stateful_pod(kube, ordinal, running(ready=ordinal > 0), revision="old")
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert "2/3 pods of StatefulSet shop/db are updated and Ready: container main of pod db-0" in verdict.reason


def test_partition_of_another_strategy_means_nothing(kube: FakeKube) -> None:
    """With OnDelete, every pod has to be new."""
    add_stateful_set(kube, replicas=1, strategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}})
    add_stateful_pod(kube, 0, revision="old")
    assert look(kube).kind is VerdictKind.PENDING


def test_missing_pods_are_counted_by_the_spec(kube: FakeKube) -> None:
    """Right after a scale-up, the status still has the old number."""
    add_stateful_set(kube, replicas=3, updatedReplicas=2, readyReplicas=2)
    for ordinal in range(2):
        add_stateful_pod(kube, ordinal)
    add_event(kube, "other-uid", "FailedCreate", "no matter")
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert verdict.reason == "2/3 pods of StatefulSet shop/db are updated and Ready; 2 of 3 pods exist"


def test_revision_of_the_spec_before_does_not_count(kube: FakeKube) -> None:
    """Until the controller has seen the new spec, `updateRevision` is that of the old one."""
    add_stateful_set(kube, generation=5, observed=4)
    for ordinal in range(3):
        add_stateful_pod(kube, ordinal)
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert "generation 5, observed 4" in verdict.reason


def test_no_pod_is_new_while_no_revision_is_known(kube: FakeKube) -> None:
    """A set that was made a moment ago, with pods of an earlier one of its name."""
    add_stateful_set(kube, replicas=1, revision="")
    add_stateful_pod(kube, 0, revision="")
    assert look(kube).kind is VerdictKind.PENDING


def test_pods_are_told_by_their_owner(kube: FakeKube) -> None:
    """Two sets of one selector, as zones often have: each is judged by its own pods."""
    add_stateful_set(kube, replicas=1)
    add_stateful_pod(kube, 0)
    add_stateful_pod(kube, 0, owner="db-zone-b", revision="other")
    assert look(kube).kind is VerdictKind.HOLDS


def test_crash_loop_is_broken_and_named(kube: FakeKube) -> None:
    """A new pod that can't start is found, with its log, as with a Deployment."""
    add_stateful_set(kube)
    add_stateful_pod(kube, 0)
    add_stateful_pod(kube, 1, revision="old")
    add_stateful_pod(kube, 2, crashed(3, restarts=4))
    kube.log_texts["db-2", "main", False] = "FATAL: data is of a newer version"
    verdict = look(kube)
    assert verdict.kind is VerdictKind.BROKEN
    assert verdict.reason == (
        "1/3 pods of StatefulSet shop/db are updated and Ready: container main of pod db-2 on worker-1 exits with 3 "
        "(restarted 4 times): FATAL: data is of a newer version"
    )


def test_controller_that_waits_for_a_bad_pod_for_ever(kube: FakeKube) -> None:
    """RollingUpdate doesn't replace a pod of a bad revision once the template is taken back: the way out is named."""
    add_stateful_set(kube, strategy=rolling())
    add_stateful_pod(kube, 0)
    add_stateful_pod(kube, 1)
    add_stateful_pod(kube, 2, crashed(3), revision="bad")
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert "the controller may be waiting for db-2 to become Ready first" in verdict.reason
    assert verdict.remedy.endswith("To replace them by hand: kubectl -n shop delete pod db-2")


def test_pod_that_still_terminates(kube: FakeKube) -> None:
    """It may still answer, and its successor isn't there."""
    add_stateful_set(kube)
    add_stateful_pod(kube, 0)
    add_stateful_pod(kube, 1)
    add_stateful_pod(kube, 2, deleting=True)
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert verdict.reason.endswith("; db-2 still terminates")


@pytest.mark.parametrize(("available", "kind"), [(2, VerdictKind.PENDING), (3, VerdictKind.HOLDS)])
def test_min_ready_seconds(kube: FakeKube, available: int, kind: VerdictKind) -> None:
    """With minReadySeconds, Ready isn't enough."""
    add_stateful_set(kube, min_ready_seconds=30, availableReplicas=available)
    for ordinal in range(3):
        add_stateful_pod(kube, ordinal)
    verdict = look(kube)
    assert verdict.kind is kind
    assert kind is VerdictKind.HOLDS or verdict.reason.endswith("only 2 have been Ready for 30 s (minReadySeconds)")


def test_container_that_has_just_crashed(kube: FakeKube) -> None:
    """Without a probe it is Ready between two crashes."""
    add_stateful_set(kube, replicas=1)
    add_node(kube, "worker-1", renewed="2026-01-01T00:00:03Z")
    last = {"terminated": {"exitCode": 1}}
    add_stateful_pod(kube, 0, running(since="2026-01-01T00:00:00Z", restarts=1, last=last))
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert "has just restarted" in verdict.reason


def test_set_without_pods(kube: FakeKube) -> None:
    """Zero replicas hold, unless a pod is left."""
    add_stateful_set(kube, replicas=0)
    assert look(kube).reason == "StatefulSet shop/db: 0 replicas desired"
    add_stateful_pod(kube, 0)
    assert look(kube).kind is VerdictKind.PENDING


def test_set_that_is_not_there(kube: FakeKube) -> None:
    """No set is no healthy set."""
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert "does not exist" in verdict.reason


def test_no_answer_is_unknown(kube: FakeKube) -> None:
    """An API that is away says nothing against the set."""
    kube.unavailable = True
    assert look(kube).kind is VerdictKind.UNKNOWN


def test_pods_on_a_worker_that_is_down_do_not_count(kube: FakeKube) -> None:
    """As with a Deployment: what is down whatever the step did is left out."""
    add_stateful_set(kube, readyReplicas=2, updatedReplicas=2, availableReplicas=2)
    add_stateful_pod(kube, 0)
    add_stateful_pod(kube, 1)
    add_stateful_pod(kube, 2, running(ready=False), node="worker-9")
    assert RolloutGate(kube, REF, absent=lambda nodes: {*nodes} & {"worker-9"}).check().kind is VerdictKind.HOLDS
    kube.delete(PODS, "db-1", "shop")
    assert RolloutGate(kube, REF, absent=lambda nodes: {*nodes} & {"worker-9"}).check().kind is VerdictKind.PENDING
