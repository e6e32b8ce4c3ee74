"""The webhook of a cell: whom it asks, what it writes, and when it doesn't answer."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from testkit.memory import TracedMemory
from tests.unit.in_cluster.guard.core.builders import request_of, review_of
from tests.unit.in_cluster.guard.fake_api import FakeApi
from tests.unit.in_cluster.guard.protector_world import LABELS, bucket, counted, pod, protector, put, see, stored, uids
from upgrader.in_cluster.guard.core.admission import AdmissionRequest, Answer, NotAnAdmissionReview
from upgrader.in_cluster.guard.core.protector import Tuning
from upgrader.in_cluster.guard.core.selectors import Selector
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict
from upgrader.in_cluster.guard.roles.disruption_budgets import DISRUPTION_BUDGETS, DisruptionBudgets
from upgrader.in_cluster.guard.roles.other_budgets import OtherBudgets
from upgrader.in_cluster.guard.roles.pods_of_cell import PODS
from upgrader.in_cluster.guard.roles.protector_cache import POD_PROTECTORS, NewestProtectors, ProtectorCache
from upgrader.in_cluster.guard.roles.protector_webhook import CellWebhook, ProtectorWriter, unknown_cell
from upgrader.in_cluster.guard.roles.silent_cells import SilentCells
from upgrader.in_cluster.guard.roles.young_pods import YoungPods
from upgrader.in_cluster.guard.runtime.metrics import Metrics
from upgrader.in_cluster.guard.runtime.protector_metrics import ProtectorMetrics

OWNED = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "r", "controller": True}]
RESOURCE = {"group": "", "version": "v1", "resource": "pods"}


def deletion(name: str, uid: str = "r", **changes: Any) -> AdmissionRequest:
    """Of a pod in `shop` that is as `pod` makes it."""
    old = pod(name, namespace="shop")
    given = {"uid": uid, "resource": RESOURCE, "name": name, "namespace": "shop", "object": None, "oldObject": old}
    return request_of(review_of("DELETE", **{**given, **changes}))


def eviction(name: str, uid: str = "r", **changes: Any) -> AdmissionRequest:
    """Of a pod in `shop`."""
    body = {"kind": "Eviction", "metadata": {"name": name}}
    given = {"uid": uid, "resource": RESOURCE, "subResource": "eviction", "name": name, "namespace": "shop"}
    return request_of(review_of("CREATE", **{**given, "object": body, "oldObject": None, **changes}))


def ended(found: dict[str, Any]) -> dict[str, Any]:
    """The same pod, as the garbage collector of pods leaves one whose node is gone: Failed, and still Ready."""
    return {**found, "status": {**found["status"], "phase": "Failed"}}


class World:
    """A webhook of the cell `a`; protectors and pods are in one cluster."""

    def __init__(self) -> None:
        self.api, self.metrics = FakeApi(), Metrics()
        counts = ProtectorMetrics(self.metrics)
        self.seconds = 0.0
        self.cache = ProtectorCache(self.api, [], Tuning(), clock=lambda: self.seconds)
        self.date = 0.0
        young = YoungPods(self.cache, lambda: self.seconds)
        silent = SilentCells(self.cache, lambda: self.seconds, lambda: self.date)
        writer = ProtectorWriter(self.api, self.cache, counts, NewestProtectors(self.cache), young, silent)
        self.webhook = CellWebhook("a", self.api, self.cache, writer, counts, 5.0)

    async def begin(self, *objects: dict[str, Any]) -> None:
        """With these, which the cache knows."""
        put(self.api, *objects)
        await see(self.cache)
        self.api.calls.clear()

    async def ask(self, request: AdmissionRequest) -> Answer:
        """What is answered."""
        return await self.webhook(request)


def run(test: Callable[[World], Awaitable[None]]) -> None:
    """In a loop of its own."""

    async def whole() -> None:
        await test(World())

    asyncio.run(whole())


def test_what_is_allowed_is_written_down_first() -> None:
    """One more than must stay may go; the next one is refused, by deletion with 409, by eviction with 429."""

    async def test(world: World) -> None:
        await world.begin(protector(2, cells={"a": counted(3)}), pod("x"), pod("y"))
        assert (await world.ask(deletion("x", "1"))).allowed
        assert uids(world.api, "a") == ["uid-x"]
        refused = await world.ask(deletion("y", "2"))
        assert (refused.code, refused.audit) == (409, {"reject-by-podprotector": "shop/web"})
        assert (await world.ask(eviction("y", "3"))).code == 429
        assert uids(world.api, "a") == ["uid-x"]
        text = world.metrics.text()
        assert 'webhook_request_count{cause="DeletePod",cell="a",status="NewDisruption"} 1.0' in text
        assert 'webhook_handle_pod_in_ppr_count{pod_cell="a",rejected="true",request_type="EvictPod"} 1.0' in text
        assert "retrybatch_execute_batch_size_count 3.0" in text

    run(test)


def test_what_is_recorded_tells_evictions_from_deletions() -> None:
    """An eviction may delete another pod of the name, by which an aggregator keeps its place longer."""

    async def test(world: World) -> None:
        await world.begin(protector(1, cells={"a": counted(3)}), pod("x"))
        assert (await world.ask(deletion("x", "1"))).allowed and (await world.ask(eviction("x", "2"))).allowed
        (cell,) = stored(world.api)["status"]["cells"]
        assert cell["admissionHistory"]["buckets"][0]["requests"] == ["1", "eviction-2"]

    run(test)


def test_protectors_are_looked_for_by_the_labels_that_the_pod_has() -> None:
    """Once for a deletion, as the request tells them; again where the API says that the pod has others by now."""

    async def test(world: World) -> None:
        await world.begin(protector(2, cells={"a": counted(2)}), pod("x"))
        looked, plain = list[Any](), world.webhook._selecting

        def selecting(found: Any) -> Any:
            looked.append(found)
            return plain(found)

        world.webhook._selecting = selecting  # type: ignore[method-assign]
        assert (await world.ask(deletion("x", "1"))).code == 429
        assert len(looked) == 1
        await world.begin(protector(9, "others", selector={"matchLabels": {"app": "other"}}))
        put(world.api, pod("x", labels={"app": "other"}))
        assert (await world.ask(deletion("x", "2"))).code == 429
        assert [found.labels["app"] for found in looked] == ["web", "web", "other"]

    run(test)


def test_of_many_protectors_few_are_asked_whether_they_select_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion costs the same with 100 PodProtectors in its namespace as with a few; it is found what a change of
    their selectors makes them select, and what is deleted selects nothing.
    """
    asked, plain = list[Any](), Selector.matches

    def matches(self: Selector, labels: Any) -> bool:
        asked.append(labels)
        return plain(self, labels)

    def of(number: int, least: int = 1, app: str = "") -> dict[str, Any]:
        labels = {"matchLabels": {"environment": "production", "app": app or f"web-{number}"}}
        return protector(least, f"web-{number}", cells={"a": counted(2)}, selector=labels)

    async def test(world: World) -> None:
        await world.begin(*map(of, range(100)))
        there = pod("x", labels={"environment": "production", "app": "web-7"})
        put(world.api, there)
        request = deletion("x", "1", oldObject={**there, "metadata": {**there["metadata"], "namespace": "shop"}})
        monkeypatch.setattr(Selector, "matches", matches)
        assert (await world.ask(request)).allowed and uids(world.api, "a", "web-7") == ["uid-x"]
        few = len(asked)
        assert 0 < few < 10
        await world.begin(of(7, app="others"), of(8, 9, app="web-7"))
        assert (await world.ask(replace(request, uid="2"))).code == 429
        del world.api.objects[POD_PROTECTORS.path("shop", "web-8")]
        await see(world.cache)
        assert (await world.ask(replace(request, uid="3"))).allowed
        possible = world.cache.possible("shop", {"environment": "production", "app": "web-8"})
        assert "web-8" not in [each.name for each in possible]

    run(test)


def test_a_dry_run_writes_nothing() -> None:
    """It is answered alike."""

    async def test(world: World) -> None:
        await world.begin(protector(2, cells={"a": counted(3)}), pod("x"))
        assert (await world.ask(deletion("x", dryRun=True))).allowed
        assert uids(world.api, "a") == [] and not [c for c in world.api.calls if c.startswith("replace")]

    run(test)


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (pod("x", labels={"app": "other"}), pod("x", namespace="shop", labels={"app": "other"})),
        (ended(pod("x", ownerReferences=OWNED)), ended(pod("x", namespace="shop", ownerReferences=OWNED))),
        (pod("x"), pod("x", namespace="shop", ownerReferences=OWNED, deletionTimestamp="1970-01-01T00:00:00Z")),
    ],
)
def test_what_needs_nobodys_word(there: dict[str, Any], told: dict[str, Any]) -> None:
    """No protector selects it, it has ended, or it terminates: the API isn't asked. By eviction only for the pod, whose
    name doesn't come again.
    """

    async def test(world: World) -> None:
        await world.begin(protector(2, cells={"a": counted(2)}), there)
        assert (await world.ask(deletion("x", oldObject=told))).allowed
        assert world.api.calls == []
        put(world.api, {**there, "metadata": {**told["metadata"]}})
        world.api.calls.clear()
        assert (await world.ask(eviction("x"))).allowed
        assert world.api.calls == [f"get {PODS.path('shop', 'x')}"]

    run(test)


@pytest.mark.parametrize(
    "going", [ended(pod("x")), pod("x", deletionTimestamp="1970-01-01T00:00:00Z")], ids=["ended", "terminates"]
)
def test_an_eviction_of_a_pod_that_goes_anyway_takes_a_place(going: dict[str, Any]) -> None:
    """It may delete the next pod of the name, unless it is of this UID. It is allowed at the minimum, too, and a
    PodProtector that can't be read, and lets no other pod go, doesn't refuse it.
    """

    async def test(world: World) -> None:
        await world.begin(protector(2, cells={"a": counted(2)}), going, pod("y"))
        bound = {"metadata": {"name": "x"}, "deleteOptions": {"preconditions": {"uid": "uid-x"}}}
        assert (await world.ask(eviction("x", "1", object=bound))).allowed
        assert uids(world.api, "a") == []
        assert (await world.ask(eviction("x", "2"))).allowed
        (cell,) = stored(world.api)["status"]["cells"]
        assert cell["admissionHistory"]["buckets"][0]["requests"] == ["", "eviction-2"]
        put(world.api, protector(0, "broken", minAvailable="1"))
        await see(world.cache)
        assert (await world.ask(eviction("x", "3"))).allowed
        assert not (await world.ask(eviction("y", "4"))).allowed

    run(test)


def test_an_unready_pod_needs_a_place_only_for_an_eviction() -> None:
    """If it is Ready before it is deleted, the API server asks again; before an eviction it doesn't. When a pod
    that was evicted unready is counted as available meanwhile, no other pod goes in its place.
    """

    async def test(world: World) -> None:
        there = protector(2, cells={"a": counted(2)})
        await world.begin(there, pod("x", ready=False), pod("y"))
        assert (await world.ask(deletion("x", oldObject=pod("x", ready=False, namespace="shop")))).allowed
        assert world.api.calls == []
        assert (await world.ask(eviction("x"))).allowed
        assert uids(world.api, "a") == ["uid-x"]
        ready = {**counted(3), "admissionHistory": stored(world.api)["status"]["cells"][0]["admissionHistory"]}
        put(world.api, {**there, "status": {"cells": [{"cellID": "a", **ready}]}}, pod("x"))
        assert (await world.ask(deletion("y"))).code == 409

    run(test)


@pytest.mark.parametrize(
    ("request_", "code"), [(deletion("made-up"), 409), (eviction("made-up"), 409), (deletion("x", oldObject=None), 400)]
)
def test_a_request_that_is_made_up_writes_nothing(request_: AdmissionRequest, code: int) -> None:
    """For a pod that isn't there no place is taken; what is no pod at all is no review."""

    async def test(world: World) -> None:
        await world.begin(protector(0, cells={"a": counted(3)}), pod("x"))
        if request_.name == "x":
            with pytest.raises(NotAnAdmissionReview):
                await world.ask(request_)
        else:
            assert (await world.ask(request_)).code == code
        assert not [c for c in world.api.calls if c.startswith("replace")]

    run(test)


@pytest.mark.parametrize("ask", [deletion, eviction])
def test_a_kubeconfig_of_another_cluster_lets_no_pod_go(ask: Callable[[str], AdmissionRequest]) -> None:
    """The cell's API server has the pod, and the cluster that guard reads has none of its pods: it isn't known which
    pods these are. An eviction isn't answered 404: a drain would take a pod that runs for gone.
    """

    async def test(world: World) -> None:
        await world.begin(protector(1, cells={"a": counted(3)}))
        answer = await world.ask(ask("x"))
        assert (answer.allowed, answer.code) == (False, 409)
        assert "the cluster that guard reads for the cell a has no pod shop/x" in answer.message
        assert "or the kubeconfig of the cell is for another cluster" in answer.message

    run(test)


@pytest.mark.parametrize("is_own", [True, False])
def test_an_eviction_of_a_pod_that_is_certainly_gone_is_404(is_own: bool) -> None:
    """A drain then goes on: guard reads its own cluster, or one where it has found the UID of a pod that was to be
    deleted. The same name isn't enough, as pods of a StatefulSet have the same names in each cluster.
    """

    async def test(world: World) -> None:
        world.webhook._is_right = is_own
        await world.begin(protector(1, cells={"a": counted(9)}), pod("x"))
        if not is_own:
            old = pod("x", namespace="shop", uid="of-another-cluster")
            assert (await world.ask(deletion("x", oldObject=old))).code == 409
            assert (await world.ask(eviction("x", "2"))).allowed
            assert (await world.ask(eviction("gone", "3"))).code == 409
            assert (await world.ask(deletion("x", "4"))).allowed
        answer = await world.ask(eviction("gone", "5"))
        assert (answer.code, "kubeconfig" in answer.message) == (404, False)
        # Where two clusters have the same workerCellId, this is all that the second one's user sees.
        assert answer.message.endswith("or the API server of another cluster calls the path of this cell")

    run(test)


def test_a_pod_of_another_uid_is_not_reserved() -> None:
    """The one that was to be deleted is gone by now: the API server asks again, about the one that it has."""

    async def test(world: World) -> None:
        await world.begin(protector(0, cells={"a": counted(3)}), pod("x"))
        old = pod("x", namespace="shop", uid="former")
        assert (await world.ask(deletion("x", oldObject=old))).code == 409
        assert uids(world.api, "a") == []

    run(test)


def on_condition(name: str, **wanted: str) -> AdmissionRequest:
    """An eviction, as Karpenter sends it: of the pod that has this uid or resourceVersion."""
    body = {"kind": "Eviction", "metadata": {"name": name}, "deleteOptions": {"preconditions": wanted}}
    return eviction(name, object=body)


def test_an_eviction_of_another_state_of_the_pod_takes_no_place() -> None:
    """The API server is going to refuse it, as the pod has another UID or resourceVersion by now: for a minute, it
    would keep the place from a pod that may go. What is as the client has it goes.
    """

    async def test(world: World) -> None:
        await world.begin(protector(2, cells={"a": counted(3)}), pod("x"), pod("y"))
        version = world.api.objects[PODS.path("shop", "x")]["metadata"]["resourceVersion"]
        for wanted in ({"uid": "former"}, {"resourceVersion": "1"}, {"uid": "uid-x", "resourceVersion": "1"}):
            refused = await world.ask(on_condition("x", **wanted))
            assert (refused.code, list(wanted.values())[-1] in refused.message) == (409, True)
            assert uids(world.api, "a") == []
        assert (await world.ask(on_condition("x", uid="uid-x", resourceVersion=version))).allowed
        assert uids(world.api, "a") == ["uid-x"]

    run(test)


@pytest.mark.parametrize("options", [{}, {"preconditions": None}, {"preconditions": {"uid": None}}, "no", None])
def test_an_eviction_without_conditions_goes(options: Any) -> None:
    """Whatever stands there: what an API server sends has a type, and what others send takes a pod's own place."""

    async def test(world: World) -> None:
        await world.begin(protector(2, cells={"a": counted(3)}), pod("x"))
        assert (await world.ask(eviction("x", object={"metadata": {"name": "x"}, "deleteOptions": options}))).allowed

    run(test)


def test_all_protectors_must_agree() -> None:
    """What one has reserved before another refuses is given back."""

    async def test(world: World) -> None:
        await world.begin(
            protector(1, "first", cells={"a": counted(3)}), protector(3, "second", cells={"a": counted(3)}), pod("x")
        )
        assert (await world.ask(deletion("x"))).code == 429
        assert uids(world.api, "a", "first") == uids(world.api, "a", "second") == []

    run(test)


def test_a_request_with_the_id_of_another_one_gives_nothing_back() -> None:
    """Any client that reaches the port can forge one, with an id that it reads in a status. It is refused by the second
    protector, which has fewer pods by now; but what the first one had reserved before may still be deleted.
    """

    async def test(world: World) -> None:
        protectors = [protector(least, name, cells={"a": counted(3)}) for least, name in ((1, "first"), (2, "second"))]
        await world.begin(*protectors, pod("x"), pod("y"))
        assert (await world.ask(deletion("x", "1"))).allowed
        fewer = stored(world.api, "second")
        fewer["status"]["cells"][0]["aggregation"]["availableReplicas"] = 2
        put(world.api, fewer)
        await see(world.cache)
        assert not (await world.ask(deletion("x", "1"))).allowed
        assert uids(world.api, "a", "first") == uids(world.api, "a", "second") == ["uid-x"]
        assert not (await world.ask(deletion("y", "2"))).allowed
        assert uids(world.api, "a", "first") == ["uid-x"], "its own place is given back"

    run(test)


def test_a_forced_deletion_is_allowed_and_noted() -> None:
    """It takes its place all the same, and the audit log says why."""

    async def test(world: World) -> None:
        forced = pod("x", annotations={"podseidon.kubewharf.io/force-delete": "by me"})
        await world.begin(protector(3, cells={"a": counted(3)}), forced)
        answer = await world.ask(deletion("x"))
        assert answer.allowed and answer.audit == {"force-delete": "by me"}
        assert uids(world.api, "a") == ["uid-x"]

    run(test)


def test_a_protector_that_is_being_deleted_still_protects() -> None:
    """Its finalizer keeps it while its Deployment is there: who deletes it hasn't let its pods go."""

    async def test(world: World) -> None:
        going = protector(2, cells={"a": counted(3)})
        going["metadata"] |= {"deletionTimestamp": "1970-01-01T00:00:00Z", "finalizers": ["podseidon.kubewharf.io/x"]}
        await world.begin(going, pod("x"), pod("y"))
        assert (await world.ask(eviction("x", "1"))).allowed
        assert not (await world.ask(eviction("y", "2"))).allowed and uids(world.api, "a") == ["uid-x"]

    run(test)


def test_a_protector_that_is_gone_refuses_nothing() -> None:
    """Podseidon crashes there."""

    async def test(world: World) -> None:
        await world.begin(protector(3, cells={"a": counted(3)}), pod("x"))
        del world.api.objects[POD_PROTECTORS.path("shop", "web")]
        assert (await world.ask(deletion("x"))).allowed

    run(test)


def test_a_conflict_is_tried_again() -> None:
    """And counted."""

    async def test(world: World) -> None:
        await world.begin(protector(1, cells={"a": counted(3)}), pod("x"))
        world.api.next_answer("replace", Conflict("modified", 409))
        assert (await world.ask(deletion("x"))).allowed
        assert "retrybatch_submit_retry_count_sum 1.0" in world.metrics.text()
        assert uids(world.api, "a") == ["uid-x"]

    run(test)


def test_without_knowing_nothing_is_answered() -> None:
    """Caches that aren't there yet, and a cluster that is away: failurePolicy decides, and it is counted."""

    async def test(world: World) -> None:
        with pytest.raises(ApiAway, match="not listed yet"):
            await world.ask(deletion("x"))
        await world.begin(protector(1, cells={"a": counted(3)}), pod("x"))
        world.api.next_answer("get", ApiAway("away"))
        with pytest.raises(ApiAway):
            await world.ask(deletion("x"))
        assert 'webhook_http_error{cell="a",error="ApiAway"} 2.0' in world.metrics.text()

    run(test)


def test_a_watch_that_has_been_silent_for_long_selects_nothing() -> None:
    """A protector may have been created meanwhile: what the API told an hour ago doesn't say that none selects a pod.
    A pod that isn't Ready goes all the same, as no protector keeps it; and a new list is enough to answer again.
    """

    async def test(world: World) -> None:
        unready = pod("y", namespace="shop", ready=False)
        await world.begin(pod("x"), unready)
        assert (await world.ask(deletion("x"))).allowed
        world.seconds += 3600
        for request in (deletion("x"), eviction("x")):
            with pytest.raises(ApiAway, match="podprotectors: the API server has sent nothing for 3600 s"):
                await world.ask(request)
        assert (await world.ask(deletion("y", oldObject=unready))).allowed
        await see(world.cache)
        assert (await world.ask(deletion("x"))).allowed

    run(test)


def test_of_a_large_protector_little_is_kept() -> None:
    """A tenant's PodProtectors may have labels and annotations of 1.5 MiB, which decide nothing."""

    async def test(world: World) -> None:
        for number in range(4):
            selector = {"matchLabels": {"a": "b" * 10_000 if number % 2 else "b"}}
            large = protector(3, f"p-{number}", selector=selector)
            meta = {"annotations": {"note": "x" * 100_000}, "labels": {f"l-{each}": "y" for each in range(200)}}
            large["metadata"] |= {**meta, "finalizers": [f"example.com/{each}" for each in range(200)]}
            put(world.api, json.loads(json.dumps(large)))
        with TracedMemory() as memory:
            await see(world.cache)
            kept = memory.kept
        assert len(list(world.cache)) == 2 and kept / 4 < 16_384
        held = world.cache.get(("shop", "p-0"))
        assert held is not None and held.protector.min_available == 3

    run(test)


def test_what_is_no_deletion_is_refused() -> None:
    """Before anything has to be known: `upgrader guard on` asks so."""

    async def test(world: World) -> None:
        assert (await world.ask(request_of(review_of("UPDATE")))).code == 400
        with pytest.raises(NotAnAdmissionReview, match="know this cell"):
            await unknown_cell(deletion("x"))

    run(test)


@pytest.mark.parametrize(
    "spec",
    [
        {"selector": {"matchExpressions": [{"key": "a", "operator": "?"}]}},
        {"selector": {"matchLabels": {f"label-{number}": "" for number in range(1000)}}},
        {"admissionHistoryConfig": "no object"},
        {"admissionHistoryConfig": {"maxConcurrentLag": "1"}},
        {"minAvailable": "1"},
        {"minAvailable": None},
        {"minReadySeconds": "10"},
        {"cells": {"a": {"aggregation": {"availableReplicas": "9"}}}},
        {"cells": {"a": counted(9), "b": {"cellID": ["b"]}}},
    ],
    ids=["operator", "too large", "config", "lag", "text", "nothing", "seconds", "counts", "name of a cell"],
)
def test_a_protector_that_cannot_be_read_protects_its_pods(spec: dict[str, Any]) -> None:
    """Its definition refuses what can't be read, but another's may have stored it: its minimum isn't known. It is
    named. Pods that aren't Ready go, as do those of other namespaces and other workloads, and all once it is gone. But
    if its selector can't be read, it may select any pod of its namespace. A status alone is corrected by guard: with
    429, `kubectl drain` waits for that; on 400 it gives up, and somebody has to act.
    """

    async def test(world: World) -> None:
        code = 429 if "cells" in spec else 400
        unready = pod("y", namespace="shop", ready=False)
        other = pod("w", namespace="shop", labels={"app": "other"})
        await world.begin(protector(0, **spec), pod("x"), unready, other)
        for request in (deletion("w", oldObject=other), eviction("w")):
            assert (await world.ask(request)).allowed is ("selector" not in spec)
        for request in (deletion("x"), eviction("x")):
            refused = await world.ask(request)
            assert (refused.allowed, refused.code) == (False, code)
            assert refused.message.startswith("PodProtector shop/web can't be read: ")
        assert world.cache.unreadable_count == 1
        assert (await world.ask(deletion("y", oldObject=unready))).allowed
        elsewhere = pod("z", namespace="lab")
        assert (await world.ask(deletion("z", namespace="lab", oldObject=elsewhere))).allowed
        del world.api.objects[POD_PROTECTORS.path("shop", "web")]
        await see(world.cache)
        assert (await world.ask(deletion("x"))).allowed and world.cache.unreadable_count == 0

    run(test)


def test_a_namespace_that_cannot_be_listed_locks_no_other_one() -> None:
    """Its administrator has deleted guard's RoleBinding. There, nothing is known, and the failurePolicy decides."""

    async def test(world: World) -> None:
        put(world.api, protector(1, cells={"a": counted(3)}), pod("x"))
        cache = ProtectorCache(world.api, ["lab", "shop"], Tuning())
        await cache.followed["shop"]._list()
        world.webhook._protectors = cache
        assert (await world.ask(deletion("x"))).allowed
        with pytest.raises(ApiAway, match="podprotectors in lab: not listed yet"):
            await world.ask(deletion("z", namespace="lab", oldObject=pod("z", namespace="lab")))

    run(test)


@pytest.mark.parametrize("ask", [deletion, eviction])
@pytest.mark.parametrize(
    ("changed", "code"),
    [
        (protector(1, cells={"a": counted(9)}, minAvailable="1"), 400),
        (protector(1, cells={"a": {"aggregation": {"availableReplicas": "9"}}}), 429),
    ],
)
def test_a_protector_that_has_just_become_unreadable_refuses(
    changed: dict[str, Any], code: int, ask: Callable[[str], AdmissionRequest]
) -> None:
    """The watch doesn't show that yet: it isn't left to the failurePolicy, which may let the pod go. The other
    protector that allowed it gets its place back.
    """

    async def test(world: World) -> None:
        await world.begin(protector(1, "a", cells={"a": counted(9)}), protector(1, cells={"a": counted(9)}), pod("x"))
        put(world.api, changed)
        refused = await world.ask(ask("x"))
        assert (refused.allowed, refused.code) == (False, code)
        assert refused.message.startswith("PodProtector shop/web can't be read: ")
        assert uids(world.api, "a", "a") == []

    run(test)


def test_a_budget_of_another_kind_that_does_not_answer_keeps_no_eviction_waiting() -> None:
    """Its own webhook is asked as well; a deletion isn't its business, and asks it nothing. It gets a small part of the
    time here, so that what is left is enough on any machine.
    """

    async def test(world: World) -> None:
        asked = list[str]()

        async def silent(request: AdmissionRequest, _: object) -> None:
            asked.append(request.uid)
            await asyncio.Event().wait()

        world.webhook.others, world.webhook._seconds = OtherBudgets(DisruptionBudgets(world.api), 0.0001), 300.0
        world.webhook.others.add(silent)
        await world.begin(protector(1, cells={"a": counted(3)}), pod("x"), pod("y"))
        assert (await world.ask(eviction("x", "1"))).allowed and uids(world.api, "a") == ["uid-x"]
        assert (await world.ask(deletion("y", "2"))).allowed and asked == ["1"]

    run(test)


def test_a_deletion_costs_one_read_and_one_write() -> None:
    """Of its pod, and of its protector: neither what the watch shows is read again, nor what was just written and isn't
    shown yet; what another has written is, once.
    """

    async def test(world: World) -> None:
        await world.begin(protector(1, cells={"a": counted(6)}), *map(pod, "uvwxyz"))
        asked = [call for name in "xy" for call in await calls(world, name)]
        assert asked == ["get pods", "replace podprotectors"] * 2

        await see(world.cache)
        assert await calls(world, "z") == ["get pods", "replace podprotectors"]

        world.api.put(POD_PROTECTORS, stored(world.api), "shop")  # an aggregator has counted, say
        again = ["get pods", "replace podprotectors", "get podprotectors", "replace podprotectors"]
        assert await calls(world, "u") == again
        assert await calls(world, "v") == ["get pods", "replace podprotectors"]
        assert uids(world.api, "a") == [f"uid-{name}" for name in "xyzuv"]

    run(test)


def test_a_protector_is_parsed_as_the_watch_shows_it_and_not_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion's answer took half of its own time for that; what was written or read since is parsed."""
    parsed, plain = list[object](), Selector.of

    def of(content: object) -> Selector:
        parsed.append(content)
        return plain(content)

    async def test(world: World) -> None:
        await world.begin(protector(1, cells={"a": counted(6)}), *map(pod, "xyz"))
        monkeypatch.setattr(Selector, "of", of)
        assert (await world.ask(deletion("x", "1"))).allowed and parsed == []
        assert (await world.ask(deletion("y", "2"))).allowed and len(parsed) == 1
        assert uids(world.api, "a") == ["uid-x", "uid-y"]

    run(test)


async def calls(world: World, name: str) -> list[str]:
    """What a deletion asked the API for, by verb and kind; it was allowed."""
    world.api.calls.clear()
    assert (await world.ask(deletion(name, f"of-{name}"))).allowed
    return [re.sub(r" .*/(pods|podprotectors)/.*", r" \1", call) for call in world.api.calls]


def test_a_pod_that_only_counts_is_recorded_as_it_goes() -> None:
    """The protector's aggregationSelector is wider than its selector; one that it doesn't count needs nobody's word."""

    async def test(world: World) -> None:
        wider = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "canary"]}]}
        canary = pod("c", labels={"app": "canary"})
        await world.begin(protector(3, cells={"a": counted(4)}, aggregationSelector=wider), canary, pod("x"))
        told = pod("c", namespace="shop", labels={"app": "canary"})
        assert (await world.ask(deletion("c", "1", oldObject=told))).allowed
        assert uids(world.api, "a") == ["uid-c"]
        assert (await world.ask(deletion("x", "2"))).code == 409

    run(test)


def test_a_pod_is_not_young_for_ever_where_nobody_counts() -> None:
    """The aggregator was killed after it has named it: the webhook has seen that for minReadySeconds, by no clock but
    its own, and then lets it go no longer as if it weren't available; with less time it does.
    """

    async def test(world: World) -> None:
        cell = counted(0)
        cell["aggregation"]["recentlyReadyUIDs"] = ["uid-x", "uid-y"]
        await world.begin(protector(2, cells={"a": cell}, minReadySeconds=60), pod("x"), pod("y"))
        world.seconds = 59.0
        assert (await world.ask(deletion("x", "1"))).allowed
        world.seconds = 60.0
        refused = await world.ask(deletion("y", "2"))
        assert (refused.code, "too few available" in refused.message) == (429, True)

    run(test)


def counted_at(available: int, second: int) -> dict[str, Any]:
    """A cell that guard's aggregator has counted, up to this second."""
    made = counted(available)
    made["aggregation"]["selectorHash"] = Selector.of({"matchLabels": LABELS}).digest
    made["aggregation"]["lastEventTime"] = f"1970-01-01T00:00:{second:02d}.000000Z"
    return made


def test_pods_of_a_cell_that_is_not_counted_any_more_let_no_other_go() -> None:
    """Its cluster is gone, or its aggregator: after five minutes by the webhook's own clock its pods don't count, until
    they are counted again. What the protector's own cell has counted goes on to count, however long that is ago.
    """

    async def test(world: World) -> None:
        cells = {"a": counted_at(3, 1), "b": counted_at(4, 1)}
        await world.begin(protector(5, cells=cells), *map(pod, "xyz"))
        world.seconds = 299.0
        await see(world.cache)
        assert (await world.ask(deletion("x", "1"))).allowed
        await see(world.cache)  # that was written, and is no count
        world.seconds = 300.0
        refused = await world.ask(deletion("y", "2"))
        assert refused.code == 429
        assert refused.message.endswith(
            ": the pods of the cell b don't count, because no aggregator has counted them for five minutes"
        )
        put(world.api, protector(5, cells={**cells, "b": counted_at(4, 2)}))
        assert (await world.ask(deletion("y", "3"))).allowed, "read before the watch has brought it"
        await see(world.cache)
        assert (await world.ask(deletion("z", "4"))).allowed

    run(test)


@pytest.mark.parametrize(("later", "allowed"), [(3600.0, False), (600.0, False), (599.0, True), (-300.0, True)])
def test_a_restart_brings_no_cell_back(later: float, allowed: bool) -> None:
    """The cell has been gone for an hour: a replica that starts now doesn't count its pods for another five minutes.
    Where the times may as well be clocks that are five minutes apart, it does; and a cell that is counted again counts,
    whatever its clock is.
    """

    async def test(world: World) -> None:
        cells = {"a": counted_at(3, 1), "b": counted_at(4, 1)}
        world.date = 1.0 + later
        await world.begin(protector(5, cells=cells), pod("x"))
        assert (await world.ask(deletion("x", "1", dryRun=True))).allowed is allowed
        put(world.api, protector(5, cells={**cells, "b": counted_at(4, 2)}))
        await see(world.cache)
        assert (await world.ask(deletion("x", "2"))).allowed

    run(test)


def test_deletions_in_a_cell_that_is_not_counted_any_more_refuse_no_other() -> None:
    """It went away amid a drain, and no aggregator is left to strike them off: they are subtracted from its own pods,
    which don't count, and from none of another cell, and take none of the places of `maxConcurrentLag`.
    """

    async def test(world: World) -> None:
        gone = counted_at(4, 1)
        gone["admissionHistory"] = {"buckets": [bucket(f"uid-b{number}") for number in range(3)]}
        cells = {"a": counted_at(7, 1), "b": gone}
        await world.begin(
            protector(5, cells=cells, admissionHistoryConfig={"maxConcurrentLag": 3}), *map(pod, ("x", "y", "z"))
        )
        assert (await world.ask(deletion("x", "1"))).code == 409
        world.seconds = 300.0
        await see(world.cache)
        assert [(await world.ask(deletion(name, name))).allowed for name in "xyz"] == [True, True, False]
        assert len(uids(world.api, "b")) == 3, "what is recorded stays"

    run(test)


@pytest.mark.parametrize("cells", [{"a": counted_at(7, 1)}, {"a": counted_at(3, 1), "b": counted(4)}])
def test_silence_that_tells_nothing_refuses_nothing(cells: dict[str, Any]) -> None:
    """Of the only cell, whose pods are the ones that are asked about; and of Podseidon's aggregator, which writes only
    when a pod changes.
    """

    async def test(world: World) -> None:
        await world.begin(protector(5, cells=cells), pod("x"))
        world.seconds = 100.0
        await see(world.cache)
        world.seconds = 9000.0
        await see(world.cache)
        assert (await world.ask(deletion("x"))).allowed

    run(test)


def test_cells_of_a_protector_that_is_gone_are_forgotten() -> None:
    """Created again, its cells aren't silent because of how long ago the former one's were counted."""

    async def test(world: World) -> None:
        made = protector(5, cells={"a": counted_at(3, 1), "b": counted_at(4, 1)})
        await world.begin(made, pod("x"))
        del world.api.objects[POD_PROTECTORS.path("shop", "web")]
        await see(world.cache)
        world.seconds = 400.0
        put(world.api, made)
        await see(world.cache)
        assert (await world.ask(deletion("x"))).allowed

    run(test)


def disruption_budget(allowed: int = 0, **spec: Any) -> dict[str, Any]:
    """A PodDisruptionBudget of pods with LABELS, of which so many may be evicted."""
    status = {"observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 3, "desiredHealthy": 3}
    meta = {"name": "web", "generation": 1}
    return {"metadata": meta, "spec": {"selector": {"matchLabels": LABELS}, **spec}, "status": status}


@pytest.mark.parametrize("times", [1, 20])
def test_an_eviction_that_a_disruption_budget_refuses_keeps_no_place(times: int) -> None:
    """The API server asks webhooks first: a drain that tries again every five seconds would keep the place for as long,
    and a rollout that may delete one pod at a time would wait for it.
    """

    async def test(world: World) -> None:
        await world.begin(protector(2, cells={"a": counted(3)}), pod("x"), pod("y"))
        world.api.put(DISRUPTION_BUDGETS, disruption_budget(), "shop")
        for number in range(times):
            refused = await world.ask(eviction("x", f"drain-{number}"))
        assert refused.code == 429 and "PodDisruptionBudget shop/web allows no eviction" in refused.message
        assert uids(world.api, "a") == []
        assert (await world.ask(deletion("y", "rollout"))).allowed, "deletions aren't its business"
        world.api.put(DISRUPTION_BUDGETS, disruption_budget(1), "shop")
        put(world.api, protector(2, cells={"a": counted(3)}))
        assert (await world.ask(eviction("x", "drain"))).allowed and uids(world.api, "a") == ["uid-x"]

    run(test)


def test_disruption_budgets_that_cannot_be_read_refuse_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """As with rights of another version, or another project: the API server asks them itself. It is logged once."""

    async def test(world: World) -> None:
        await world.begin(protector(1, cells={"a": counted(9)}), pod("x"))
        world.api.put(DISRUPTION_BUDGETS, disruption_budget(), "shop")
        world.api.next_answer("page", *(ApiRefused("cannot list", 403) for _ in range(3)))
        for number in range(3):
            assert (await world.ask(eviction("x", f"{number}"))).allowed
        assert uids(world.api, "a") == ["uid-x"]

    run(test)
    said = [each for each in caplog.records if "PodDisruptionBudgets can't be read" in each.message]
    assert len(said) == 1 and "cannot list" in str(vars(said[0])["reason"])
