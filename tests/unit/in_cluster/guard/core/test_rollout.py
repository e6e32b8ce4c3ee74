"""Rollouts of groups: the cases of rollout-operator's controller_test that concern them, its faults, and properties."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.in_cluster.guard.core.builders import NEW, OLD, changed, member, members, without, zone
from upgrader.in_cluster.guard.core.rollout import (
    MAX_UNAVAILABLE,
    PAUSED,
    GroupDecision,
    Hold,
    Phase,
    decide,
    max_unavailable,
)
from upgrader.in_cluster.guard.core.workloads import Pod, StatefulSet

A, B, C = "web-zone-a", "web-zone-b", "web-zone-c"


def _names(decision: GroupDecision) -> list[str]:
    return [d.pod.name for d in decision.delete]


def _finished(decision: GroupDecision) -> list[str]:
    return [f.set.name for f in decision.finished]


def _sets(**changes: Any) -> list[StatefulSet]:
    return [zone(A, **changes), zone(B, **changes)]


def test_a_set_that_is_not_on_delete_stops_its_group_with_an_event() -> None:
    """The StatefulSet controller would roll it by itself, beside another zone."""
    sets = [zone(A, update_strategy="RollingUpdate"), zone(B)]
    decision = decide(sets, members(A, OLD) + members(B, OLD))
    assert (decision.phase, _names(decision)) == (Phase.REFUSED, [])
    (event,) = decision.events
    assert (event.about.name, event.reason) == (A, "RolloutSkipped")
    assert "RollingUpdate" in event.message


def test_nothing_is_done_while_two_sets_say_that_pods_are_not_ready() -> None:
    """Two zones are short: wait, and name them."""
    sets = [zone(A, ready_replicas=2), zone(B, ready_replicas=1)]
    decision = decide(sets, members(A, OLD) + members(B, OLD))
    assert (decision.phase, _names(decision)) == (Phase.WAITING, [])
    assert decision.waits_for == f"pods of 2 StatefulSets aren't ready: {A}, {B}"
    assert [e.reason for e in decision.events] == ["RolloutWaiting"]


@pytest.mark.parametrize("reported", [3, 2])
def test_nothing_is_done_while_pods_of_two_sets_terminate(reported: int) -> None:
    """Whether none or one of the two sets' status has said so yet."""
    pods = changed(members(A, OLD), f"{A}-0", terminating=True) + changed(members(B, OLD), f"{B}-2", terminating=True)
    assert decide([zone(A, ready_replicas=reported), zone(B)], pods).phase is Phase.WAITING


def test_nothing_is_done_when_all_pods_are_updated() -> None:
    """Done, with nothing to delete, set or tell."""
    assert decide(_sets(), members(A) + members(B)) == GroupDecision(Phase.DONE)
    assert decide([], []) == GroupDecision(Phase.DONE)


def test_as_many_pods_go_as_may_be_unavailable() -> None:
    """Of the first set that has stale pods; each deletion knows the set's own limit, for a budget of 0."""
    decision = decide(_sets(), members(A) + members(B, OLD))
    assert (decision.phase, _names(decision)) == (Phase.ROLLING, [f"{B}-0", f"{B}-1"])
    assert {(d.free, d.max_unavailable) for d in decision.delete} == {(False, 2)}


def test_no_second_zone_begins_while_a_budget_refuses_the_first() -> None:
    """All are still the first zone's: its deletions are tried, whatever becomes of them, and no other's."""
    assert _names(decide(_sets(), members(A, OLD) + members(B, OLD))) == [f"{A}-0", f"{A}-1"]


@pytest.mark.parametrize("text", ["0", "-1", "101%", "abc", "", "0%", " 2", "2 ", "+2", "1.5", "٣", "9" * 5000, "%"])
def test_a_limit_that_is_none_is_1_with_an_event(text: str) -> None:
    """An answer of the table: no guess, and no stop."""
    decision = decide([zone(A, most=text)], members(A, OLD))
    assert _names(decision) == [f"{A}-0"]
    (event,) = decision.events
    assert (event.type, event.reason) == ("Warning", "InvalidMaxUnavailable")
    assert len(event.message) < 200


@pytest.mark.parametrize(
    ("text", "replicas", "most"),
    [(None, 3, 1), ("2", 3, 2), ("50%", 5, 2), ("1%", 3, 1), ("100%", 3, 3), ("007", 9, 7)],
)
def test_a_share_is_rounded_down_to_1_at_least(text: str | None, replicas: int, most: int) -> None:
    """A number or a percentage of spec.replicas."""
    assert max_unavailable(zone(A, replicas, most=text)) == (most, "")


def test_the_set_with_unready_pods_goes_first_and_they_count() -> None:
    """Two may be unavailable and one is: only one more goes, in the zone that is short already."""
    sets = [zone(A), zone(B, ready_replicas=2)]
    assert _names(decide(sets, members(A, OLD) + members(B, OLD))) == [f"{B}-0"]


def test_nothing_is_deleted_once_the_limit_is_reached() -> None:
    """As many are unavailable as may be: wait, and say for what."""
    sets = [zone(A), zone(B, ready_replicas=1)]
    decision = decide(sets, members(A, OLD) + members(B, OLD))
    assert (decision.phase, _names(decision)) == (Phase.WAITING, [])
    assert decision.waits_for == f"3 pods of {B} must be replaced, and 2 of its pods aren't ready"


def test_a_terminating_pod_is_not_deleted_again() -> None:
    """It counts as one that isn't ready, and the next takes its place."""
    pods = changed(members(A, OLD), f"{A}-0", terminating=True)
    assert _names(decide([zone(A)], pods)) == [f"{A}-1"]


def test_a_pod_whose_deletion_no_cache_shows_yet_counts_as_terminating() -> None:
    """A cache that lags by one event doesn't cost a second pod."""
    decision = decide([zone(A, most="1")], members(A, OLD), deleted=[f"{A}-0"])
    assert (decision.phase, _names(decision)) == (Phase.WAITING, [])


def test_the_current_revision_is_set_once_all_pods_are_updated_and_ready() -> None:
    """No controller does it for OnDelete."""
    decision = decide([zone(A, current_revision=OLD)], members(A))
    assert [(f.set.name, f.revision) for f in decision.finished] == [(A, NEW)]
    assert decision.phase is Phase.DONE


def test_the_current_revision_is_not_set_while_pods_are_unready_or_missing() -> None:
    """By the status, or by the pods that are there."""
    behind = zone(A, current_revision=OLD)
    assert not _finished(decide([replace(behind, ready_replicas=1)], members(A)))
    assert not _finished(decide([behind], members(A, count=2)))


def test_a_finished_set_is_told_although_the_next_one_rolls() -> None:
    """Zone a is done: its revision is set in the same pass that begins zone b."""
    sets = [zone(A, current_revision=OLD), zone(B, current_revision=OLD)]
    decision = decide(sets, members(A) + members(B, OLD))
    assert (_finished(decision), _names(decision)) == ([A], [f"{B}-0", f"{B}-1"])


@pytest.mark.parametrize(
    ("ready", "pods"),
    [
        (2, members(A)),
        (3, changed(members(A), f"{A}-2", terminating=True)),
        (3, changed(members(A), f"{A}-1", containers_ready=False)),
        (3, changed(members(A), f"{A}-1", ready_since=None)),
        (3, changed(members(A), f"{A}-1", phase="Pending")),
        (3, []),
    ],
    ids=["by status", "terminating", "container", "condition", "pending", "missing"],
)
def test_the_next_set_waits_until_the_first_one_is_whole(ready: int, pods: list[Pod]) -> None:
    """However it comes out that the first one isn't."""
    decision = decide([zone(A, ready_replicas=ready), zone(B)], pods + members(B, OLD))
    assert (decision.phase, _names(decision)) == (Phase.WAITING, [])


def test_missing_pods_are_those_that_the_spec_wants() -> None:
    """Right after a scale-up the status still says that three of three are ready."""
    sets = [zone(A, 5, status_replicas=3, ready_replicas=3), zone(B)]
    decision = decide(sets, members(A) + members(B, OLD))
    assert (_names(decision), decision.waits_for) == ([], f"2 of {A}'s 5 pods aren't ready")


def test_a_paused_set_loses_no_pod() -> None:
    """Nothing else is to be done, and the group says why."""
    decision = decide([zone(A, annotations={PAUSED: "true"})], members(A, OLD))
    assert (_names(decision), decision.phase) == ([], Phase.WAITING)
    assert decision.waits_for == f"paused with outdated pods: {A}"


def test_a_paused_set_is_skipped_and_the_next_one_rolls() -> None:
    """Pausing one zone doesn't stop the group."""
    sets = [zone(A, annotations={PAUSED: "true"}), zone(B)]
    assert _names(decide(sets, members(A, OLD) + members(B, OLD))) == [f"{B}-0", f"{B}-1"]


def test_no_zone_rolls_beside_a_paused_one_that_is_not_whole() -> None:
    """The original skips it, and takes pods from a second zone."""
    sets = [zone(A, ready_replicas=2, annotations={PAUSED: "true"}), zone(B)]
    decision = decide(sets, members(A, OLD) + members(B, OLD))
    assert (_names(decision), decision.phase) == ([], Phase.WAITING)


def test_another_value_than_true_pauses_nothing() -> None:
    """`false`, or anything else."""
    assert _names(decide([zone(A, annotations={PAUSED: "false"})], members(A, OLD))) == [f"{A}-0", f"{A}-1"]


def test_a_stale_pod_that_is_not_ready_goes_first_and_costs_nothing() -> None:
    """Fault #339: a bad template crash-loops in zone a; the mended one replaces it although the limit is reached."""
    pods = changed(members(A, "web-bad"), f"{A}-1", ready_since=None)
    decision = decide([zone(A, most="1", ready_replicas=2), zone(B)], pods + members(B, OLD))
    assert [(d.pod.name, d.free) for d in decision.delete] == [(f"{A}-1", True)]
    broken = [replace(p, ready_since=None, stuck=True) for p in members(A, "web-bad")]
    decision = decide([zone(A, most="1", ready_replicas=0), zone(B)], broken + members(B, OLD))
    assert [(d.pod.name, d.free) for d in decision.delete] == [(f"{A}-{n}", True) for n in range(3)]


def test_stale_pods_that_are_not_ready_for_a_moment_do_not_go_at_once() -> None:
    """Eight probes fail, and a new template comes: one is replaced, and the next one once that is Ready. So a bad
    template whose pods never get ready is mended, too.
    """
    pods = [replace(p, ready_since=None) for p in members(A, OLD, 8)]
    sets = [zone(A, 8, most="1", ready_replicas=0), zone(B)]
    assert _names(decide(sets, [*pods, *members(B, OLD)])) == [f"{A}-0"]
    starting = [member(f"{A}-0", NEW, ready_since=None), *pods[1:]]
    assert _names(decide(sets, [*starting, *members(B, OLD)])) == []
    assert _names(decide(sets, [*pods[1:], *members(B, OLD)])) == [], "one is gone, and not made again yet"
    ready = [member(f"{A}-0", NEW), *pods[1:]]
    assert _names(decide([zone(A, 8, most="1", ready_replicas=1), zone(B)], [*ready, *members(B, OLD)])) == [f"{A}-1"]
    recovered = [member(f"{A}-0", NEW), *pods[1:2], *members(A, OLD, 8)[2:]]
    sets = [zone(A, 8, most="2", ready_replicas=7), zone(B)]
    assert _names(decide(sets, [*recovered, *members(B, OLD)])) == [f"{A}-1", f"{A}-2"]


def test_a_crash_looping_pod_of_the_new_revision_stops_the_rollout() -> None:
    """A bad image stays in zone a: the pod that has it isn't stale, and nothing else goes."""
    pods = [member(f"{A}-0", NEW, ready_since=None), *members(A, OLD)[1:]]
    decision = decide([zone(A, most="1", ready_replicas=2), zone(B), zone(C)], pods + members(B, OLD) + members(C, OLD))
    assert (decision.phase, _names(decision)) == (Phase.WAITING, [])


def test_a_template_taken_back_is_rolled_back() -> None:
    """currentRevision and updateRevision are equal then; the pods tell what is stale."""
    sets = [zone(A, current_revision=OLD, update_revision=OLD)]
    pods = [member(f"{A}-0", NEW), *members(A, OLD)[1:]]
    assert _names(decide(sets, pods)) == [f"{A}-0"]


def test_a_pod_counts_once_it_has_been_ready_for_as_long_as_the_set_says() -> None:
    """`minReadySeconds`: until its controller counts the new pod as available, neither the next one nor the next zone
    goes. Gates wait alike.
    """
    soon = zone(A, min_ready_seconds=60, available_replicas=2)
    next_ = zone(B, update_revision="next")
    waits = decide([soon, next_], [*members(A), *members(B)])
    assert (waits.phase, waits.waits_for) == (Phase.WAITING, f"1 of {A}'s 3 pods aren't ready")
    assert decide([replace(soon, available_replicas=3), next_], [*members(A), *members(B)]).phase is Phase.ROLLING
    assert decide([zone(A, available_replicas=0), next_], [*members(A), *members(B)]).phase is Phase.ROLLING


def test_pods_that_another_first_ordinal_wants_are_missing() -> None:
    """Those that are to be removed don't stand for them: no other zone begins meanwhile."""
    sets = [zone(A, first_ordinal=1), zone(B, update_revision="next")]
    waits = decide(sets, [*members(A), *members(B)])
    assert (waits.phase, waits.delete) == (Phase.WAITING, ())
    assert decide(sets, [*members(A), member(f"{A}-3"), *members(B)]).phase is Phase.ROLLING


def test_pods_are_a_sets_by_owner() -> None:
    """No label `name` is needed, and a pod that only looks like it isn't touched."""
    stranger = replace(member(f"{A}-7", OLD), owner_uid="somebody")
    assert _names(decide([zone(A)], [*members(A), stranger])) == []


def test_pods_go_in_natural_order() -> None:
    """2 before 10."""
    pods = list(reversed(members(A, OLD, count=12)))
    decision = decide([zone(A, 12, most="100%")], pods)
    assert _names(decision) == [f"{A}-{n}" for n in range(12)]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"observed_generation": 1, "generation": 2}, "has not seen"),
        ({"update_revision": ""}, "has not seen"),
        ({"terminating": True}, "being deleted"),
    ],
)
def test_what_the_controller_has_not_seen_is_waited_for(change: dict[str, Any], why: str) -> None:
    """Revisions of an older spec, as while the control plane is replaced, decide nothing; nor does a set that goes."""
    decision = decide([zone(A), zone(B, **change)], members(A, OLD) + members(B, OLD))
    assert (_names(decision), decision.phase) == ([], Phase.WAITING)
    assert why in decision.waits_for


def test_a_held_group_begins_nothing() -> None:
    """While a run of the upgrader is alive only the groups that it names roll."""
    pods = members(A, OLD)
    held = decide([zone(A)], pods, Hold("run-7"))
    assert (held.phase, held.waits_for, _names(held)) == (Phase.HELD, "the upgrade run-7 holds the group", [])
    assert _names(decide([zone(A)], pods, Hold("run-7", frozenset({"ns/web"})))) == [f"{A}-0", f"{A}-1"]
    assert decide([zone(A)], members(A), Hold("run-7")).phase is Phase.DONE


def test_three_zones_of_one_pod_roll_one_after_the_other() -> None:
    """TestRolloutHappyCase: only a-0 is new and not ready; made ready: b; then c; then all is done."""
    sets = [zone(name, 1, most=None, current_revision=OLD) for name in (A, B, C)]
    pods = [member(f"{name}-0", OLD) for name in (A, B, C)]
    for name in (A, B, C):
        assert _names(decide(sets, pods)) == [f"{name}-0"]
        pods = without(pods, f"{name}-0")
        assert decide(sets, pods).phase is Phase.WAITING
        pods.append(member(f"{name}-0", NEW, ready_since=None))
        assert decide(sets, pods).phase is Phase.WAITING
        pods = changed(pods, f"{name}-0", ready_since=5.0)
    assert _finished(decide(sets, pods)) == [A, B, C]


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[StatefulSet], list[Pod]]:
    """Up to three zones whose status and pods say anything."""
    sets, pods = [], []
    for name in (A, B, C)[: draw(st.integers(1, 3))]:
        replicas = draw(st.integers(0, 4))
        sets.append(
            zone(
                name,
                replicas,
                most=draw(st.sampled_from([None, "1", "2", "3", "50%", "100%", "0", "x"])),
                ready_replicas=draw(st.integers(0, replicas)) if draw(st.booleans()) else replicas,
                annotations=draw(st.sampled_from([{}, {}, {PAUSED: "true"}])),
                current_revision=draw(st.sampled_from([OLD, NEW])),
            )
        )
        for ordinal in range(draw(st.integers(0, replicas)) if draw(st.booleans()) else replicas):
            healthy = draw(st.sampled_from([True, True, True, False]))
            pods.append(
                member(
                    f"{name}-{ordinal}",
                    draw(st.sampled_from([OLD, NEW])),
                    ready_since=0.0 if healthy else None,
                    terminating=not healthy and draw(st.booleans()),
                    stuck=not healthy and draw(st.booleans()),
                )
            )
    return sets, pods


def _lacking(which: StatefulSet, pods: list[Pod]) -> int:
    ready = sum(p.ready for p in pods if p.owner_uid == which.uid)
    return max(which.replicas - ready, which.status_replicas - which.ready_replicas)


@given(groups())
def test_no_two_zones_ever_lose_a_pod_that_serves(state: tuple[list[StatefulSet], list[Pod]]) -> None:
    """A ready pod goes only while every other zone is whole, and never more than its own zone may be short of."""
    sets, pods = state
    decision = decide(sets, pods)
    owners = {d.pod.owner_uid for d in decision.delete}
    assert len(owners) <= 1
    for each in sets:
        if each.uid not in owners:
            assert not decision.delete or not _lacking(each, pods)
            continue
        serving = [d for d in decision.delete if d.pod.ready]
        assert all(d.free is not d.pod.ready and d.pod.revision != NEW for d in decision.delete)
        assert not any(d.pod.terminating for d in decision.delete)
        assert each.annotations.get(PAUSED) != "true"
        assert not serving or _lacking(each, pods) + len(serving) <= max_unavailable(each)[0]
        others = [p for p in pods if p.owner_uid == each.uid and not p.ready and (p.terminating or p.revision == NEW)]
        limited = [d for d in decision.delete if not d.pod.stuck]
        assert not limited or len(others) + len(limited) <= max_unavailable(each)[0]


@given(groups())
def test_a_revision_is_only_set_for_a_set_that_is_whole(state: tuple[list[StatefulSet], list[Pod]]) -> None:
    """Whatever is seen, `currentRevision` never says more than every pod does."""
    sets, pods = state
    for done in decide(sets, pods).finished:
        own = [p for p in pods if p.owner_uid == done.set.uid]
        assert all(p.ready and p.revision == done.revision for p in own) and not _lacking(done.set, pods)


@given(groups())
def test_a_group_ends(state: tuple[list[StatefulSet], list[Pod]]) -> None:
    """Where pods that are deleted come back new and ready, a group without a pause comes to its end."""
    sets = [replace(s, ready_replicas=s.replicas, annotations={MAX_UNAVAILABLE: "1"}) for s in state[0]]
    pods = [
        member(f"{s.name}-{n}", OLD, ready_since=None if s is sets[0] else 0.0) for s in sets for n in range(s.replicas)
    ]
    for _ in range(len(pods) + 1):
        decision = decide(sets, pods)
        if decision.phase is Phase.DONE:
            break
        gone = set(_names(decision))
        assert gone
        pods = [replace(p, labels={**p.labels, "controller-revision-hash": NEW}, ready_since=1.0) if p.name in gone
                else p for p in pods]  # fmt: skip
    assert all(pod.ready and pod.revision == NEW for pod in pods)
