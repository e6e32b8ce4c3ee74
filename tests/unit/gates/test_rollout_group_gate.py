"""When a group of StatefulSets is complete."""

from __future__ import annotations

from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_stateful_pod, add_stateful_set, crashed, running
from upgrader.gates.rollout_group_gate import RolloutGroupGate
from upgrader.model.outcome import Verdict, VerdictKind


def look(kube: FakeKube) -> Verdict:
    """One look of the gate."""
    return RolloutGroupGate(kube, "shop", "db").check()


def zones(kube: FakeKube, *revisions: str, pods: int = 2) -> None:
    """A set for each zone, whose pods have this revision."""
    for zone, revision in zip("abc", revisions, strict=False):
        add_stateful_set(kube, f"db-{zone}", replicas=pods, group="db")
        for ordinal in range(pods):
            add_stateful_pod(kube, ordinal, owner=f"db-{zone}", revision=revision)


def test_whole_group(kube: FakeKube) -> None:
    """Every pod of every set new and Ready."""
    zones(kube, "new", "new", "new")
    verdict = look(kube)
    assert verdict.kind is VerdictKind.HOLDS
    assert verdict.reason == "rollout group shop/db: all pods of 3 StatefulSets are updated and Ready"
    assert RolloutGroupGate(kube, "shop", "db").name == "rollout-group/shop/db"


def test_one_zone_after_the_other(kube: FakeKube) -> None:
    """In the middle, the zone whose turn it is is named."""
    zones(kube, "new", "old", "old")
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert verdict.reason.startswith(
        "rollout group shop/db: 1 of 3 StatefulSets are complete; 0/2 pods of StatefulSet shop/db-b are updated and "
        "Ready; not yet replaced: db-b-0, db-b-1"
    )


def test_cause_is_shown_and_not_who_waits_for_it(kube: FakeKube) -> None:
    """Zone c has a pod that isn't Ready: the stale pods of a and b only wait for it."""
    zones(kube, "old", "old", "new")
    add_stateful_pod(kube, 1, running(ready=False), owner="db-c")
    assert "container main of pod db-c-1" in look(kube).reason


def test_bad_image_in_the_first_zone_is_broken(kube: FakeKube) -> None:
    """Waiting won't help: the step fails, and zones b and c are never touched."""
    zones(kube, "new", "old", "old")
    add_stateful_pod(kube, 1, crashed(2, restarts=5), owner="db-a")
    verdict = look(kube)
    assert verdict.kind is VerdictKind.BROKEN
    assert "0 of 3 StatefulSets are complete; 1/2 pods of StatefulSet shop/db-a are updated and Ready" in verdict.reason


def test_pod_that_is_missing(kube: FakeKube) -> None:
    """By spec.replicas, whatever the status says."""
    zones(kube, "new", "new")
    add_stateful_set(kube, "db-c", replicas=1, group="db", updatedReplicas=0)
    assert "0 of 1 pods exist" in look(kube).reason


def test_paused_set_is_named(kube: FakeKube) -> None:
    """Also while all its pods are new: what the group gets next would stop there."""
    zones(kube, "new", "new")
    add_stateful_set(kube, "db-b", replicas=2, group="db", paused=True)
    verdict = look(kube)
    assert verdict.kind is VerdictKind.PENDING
    assert verdict.reason == "rollout group shop/db: the rollout of db-b is paused"
    assert "annotate statefulset db-b grafana.com/rollout-paused-" in verdict.remedy


def test_nothing_of_another_group_counts(kube: FakeKube) -> None:
    """Neither another label's value nor another namespace."""
    zones(kube, "new")
    add_stateful_set(kube, "other", group="other")
    assert look(kube).kind is VerdictKind.HOLDS


def test_no_set_is_unknown(kube: FakeKube) -> None:
    """A misspelt group never holds."""
    verdict = look(kube)
    assert verdict.kind is VerdictKind.UNKNOWN
    assert "no StatefulSet in shop has the label rollout-group=db" in verdict.reason


def test_no_answer_is_unknown(kube: FakeKube) -> None:
    """An API that is away says nothing against the group."""
    zones(kube, "new")
    kube.unavailable = True
    assert look(kube).kind is VerdictKind.UNKNOWN
