"""The webhook /admission/prepare-downscale: whom it tells what, what it writes, and what it never does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.in_cluster.guard.downscale_world import AWAY, LEASE, MARKS, World, pod, request, stateful_set, why
from upgrader.in_cluster.guard.core.group_lease import (
    LAST,
    OPEN_SECONDS,
    VALID_SECONDS,
    GroupLease,
    Lock,
    Open,
    manifest,
)
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict
from upgrader.in_cluster.guard.roles.downscale_history import CONFIG_MAPS
from upgrader.in_cluster.guard.roles.run_lease import LEASES
from upgrader.in_cluster.guard.roles.workload_cache import PODS, STATEFUL_SETS

TOLD, UNDONE = ["POST ip-a-1", "POST ip-a-2"], ["DELETE ip-a-1", "DELETE ip-a-2"]


def run(test: Callable[[World], Awaitable[None]]) -> None:
    """In a loop of its own."""

    async def whole() -> None:
        await test(World())

    asyncio.run(whole())


@pytest.mark.parametrize("subresource", ["", "scale"])
def test_pods_that_go_are_told_and_it_is_noted_before_the_answer(subresource: str) -> None:
    """The lock is given back, and the downscale stands on the Lease; the object under review is never written."""

    async def test(world: World) -> None:
        answer = await world.webhook()(request(subResource=subresource))
        assert answer.allowed and sorted(world.calls.sent) == TOLD
        lease = world.lease()
        assert lease.lock is None and lease.sets["a"].unseen == Open(1000.0, 3, 1, 1)
        assert {call.split()[1] for call in world.writes()} == {LEASE}

    run(test)


def test_a_dry_run_calls_nobody_and_writes_nothing() -> None:
    """Whatever it answers; so does a guard that denies nothing."""

    async def test(world: World) -> None:
        assert (await world.webhook()(request(dryRun=True))).allowed
        assert (await world.webhook(dry_run=True)(request())).allowed
        world.put(stateful_set("b", generation=2) | {"status": {}})
        assert "b has 3 outdated pods" in why(await world.webhook()(request(dryRun=True)))
        assert world.calls.sent == [] and world.writes() == []

    run(test)


@pytest.mark.parametrize("answer", [(500, b"", ""), (302, b"", ""), (0, b"", "connection refused")])
def test_one_that_does_not_answer_2xx_refuses_and_all_are_told_that_they_stay(answer: tuple[int, bytes, str]) -> None:
    """It is named. The group is free again, and nothing was downscaled."""

    async def test(world: World) -> None:
        world.calls.answers["ip-a-2"] = answer
        said = why(await world.webhook()(request()))
        assert said.startswith("a-2 could not be prepared for shutdown: ")
        assert sorted(world.calls.sent[:2]) == TOLD and sorted(world.calls.sent[2:]) == UNDONE
        assert world.lease() == GroupLease()

    run(test)


@pytest.mark.parametrize("subresource", ["", "scale"])
@pytest.mark.parametrize("on", [True, False])
def test_pods_are_not_prepared_for_a_downscale_that_guard_denies_by_a_label(on: bool, subresource: str) -> None:
    """The other webhook denies it, if it is on: an autoscaler that tries again every few seconds would have pods
    prepared for a shutdown that never comes, and the group locked.
    """

    async def test(world: World) -> None:
        labels = {"grafana.com/no-downscale": "true"}
        world.put(stateful_set("a", labels=labels))
        asked = request(subResource=subresource)
        if not subresource:
            assert asked.old_object is not None
            asked.old_object["metadata"]["labels"] = labels
        answer = await world.webhook(by_label=on)(asked)
        assert answer.allowed is not on and bool(world.calls.sent) is not on and bool(world.writes()) is not on
        assert not on or "it has the label 'grafana.com/no-downscale=true'" in answer.message

    run(test)


def test_of_two_zones_at_once_one_is_allowed() -> None:
    """Two processes: while one asks its pods the other is refused, also after the answer, until it is seen."""

    async def test(world: World) -> None:
        async def other_zone() -> None:
            world.calls.before = None
            assert (
                why(await world.webhook()(request("b"))) == "its group is locked: a downscale of a from 3 to 1 replicas"
            )

        world.calls.before = other_zone
        assert (await world.webhook()(request("a"))).allowed
        assert "the downscale of a from 3 to 1 replicas, not seen yet" in why(await world.webhook()(request("b")))
        world.put(stateful_set("a", 1, generation=2))
        assert why(await world.webhook()(request("b"))) == "a has 2 pods that are still being removed"
        world.shrink("a", 1)
        assert (await world.webhook()(request("b"))).allowed

    run(test)


def test_the_same_zone_may_go_on() -> None:
    """An autoscaler that asks again after a conflict isn't refused for its own sake."""

    async def test(world: World) -> None:
        for _ in range(2):
            assert (await world.webhook()(request("a"))).allowed

    run(test)


def test_the_minimum_time_counts_by_the_lease() -> None:
    """From when the other zone was allowed, whether or not that is annotated by now (#303)."""

    async def test(world: World) -> None:
        minimum = {"grafana.com/min-time-between-zones-downscale": "1h"}
        world.put(stateful_set("b", labels=minimum))
        assert (await world.webhook()(request("a"))).allowed
        world.shrink("a", 1)
        for passed, allowed in ((3599, False), (1, True)):
            world.time += passed
            answer = await world.webhook()(request("b"))
            assert answer.allowed is allowed
            if not allowed:
                assert why(answer) == "a was downscaled at 1970-01-01T00:16:40Z, less than 3600 s ago"

    run(test)


@pytest.mark.parametrize("by", ["annotation", "zone tracker"])
def test_a_downscale_that_rollout_operator_has_noted_counts(by: str) -> None:
    """An hour ago, before guard came: no Lease knows it, and another zone waits for the rest of 12 hours."""

    async def test(world: World) -> None:
        minimum = {"grafana.com/min-time-between-zones-downscale": "12h"}
        a, b, at = stateful_set("a", labels=minimum), stateful_set("b", labels=minimum), "1970-01-01T00:00:00Z"
        if by == "annotation":
            a["metadata"]["annotations"][LAST] = at
        else:
            world.tracker = "rollout-operator-zone-tracker"
            data = {"a": f'{{"lastDownscaled":"{at}"}}', "gone": f'{{"lastDownscaled":"{at}"}}'}
            world.api.put(CONFIG_MAPS, {"metadata": {"name": world.tracker}, "data": data}, "shop")
        world.put(a, b)
        world.time = 3600.0
        assert why(await world.webhook()(request("b"))) == f"a was downscaled at {at}, less than 43200 s ago"
        assert world.writes() == [] and world.calls.sent == []
        world.time = 43200.0
        assert (await world.webhook()(request("b"))).allowed

    run(test)


def test_what_is_noted_last_counts() -> None:
    """An annotation that is older than the Lease says allows nothing."""

    async def test(world: World) -> None:
        minimum = {"grafana.com/min-time-between-zones-downscale": "1h"}
        assert (await world.webhook()(request("a"))).allowed
        world.shrink("a", 1)
        a = stateful_set("a", 1, generation=2, labels=minimum)
        a["metadata"]["annotations"][LAST] = "1970-01-01T00:00:00Z"
        world.put(a)
        world.time = 4000.0
        assert (
            why(await world.webhook()(request("b"))) == "a was downscaled at 1970-01-01T00:16:40Z, less than 3600 s ago"
        )

    run(test)


@pytest.mark.parametrize("text", ["soon", "{}", '{"lastDownscaled": 7}', '{"lastDownscaled": "soon"}', "[" * 9999])
def test_what_does_not_say_when_a_zone_was_downscaled_refuses(text: str) -> None:
    """Unknown isn't long ago; both say what to correct."""

    async def test(world: World) -> None:
        world.tracker = "tracker"
        world.api.put(CONFIG_MAPS, {"metadata": {"name": "tracker"}, "data": {"a": text}}, "shop")
        what = "the ConfigMap shop/tracker doesn't say when a was last downscaled: fix or remove its key"
        assert why(await world.webhook()(request("b"))) == f"its group is locked: {what}"
        world.tracker, a = "", stateful_set("a")
        a["metadata"]["annotations"][LAST] = text
        world.put(a)
        refusal = why(await world.webhook()(request("b")))
        assert refusal.startswith(f"its group is locked: {LAST} of a is '{text[:64]}', not a time")
        assert refusal.endswith("fix or remove it")

    run(test)


def test_who_was_killed_while_pods_were_told_locks_the_group_for_a_while() -> None:
    """Another process that has seen the lock unchanged for that long takes it, and whom to tell isn't forgotten."""

    async def test(world: World) -> None:
        class Killed(BaseException):
            pass

        async def killed() -> None:
            raise Killed

        one, other = world.webhook(), world.webhook()
        one._undone = one._stay = lambda *_: asyncio.sleep(0)  # type: ignore[method-assign, assignment]
        world.calls.before = killed
        with pytest.raises(Killed):
            await one(request("a"))
        world.calls.before = None
        assert "locked" in why(await other(request("b")))
        world.time += VALID_SECONDS
        assert (await other(request("b"))).allowed
        assert [each.set for each in world.lease().stay] == ["a"]

    run(test)


def test_who_is_slow_allows_nothing_once_others_may_have_acted() -> None:
    """The lock was taken over meanwhile: refused, and the pods stay."""

    async def test(world: World) -> None:
        async def taken_over() -> None:
            world.calls.before = None
            item = manifest("ops", ("shop", "db"), None, GroupLease(Lock("other", "a rollout")), 0.0)
            world.api.put(LEASES, item, "ops")

        world.calls.before = taken_over
        assert "lock has expired" in why(await world.webhook()(request("a")))
        assert sorted(world.calls.sent[2:]) == UNDONE
        assert world.lease().lock == Lock("other", "a rollout", renewed="1970-01-01T00:00:00.000000Z")

    run(test)


@pytest.mark.parametrize("error", [AWAY, ApiRefused("leases is forbidden", 403)])
def test_what_could_not_be_noted_is_not_allowed(error: Exception) -> None:
    """HTTP 500, so that failurePolicy decides; the pods are told that they stay."""

    async def test(world: World) -> None:
        async def away() -> None:
            world.calls.before = None
            world.api.next_answer("replace", error)

        world.calls.before = away
        with pytest.raises(type(error)):
            await world.webhook()(request("a"))
        assert sorted(world.calls.sent[2:]) == UNDONE
        assert world.lease() == GroupLease()

    run(test)


def test_a_request_that_is_given_up_leaves_nobody_prepared() -> None:
    """Its time is over while a pod hasn't answered: that goes on in the background."""

    async def test(world: World) -> None:
        webhook, asked = world.webhook(), asyncio.Event()

        async def never() -> None:
            asked.set()
            world.calls.before = None
            await asyncio.Event().wait()

        world.calls.before = never
        task = asyncio.ensure_future(webhook(request("a")))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert sorted(world.calls.sent[2:]) == UNDONE and world.lease() == GroupLease()

    run(test)


def test_a_conflict_before_the_lock_is_tried_again() -> None:
    """The leader may have written the Lease in that moment."""

    async def test(world: World) -> None:
        world.api.next_answer("create", Conflict("exists", 409))
        assert (await world.webhook()(request("a"))).allowed

    run(test)


def test_a_rollout_and_a_run_keep_it() -> None:
    """By the group's lock; by the run's Lease, also where it begins while the pods are told."""

    async def test(world: World) -> None:
        rolling = manifest("ops", ("shop", "db"), None, GroupLease(Lock("guard-rollout", "a rollout")), 0.0)
        world.api.put(LEASES, rolling, "ops")
        assert why(await world.webhook()(request("a"))) == "its group is locked: a rollout"
        del world.api.objects[LEASE]

        async def begins() -> None:
            world.calls.before = None
            spec = {"holderIdentity": "anna", "renewTime": "t", "leaseDurationSeconds": 60}
            notes = {"upgrader.io/run": "run-7"}
            world.api.put(LEASES, {"metadata": {"name": "upgrader", "annotations": notes}, "spec": spec}, "kube-system")

        world.calls.before = begins
        says = "while the upgrade run-7 holds the group db"
        assert why(await world.webhook(held=True)(request("a"))) == says
        assert sorted(world.calls.sent[2:]) == UNDONE
        world.calls.sent.clear()
        assert why(await world.webhook(held=True)(request("a"))) == says
        assert world.calls.sent == [] and world.lease() == GroupLease()

    run(test)


def test_a_scale_up_that_is_taken_back_needs_no_preparation() -> None:
    """The pods that never ran aren't told; those that ran once, and don't now, refuse."""

    async def test(world: World) -> None:
        notes = GroupLease(None, {})
        world.put(stateful_set("a", 5), pod("a", 3, phase="Pending"))
        refused = why(await world.webhook()(request("a", 5, 2)))
        assert refused == "a-3 isn't running, so it can't be prepared for shutdown"
        noted = {"uid": "uid-a", "everRan": 3}
        item = manifest("ops", ("shop", "db"), None, notes, 0.0)
        item["metadata"]["annotations"]["guard.upgrader.io/sets"] = f'{{"a": {str(noted).replace(chr(39), chr(34))}}}'
        world.api.put(LEASES, item, "ops")
        assert (await world.webhook()(request("a", 5, 2))).allowed
        assert world.calls.sent == ["POST ip-a-2"]

    run(test)


def test_a_set_in_no_group_is_only_prepared() -> None:
    """No Lease is written; one pod that fails refuses, and all are told."""

    async def test(world: World) -> None:
        alone = stateful_set("a")
        del alone["metadata"]["labels"]["rollout-group"]
        world.put(alone)
        assert (await world.webhook()(request("a"))).allowed and sorted(world.calls.sent) == TOLD
        world.calls.answers["ip-a-1"] = (503, b"", "")
        assert "HTTP 503" in why(await world.webhook()(request("a")))
        assert sorted(world.calls.sent[4:]) == UNDONE and world.writes() == []

    run(test)


def test_what_is_not_prepared_is_let_through() -> None:
    """Without the label, other kinds, and what is gone; nobody is told."""

    async def test(world: World) -> None:
        plain = stateful_set("a")
        del plain["metadata"]["labels"]["grafana.com/prepare-downscale"]
        world.put(plain)
        assert (await world.webhook()(request("a"))).allowed
        group = {"group": "apps", "version": "v1", "resource": "deployments"}
        assert (await world.webhook()(request("a", resource=group))).warnings
        assert (await world.webhook()(request("c"))).warnings
        assert (await world.webhook()(request("b", 1, 3))).allowed
        assert (await world.webhook()(request("b", operation="DELETE"))).allowed
        assert world.calls.sent == []

    run(test)


@pytest.mark.parametrize("missing", [*MARKS, "serviceName"])
def test_what_is_missing_is_named(missing: str) -> None:
    """Before anything is locked, and nobody is told."""

    async def test(world: World) -> None:
        found = stateful_set("a")
        found["metadata"]["annotations"].pop(missing, None)
        found["spec"].pop(missing, None)
        world.put(found)
        assert f"{missing} is not set or empty" in why(await world.webhook()(request("a")))
        assert world.calls.sent == [] and world.writes() == []

    run(test)


@pytest.mark.parametrize("at", range(5))
def test_what_cannot_be_read_is_an_error(at: int) -> None:
    """Whichever it is: the set, its group's Lease, the others."""

    async def test(world: World) -> None:
        world.api.next_answer("get", *([None] * at), AWAY) if at < 2 else None
        world.api.next_answer("page", *([None] * (at - 2)), AWAY) if at >= 2 else None
        with pytest.raises(ApiAway):
            await world.webhook()(request("a"))
        assert world.calls.sent == [] and world.writes() == []

    run(test)


def test_an_open_downscale_that_never_came_keeps_nobody_for_ever() -> None:
    """By what this process has seen itself, also where nobody leads."""

    async def test(world: World) -> None:
        one, other = world.webhook(), world.webhook()
        assert (await one(request("a"))).allowed
        assert "not seen yet" in why(await other(request("b")))
        world.time += OPEN_SECONDS
        assert (await other(request("b"))).allowed

    run(test)


def test_a_set_that_leaves_its_group_meanwhile_is_an_error() -> None:
    """Nobody knows which group's lock it would need."""

    async def test(world: World) -> None:
        real = world.api.get

        async def leaves(*args: Any, **more: Any) -> Any:
            found = await real(*args, **more)
            if args[0] is LEASES:
                world.remove(STATEFUL_SETS, "a")
            return found

        world.api.get = leaves  # type: ignore[method-assign]
        with pytest.raises(ApiAway, match="has left the group db"):
            await world.webhook()(request("a"))
        assert PODS.path("shop", "a-0") in world.api.objects

    run(test)
