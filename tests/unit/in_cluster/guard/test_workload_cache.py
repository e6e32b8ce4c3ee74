"""The cache of groups: what it knows of sets and pods, and how little of them it keeps."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from testkit.memory import TracedMemory
from tests.unit.in_cluster.guard.fake_api import FakeApi
from tests.unit.in_cluster.guard.test_rollouts import pod, stateful_set
from upgrader.in_cluster.guard.core.rollout import MAX_UNAVAILABLE
from upgrader.in_cluster.guard.roles.workload_cache import PODS, STATEFUL_SETS, Group, WorkloadCache

_MANY = 200


def listed(api: FakeApi, cache: WorkloadCache) -> None:
    """The cache knows what there is now."""

    async def whole() -> None:
        for informer in cache.informers:
            await informer._list()

    asyncio.run(whole())


def known(cache: WorkloadCache, group: Group) -> tuple[list[str], list[str]]:
    """The names of a group's sets and pods."""
    sets, pods = cache.of(group)
    return sorted(each.name for each in sets), sorted(each.name for each in pods)


def test_a_set_is_in_the_group_that_its_label_names() -> None:
    """One that moves to another group takes its pods along; a new one of the same name has none of the old one's."""
    api, told = FakeApi(), list[Group]()
    cache = WorkloadCache(api, "shop", told.append)
    api.put(STATEFUL_SETS, stateful_set("a"), "shop")
    api.put(STATEFUL_SETS, stateful_set("b"), "shop")
    api.put(PODS, pod("a"), "shop")
    listed(api, cache)
    assert known(cache, ("shop", "db")) == (["a", "b"], ["a-0"])
    moved = stateful_set("a")
    moved["metadata"]["labels"] = {"rollout-group": "web"}
    api.put(STATEFUL_SETS, moved, "shop")
    told.clear()
    listed(api, cache)
    assert known(cache, ("shop", "db")) == (["b"], []) and known(cache, ("shop", "web")) == (["a"], ["a-0"])
    assert set(told) == cache.groups() == {("shop", "db"), ("shop", "web")}
    again = stateful_set("a")
    again["metadata"]["uid"] = "another"
    api.put(STATEFUL_SETS, again, "shop")
    listed(api, cache)
    assert known(cache, ("shop", "db")) == (["a", "b"], []) and cache.groups() == {("shop", "db")}


def test_of_a_large_pod_little_is_kept() -> None:
    """Less than a KiB, so that 20,000 fit into what a guard may have beside the rest; and all that decisions need."""
    api = FakeApi()
    cache = WorkloadCache(api, "shop", lambda group: None)
    api.put(STATEFUL_SETS, stateful_set("a"), "shop")
    for number in range(_MANY):
        found = pod("a")
        meta = found["metadata"]
        meta |= {"name": f"a-{number}", "uid": f"uid-{number}", "annotations": {"note": "x" * 2000}}
        meta["managedFields"] = [{"manager": "kubelet", "fieldsV1": {f"f:{each}": {} for each in range(50)}}]
        found["spec"]["containers"] = [{"name": "x", "env": [{"name": f"E{each}"} for each in range(50)]}]
        found["status"]["podIP"] = "10.0.0.1"
        api.put(PODS, json.loads(json.dumps(found)), "shop")
    # As an API server answers: with texts of its own for each object.
    page = api.page

    async def copied(*asked: Any, keep: Any, **more: Any) -> Any:
        return await page(*asked, keep=lambda item: keep(json.loads(json.dumps(item))), **more)

    api.page = copied  # type: ignore[method-assign]
    with TracedMemory() as memory:
        listed(api, cache)
        kept = memory.kept
    _, pods = cache.of(("shop", "db"))
    assert (len(pods), kept / _MANY < 1024) == (_MANY, True)
    assert all((each.ready, each.revision, each.node, each.ip) == (True, "v1", "n", "10.0.0.1") for each in pods)


def test_of_a_set_the_annotations_are_kept_but_for_its_own_copy() -> None:
    """Those that say how it is rolled; not what `kubectl apply` remembers."""
    api = FakeApi()
    cache = WorkloadCache(api, "shop", lambda group: None)
    found = stateful_set("a")
    found["metadata"]["annotations"] = {
        MAX_UNAVAILABLE: "2",
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps(stateful_set("a")),
    }
    api.put(STATEFUL_SETS, found, "shop")
    listed(api, cache)
    (kept,), _ = cache.of(("shop", "db"))
    assert dict(kept.annotations) == {MAX_UNAVAILABLE: "2"}
