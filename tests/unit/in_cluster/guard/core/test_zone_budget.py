"""Zone-aware budgets: upstream's TestZoneAwarePodDisruptionBudget… and TestPodEviction_…, answers, and properties."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.in_cluster.guard.core.builders import (
    NEW,
    OLD,
    Json,
    changed,
    member,
    members,
    request_of,
    review_of,
    without,
    zone,
)
from upgrader.in_cluster.guard.core.ledger import Judgement, Ledger, Request, Reservation, admit
from upgrader.in_cluster.guard.core.rollout import decide, pods_by_owner
from upgrader.in_cluster.guard.core.workloads import Pod, StatefulSet
from upgrader.in_cluster.guard.core.zone_budget import (
    InvalidBudget,
    Rollout,
    State,
    ZoneBudget,
    budget_of,
    judge,
    misdirected,
    read,
    validate,
)

A, B, C = "web-zone-a", "web-zone-b", "web-zone-c"
REGEX = "[a-z]+-zone-[a-z]-([0-9]+)"


def _item(name: str = "web", **spec: Any) -> Json:
    return {
        "apiVersion": "rollout-operator.grafana.com/v1",
        "kind": "ZoneAwarePodDisruptionBudget",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"selector": {"matchLabels": {"rollout-group": "web"}}, **spec},
    }


def _budget(**spec: Any) -> ZoneBudget:
    budget = read(_item(**spec))
    assert isinstance(budget, ZoneBudget)
    return budget


def _state(pods: Iterable[Pod], sets: Iterable[StatefulSet] | None = None) -> State:
    sets = tuple(sets) if sets is not None else (zone(A), zone(B))
    return State(sets, pods_by_owner(sets, pods))


def _reserved(*names: str) -> Ledger:
    return Ledger({n: Reservation(n, n, 0.0, frozenset({"r"})) for n in names})


def _code(judgement: Judgement) -> tuple[int, str]:
    return judgement.answer.code, judgement.answer.message


def _ask(name: str, pods: list[Pod], budget: ZoneBudget, reserved: Ledger | None = None, **changes: Any) -> Judgement:
    pod = next(p for p in pods if p.name == name)
    sets = changes.pop("sets", None)
    return judge(pod, budget, _state(pods, sets), reserved or Ledger(), changes.pop("now", 0.0), **changes)


WHOLE = members(A) + members(B)


def test_with_one_unavailable_neither_the_same_nor_another_zone_loses_a_second_pod() -> None:
    """…MaxUnavailableEq1: a-0 is evicted and gone; a-1 and b-0 are denied, with the zone's name."""
    budget = _budget(maxUnavailable=1)
    assert _ask(f"{A}-0", WHOLE, budget).reserves
    left = without(WHOLE, f"{A}-0")
    assert _code(_ask(f"{A}-1", left, budget)) == (429, f"1 pod not ready in {A}")
    assert _code(_ask(f"{B}-0", left, budget)) == (429, f"1 pod not ready in {A}")


def test_with_two_unavailable_the_same_zone_loses_a_second_pod() -> None:
    """…MaxUnavailableEq2: a-1 is allowed, a-2 isn't, b-0 isn't."""
    budget = _budget(maxUnavailable=2)
    left = without(WHOLE, f"{A}-0")
    assert _ask(f"{A}-1", left, budget).answer.allowed
    assert _code(_ask(f"{B}-0", left, budget)) == (429, f"1 pod not ready in {A}")
    less = without(left, f"{A}-1")
    assert _code(_ask(f"{A}-2", less, budget)) == (429, f"2 pods not ready in {A}")


def test_by_partition_other_partitions_stay_free() -> None:
    """…PartitionMode: a-0 is gone; b-0 is denied, b-1 allowed."""
    budget = _budget(maxUnavailable=1, podNamePartitionRegex=REGEX)
    left = without(WHOLE, f"{A}-0")
    assert _code(_ask(f"{B}-0", left, budget)) == (429, "1 pod not ready in partition 0")
    assert _ask(f"{B}-1", left, budget).reserves
    assert _ask(f"{A}-1", left, budget).reserves


def test_by_partition_two_zones_may_be_short_of_it_where_two_may() -> None:
    """TestPodEviction_PartitionZonesMaxUnavailable2: of three zones one remains."""
    budget = _budget(maxUnavailable=2, podNamePartitionRegex=REGEX)
    sets, pods = (zone(A), zone(B), zone(C)), WHOLE + members(C)
    assert _ask(f"{B}-0", without(pods, f"{A}-0"), budget, sets=sets).reserves
    refused = _ask(f"{C}-0", without(pods, f"{A}-0", f"{B}-0"), budget, sets=sets)
    assert _code(refused) == (429, "2 pods not ready in partition 0")


def test_a_delay_counts_from_when_a_pod_became_ready() -> None:
    """…CrossZoneEvictionDelay: b-0 is denied until it has passed since a-0 was Ready."""
    budget = _budget(podNamePartitionRegex=REGEX, crossZoneEvictionDelay="20m")
    pods = changed(WHOLE, f"{A}-0", ready_since=5000.0)
    assert _code(_ask(f"{B}-0", pods, budget, now=6199.0)) == (429, "1 pod not ready in partition 0")
    assert _ask(f"{B}-0", pods, budget, now=6200.0).reserves
    assert _ask(f"{B}-1", pods, budget, now=6199.0).reserves


@pytest.mark.parametrize("since", ["1970-01-01T01:00:00Z", "lately"])
def test_a_delay_counts_from_the_later_of_both_times(since: str) -> None:
    """The annotation `grafana.com/ready-time` can only make it longer, and must be readable."""
    budget = _budget(podNamePartitionRegex=REGEX, crossZoneEvictionDelay="20m")
    pods = changed(WHOLE, f"{A}-0", annotations={"grafana.com/ready-time": since})
    assert _ask(f"{B}-0", pods, budget, now=4000.0).answer.code == 429
    assert _ask(f"{B}-0", pods, budget, now=4800.0).answer.allowed is (since != "lately")


def test_a_delay_does_not_concern_a_pod_that_is_not_ready() -> None:
    """It isn't ready whatever the time."""
    budget = _budget(podNamePartitionRegex=REGEX, crossZoneEvictionDelay="20m")
    assert _ask(f"{B}-0", changed(WHOLE, f"{A}-0", ready_since=None), budget, now=1e6).answer.code == 429


@pytest.mark.parametrize(("partition", "where"), [({}, A), ({"podNamePartitionRegex": REGEX}, "partition 0")])
def test_a_reserved_pod_counts_as_gone(partition: dict[str, str], where: str) -> None:
    """What was allowed and isn't seen yet."""
    refused = _ask(f"{B}-0", WHOLE, _budget(**partition), _reserved(f"{A}-0"))
    assert _code(refused) == (429, f"1 pod not ready in {where}")


def test_a_reserved_pod_that_is_gone_counts_once() -> None:
    """Its successor is ready: the old UID in the ledger holds up nobody."""
    assert _ask(f"{B}-0", WHOLE, _budget(), _reserved("somebody")).reserves
    left = without(WHOLE, f"{A}-0")
    assert _ask(f"{A}-1", left, _budget(maxUnavailable=2), _reserved(f"{A}-0")).reserves


def test_missing_pods_count_by_spec_and_by_status() -> None:
    """Right after a scale-up, and before a scale-down is over: the larger number is the one that must be there."""
    for which in (zone(A, 4, status_replicas=3), zone(A, 3, status_replicas=4)):
        refused = _ask(f"{B}-0", WHOLE, _budget(), sets=(which, zone(B)))
        assert _code(refused) == (429, f"1 pod not ready in {A}")


def test_a_zone_without_a_pod_of_the_partition_counts_as_one() -> None:
    """TestPodEviction_PartitionAwareDownscale: a-2 is there, b has been scaled to two."""
    sets, pods = (zone(A), zone(B, 2)), members(A) + members(B, count=2)
    budget = _budget(podNamePartitionRegex=REGEX)
    assert _code(_ask(f"{A}-2", pods, budget, sets=sets)) == (429, "1 pod not ready in partition 2")
    assert _ask(f"{A}-1", pods, budget, sets=sets).reserves
    two = _budget(maxUnavailable=2, podNamePartitionRegex=REGEX)
    assert _ask(f"{A}-2", pods, two, sets=sets).reserves


@pytest.mark.parametrize(
    ("percent", "spec", "status", "most"),
    [(50, 5, 5, 2), (50, 5, 3, 1), (50, 3, 5, 1), (1, 3, 3, 1), (100, 3, 3, 3), (0, 3, 3, 0), (50, 3, 0, 0)],
)
def test_a_percentage_is_of_the_fewer_replicas_rounded_down(percent: int, spec: int, status: int, most: int) -> None:
    """Of spec and status, at least 1; but 0 % or nothing there is 0."""
    budget = _budget(maxUnavailablePercentage=percent)
    sets = (zone(A, spec, status_replicas=status), zone(B))
    pods = members(A, count=max(spec, status)) + members(B)
    allowed = 0
    while pods and pods[0].owner_uid == A and _ask(pods[0].name, pods, budget, sets=sets).answer.allowed:
        pods, allowed = pods[1:], allowed + 1
    assert allowed == most


@pytest.mark.parametrize(("spec", "status"), [(3, 0), (0, 3)])
def test_a_percentage_of_nothing_is_asked_again(spec: int, status: int) -> None:
    """429: a set that was created again has no status yet, and one that is scaled to 0 has pods yet. `kubectl drain`
    gives up on 403, which a budget of 0 says.
    """
    sets = (zone(A, spec, status_replicas=status), zone(B))
    assert _code(_ask(f"{A}-0", WHOLE, _budget(maxUnavailablePercentage=50), sets=sets)) == (
        429,
        f"{A} has no replicas in its spec or status, so 50 % of them can't be computed",
    )


def test_a_budget_of_0_forbids_evictions_but_not_rollouts() -> None:
    """403; a rollout has its set's own limit, or 1 by partition, and other zones still count."""
    assert _code(_ask(f"{A}-0", WHOLE, _budget(maxUnavailable=0))) == (
        403,
        "ZoneAwarePodDisruptionBudget ns/web allows no pod to be unavailable",
    )
    left, rollout = without(WHOLE, f"{A}-0"), Rollout(2)
    assert _ask(f"{A}-1", left, _budget(maxUnavailable=0), rollout=rollout).reserves
    assert _ask(f"{B}-1", left, _budget(maxUnavailable=0), rollout=rollout).answer.code == 429
    by_partition = _budget(maxUnavailable=0, podNamePartitionRegex=REGEX)
    assert _ask(f"{B}-0", left, by_partition, rollout=rollout).answer.code == 429
    assert _ask(f"{B}-1", left, by_partition, rollout=rollout).reserves


def test_a_rollouts_own_limit_does_not_widen_a_budget_that_has_one() -> None:
    """TestPodEviction_MultiZoneClassicOverrideHasNoEffectWhenNotZero."""
    assert _ask(f"{A}-1", without(WHOLE, f"{A}-0"), _budget(), rollout=Rollout(3)).answer.code == 429


def test_a_rollout_replaces_what_is_not_ready_while_the_others_are_whole() -> None:
    """Three crash-looping pods of a bad template are more than the budget, and are lost already."""
    down = [replace(p, ready_since=None) if p.owner_uid == A else p for p in WHOLE]
    free = Rollout(1, free=True)
    assert _ask(f"{A}-0", down, _budget(), rollout=free).reserves
    assert _ask(f"{A}-0", down, _budget()).answer.code == 429
    assert _ask(f"{A}-0", without(down, f"{B}-0"), _budget(), rollout=free).answer.code == 429
    assert _ask(f"{A}-0", changed(down, f"{A}-0", ready_since=0.0), _budget(), rollout=free).answer.code == 429


def test_a_zone_whose_ordinals_begin_elsewhere_lacks_the_pods_that_are_not_there_yet() -> None:
    """After another first ordinal, it has as many pods as it wants, of which one is to be removed."""
    moved = (zone(A, first_ordinal=1), zone(B))
    assert _code(_ask(f"{B}-0", WHOLE, _budget(), sets=moved)) == (429, f"1 pod not ready in {A}")
    assert _ask(f"{B}-0", [*WHOLE, member(f"{A}-3")], _budget(), sets=moved).answer.allowed


def test_an_unready_pod_is_not_counted_against_its_own_eviction() -> None:
    """It is the one that a drain must get rid of."""
    assert _ask(f"{A}-0", changed(WHOLE, f"{A}-0", containers_ready=False), _budget()).reserves


@pytest.mark.parametrize(
    "change", [{"phase": "Pending"}, {"phase": "Failed"}, {"phase": "Succeeded"}, {"terminating": True}]
)
def test_a_pod_that_does_not_run_goes_with_a_warning(change: dict[str, Any]) -> None:
    """Whatever the budgets say, also two of them, and also one of 0."""
    budgets = [_budget(maxUnavailable=0), _budget(name="other")]
    answer = budget_of(member(f"{A}-0", **change), budgets)
    assert isinstance(answer, Judgement)
    assert answer.answer.allowed and answer.answer.warnings and not answer.reserves


def test_a_pending_pod_goes_and_is_reserved() -> None:
    """Also by a budget of 0: it may be ready by the time it goes, and then no other zone may lose a pod."""
    pending, budget = changed(WHOLE, f"{A}-0", phase="Pending", ready_since=None), _budget(maxUnavailable=0)
    assert budget_of(pending[0], [budget]) == budget
    goes = _ask(f"{A}-0", pending, budget)
    assert goes.answer.allowed and goes.answer.warnings and goes.reserves
    assert _code(_ask(f"{B}-0", WHOLE, _budget(), _reserved(f"{A}-0"))) == (429, f"1 pod not ready in {A}")


@pytest.mark.parametrize("change", [{"phase": "Failed"}, {"phase": "Succeeded"}, {"terminating": True}])
def test_an_eviction_of_a_pod_that_goes_anyway_may_take_the_next_one(change: dict[str, Any]) -> None:
    """Another request deletes it, or its controller does: this eviction may hang in a slow webhook until the set's next
    pod is Ready, and delete that. A rollout deletes by the UID.
    """
    goes, budget = changed(WHOLE, f"{A}-0", **change), _budget(maxUnavailable=0)
    request = Request("r", goes[0])
    assert budget_of(request.pod, [budget]) == budget
    judged = _ask(f"{A}-0", goes, budget)
    assert judged.answer.allowed and judged.answer.warnings and judged.reserves
    former = replace(goes[0], uid="former")
    ledger = Ledger().reserve(replace(request, pod=former), 0.0)
    assert _code(_ask(f"{B}-0", WHOLE, _budget(), ledger)) == (429, f"1 pod not ready in {A}")
    assert _ask(f"{A}-0", WHOLE, _budget(), ledger).answer.allowed, "it is the one that may go"
    assert not judge(goes[0], budget, _state(goes), Ledger(), 0.0, Rollout(1)).reserves
    assert _ask(f"{B}-0", WHOLE, _budget(), Ledger().reserve(Request("rollout-1", former), 0.0)).answer.allowed


def test_a_pod_that_is_in_no_scope_is_allowed() -> None:
    """Another group's budget doesn't matter, nor another namespace's."""
    for pod in (member("other-0", labels={}), member(f"{A}-0", namespace="elsewhere")):
        answer = budget_of(pod, [_budget()])
        assert isinstance(answer, Judgement) and answer.answer.allowed
    assert budget_of(member(f"{A}-0"), [_budget()]) == _budget()


def test_two_budgets_on_a_pod_are_refused_by_name() -> None:
    """400: which one counts is for their author to say."""
    answer = budget_of(member(f"{A}-0"), [_budget(name="web"), _budget(name="all")])
    assert isinstance(answer, Judgement)
    assert _code(answer) == (
        400,
        f"pod ns/{A}-0 is selected by 2 ZoneAwarePodDisruptionBudgets: ns/all, ns/web",
    )


def test_an_invalid_budget_that_is_stored_protects_its_pods() -> None:
    """The original ignores it; ours refuses their evictions, with its name."""
    answer = budget_of(member(f"{A}-0"), [read(_item(maxUnavailable=1, maxUnavailablePercentage=5))])
    assert isinstance(answer, Judgement)
    assert answer.answer.code == 400 and "ns/web is invalid: only one of" in answer.answer.message


def test_fewer_than_two_zones_are_refused() -> None:
    """400, with the zone that there is."""
    code, message = _code(_ask(f"{A}-0", members(A), _budget(), sets=[zone(A)]))
    assert code == 400 and message.endswith(f"selects only the StatefulSet {A}, but needs two or more")


def test_a_partition_that_is_not_found_is_refused() -> None:
    """400, with the pod's name."""
    code, message = _code(_ask(f"{A}-0", WHOLE, _budget(podNamePartitionRegex="x-([0-9]+)")))
    assert code == 400 and f"no partition in pod ns/{A}-0" in message


@pytest.mark.parametrize(
    ("change", "owner"),
    [({"owner_kind": "", "owner_name": "", "owner_uid": ""}, "no owner"), ({"owner_uid": "gone"}, f"StatefulSet {A}")],
)
def test_a_pod_of_no_zone_is_refused(change: dict[str, str], owner: str) -> None:
    """TestPodEviction_PodWithNoOwner: selected, but of nothing that the budget knows."""
    code, message = _code(_ask(f"{A}-0", changed(WHOLE, f"{A}-0", **change), _budget()))
    assert code == 400 and f"belongs to {owner}, not to a StatefulSet" in message


def test_what_is_no_eviction_is_refused() -> None:
    """TestPodEviction_NotCreateEvent, …NotEvictionSubResource, …EmptyName."""
    pods = {"group": "", "version": "v1", "resource": "pods"}
    eviction = {"resource": pods, "subResource": "eviction", "name": f"{A}-0"}
    assert misdirected(request_of(review_of("CREATE", **eviction))) is None
    for operation, change in (
        ("UPDATE", {}),
        ("CREATE", {"subResource": ""}),
        ("CREATE", {"name": ""}),
        ("CREATE", {"resource": {**pods, "resource": "nodes"}}),
    ):
        answer = misdirected(request_of(review_of(operation, **{**eviction, **change})))
        assert answer is not None and answer.code == 400


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"maxUnavailable": 1, "maxUnavailablePercentage": 10}, "only one of maxUnavailable and"),
        ({"maxUnavailable": -1}, "maxUnavailable isn't a non-negative"),
        ({"maxUnavailable": "1"}, "maxUnavailable isn't a non-negative"),
        ({"maxUnavailable": True}, "maxUnavailable isn't a non-negative"),
        ({"maxUnavailablePercentage": 101}, "more than 100"),
        ({"maxUnavailablePercentage": 10, "podNamePartitionRegex": REGEX}, "maxUnavailablePercentage can't"),
        ({"crossZoneEvictionDelay": "5m"}, "needs podNamePartitionRegex"),
        ({"crossZoneEvictionDelay": "soon", "podNamePartitionRegex": REGEX}, "isn't a duration"),
        ({"crossZoneEvictionDelay": "-5m", "podNamePartitionRegex": REGEX}, "isn't a duration"),
        ({"podNamePartitionRegex": "web-[0-9]+"}, "no group"),
        ({"podNamePartitionRegex": 7}, "isn't a string"),
        ({"podNamePartitionRegex": REGEX, "podNameRegexGroup": 2}, "podNameRegexGroup is 2"),
        ({"podNamePartitionRegex": REGEX, "podNameRegexGroup": "1"}, "podNameRegexGroup isn't a non-negative"),
        ({"selector": None}, "matchLabels"),
        ({"selector": {"matchLabels": {"a": 1}}}, "matchLabels"),
    ],
)
def test_a_budget_that_contradicts_itself_is_refused(spec: dict[str, Any], why: str) -> None:
    """400 by the webhook, for what a CRD's rules can't see; an update of it alike."""
    assert isinstance(read(_item(**spec)), InvalidBudget)
    for operation in ("CREATE", "UPDATE"):
        answer = validate(request_of(review_of(operation, object=_item(**spec))))
        assert answer.code == 400 and why in answer.message
    assert validate(request_of(review_of("DELETE", object=None))).allowed


def test_a_budget_is_read() -> None:
    """One pod unless something else is said; an empty regex or delay is none."""
    assert _budget() == ZoneBudget("ns", "web", {"rollout-group": "web"})
    assert _budget(podNamePartitionRegex="", crossZoneEvictionDelay="") == _budget()
    assert _budget(podNamePartitionRegex=REGEX, crossZoneEvictionDelay="1h30m").delay == 5400
    assert validate(request_of(review_of("CREATE", object=_item()))).allowed
    assert isinstance(read({}), InvalidBudget)
    assert isinstance(read({"metadata": [None], "spec": {}}), InvalidBudget), "no object has such metadata"
    assert str(read({"metadata": {"name": "n", "namespace": "ns"}})) == "ns/n"


@pytest.mark.parametrize("spec", [{}, {"podNamePartitionRegex": REGEX}, {"maxUnavailable": 0}])
def test_a_rollout_with_a_budget_takes_zone_by_zone(spec: dict[str, Any]) -> None:
    """TestRolloutHappyCaseWithZpdb: what the rollout deletes, the budget allows, to the end."""
    sets = tuple(zone(name, most="1") for name in (A, B, C))
    pods = [p for s in sets for p in members(s.name, OLD)]
    for _ in range(9):
        (deletion,) = decide(sets, pods).delete
        judgement = _ask(
            deletion.pod.name,
            pods,
            _budget(**spec),
            sets=sets,
            rollout=Rollout(deletion.max_unavailable, deletion.free),
        )
        assert judgement.reserves
        pods = [*without(pods, deletion.pod.name), member(deletion.pod.name, NEW)]
    assert not decide(sets, pods).delete


@settings(max_examples=100)
@given(st.data())
def test_two_processes_with_caches_that_lag_never_break_a_budget(data: st.DataObject) -> None:
    """Whatever each cache shows of what was deleted, and whoever answers: one zone, and no more than the maximum."""
    most = data.draw(st.integers(1, 3))
    budget, sets = _budget(maxUnavailable=most), (zone(A), zone(B))
    stored, gone = Ledger(), list[str]()
    seen = [0, 0]  # how many of the deletions each process' cache shows
    for number in range(data.draw(st.integers(1, 12))):
        process = data.draw(st.integers(0, 1))
        seen[process] = data.draw(st.integers(seen[process], len(gone)))
        cache = [replace(p, terminating=p.uid in gone[: seen[process]]) for p in WHOLE]
        pod = data.draw(st.sampled_from([p for p in cache if not p.terminating]))
        state = _state(cache, sets)

        def answer(request: Request, ledger: Ledger, state: State = state) -> Judgement:
            return judge(request.pod, budget, state, ledger, 0.0)

        (judged,), stored = admit(stored, [Request(str(number), pod)], float(number), answer)
        if judged.answer.allowed and pod.uid not in gone:
            gone.append(pod.uid)
        assert len(gone) <= most
        assert len({uid.rpartition("-")[0] for uid in gone}) <= 1


@pytest.mark.parametrize(
    ("requests", "evicted", "hangs"),
    [
        ({"r"}, True, False),
        ({"r"}, False, True),
        ({"r", "s"}, True, True),
        ({""}, True, True),
        ({"r", "rollout-1"}, True, True),
        ({"r", "one-pod-1"}, True, True),
        ({"rollout-1", "rollout-2"}, False, False),
        ({"rollout-1", "one-pod-1"}, False, False),
    ],
)
def test_the_next_pod_of_a_name_may_go_by_an_eviction_that_another_webhook_holds_up(
    requests: set[str], evicted: bool, hangs: bool
) -> None:
    """An eviction is of a name. It may hang in a slow webhook while another request deletes its pod, or its node is
    lost, until the set's next pod of that name is Ready, and delete that. So it counts as gone until the reservation
    ends. The only eviction that was allowed for a pod that was evicted has been done; a rollout deletes by the UID, and
    so does an eviction that requires one.
    """
    former = Ledger({"former": Reservation("former", f"{A}-0", 0.0, frozenset(requests))})
    denied = (429, f"1 pod not ready in {A}") if hangs else (0, "")

    def ask(name: str, budget: ZoneBudget) -> Judgement:
        pod = next(p for p in WHOLE if p.name == name)
        return judge(pod, budget, replace(_state(WHOLE), evicted=["former"] if evicted else []), former, 0.0)

    assert _code(ask(f"{B}-0", _budget())) == denied
    assert _code(ask(f"{A}-1", _budget())) == denied
    assert ask(f"{A}-0", _budget()).answer.allowed, "it is the one that may go"
    by_partition = _budget(podNamePartitionRegex=REGEX, podNameRegexGroup=1)
    assert ask(f"{B}-0", by_partition).answer.allowed is not hangs
    assert ask(f"{B}-1", by_partition).answer.allowed
