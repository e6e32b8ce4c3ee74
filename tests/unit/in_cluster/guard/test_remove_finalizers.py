"""Before guard is uninstalled: nothing keeps a finalizer that nobody would take off."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.in_cluster.guard.fake_api import FakeApi
from upgrader.in_cluster.guard.core.generator import FINALIZER
from upgrader.in_cluster.guard.guard_errors import ApiAway, Conflict
from upgrader.in_cluster.guard.roles.generator import DEPLOYMENTS
from upgrader.in_cluster.guard.roles.protector_cache import POD_PROTECTORS
from upgrader.in_cluster.guard.roles.remove_finalizers import FinalizerRemoval
from upgrader.in_cluster.guard.runtime.leadership import Leadership
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

LEASES = Resource("coordination.k8s.io/v1", "leases")
LEASE = LEASES.path("ops", "guard-generator")


class World:
    """An API server, and seconds that pass only while the release waits."""

    def __init__(self) -> None:
        self.api, self.seconds = FakeApi(), 0.0
        lease = {"metadata": {"name": "guard-generator"}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
        self.api.put(LEASES, lease, "ops")
        self.leader: list[Object] = []
        """What the generator that led before writes in its last second."""

    def put(self, resource: Resource, name: str, *finalizers: str, **meta: Any) -> None:
        """An object in the namespace shop."""
        self.api.put(resource, {"metadata": {"name": name, "finalizers": list(finalizers), **meta}}, "shop")

    def run(self, *namespaces: str) -> int:
        """Release; how many had the finalizer."""

        async def sleep(seconds: float) -> None:
            self.seconds += seconds
            while self.leader:
                self.api.put(DEPLOYMENTS, self.leader.pop(), "shop")

        def clock() -> float:
            return self.seconds

        lead = Leadership(self.api, "ops", "guard-generator", "release", clock=clock, sleep=sleep)
        return asyncio.run(FinalizerRemoval(self.api, namespaces, lead, clock=clock, sleep=sleep).run())

    def finalizers(self, name: str) -> Any:
        """Those of a Deployment."""
        return self.api.objects[DEPLOYMENTS.path("shop", name)]["metadata"]["finalizers"]


def test_everything_is_released() -> None:
    """Deployments keep others' finalizers, and what people made stays as it is."""
    world = World()
    world.put(DEPLOYMENTS, "web", "theirs", FINALIZER)
    world.put(DEPLOYMENTS, "other", "theirs")
    world.put(POD_PROTECTORS, "deployment-web", FINALIZER)
    world.put(POD_PROTECTORS, "deployment-gone", FINALIZER)
    world.put(POD_PROTECTORS, "by-hand")
    assert world.run() == 3
    assert (world.finalizers("web"), world.finalizers("other")) == (["theirs"], ["theirs"])
    left = {path.rpartition("/")[2] for path in world.api.objects if "podprotectors" in path}
    assert left == {"by-hand"}


def test_the_generator_can_not_add_it_again() -> None:
    """Its Lease is taken from it at once, and what it writes until it stops is released as well."""
    world = World()
    world.leader = [{"metadata": {"name": "web", "finalizers": [FINALIZER]}}]
    assert world.run() == 1
    assert world.finalizers("web") == []
    assert world.seconds > 12.0
    assert world.api.objects[LEASE]["spec"]["holderIdentity"] == "release"


def test_without_a_lease_there_is_no_generator() -> None:
    """It has never run: nothing to take."""
    world = World()
    del world.api.objects[LEASE]
    assert world.run("shop", "games") == 0
    assert LEASE not in world.api.objects


@pytest.mark.parametrize("verb", ["patch", "replace"])
def test_what_changed_meanwhile_is_tried_again(verb: str) -> None:
    """Also the Lease, which its leader renews."""
    world = World()
    world.put(DEPLOYMENTS, "web", FINALIZER)
    world.put(POD_PROTECTORS, "deployment-web", FINALIZER)
    world.api.next_answer(verb, Conflict("it has been modified", 409))
    assert world.run() == 2
    assert world.finalizers("web") == []


def test_api_that_is_away_fails_it() -> None:
    """The Job is tried again; nothing is uninstalled meanwhile."""
    world = World()
    world.put(DEPLOYMENTS, "web", FINALIZER)
    world.api.next_answer("patch", ApiAway("no route to host"))
    with pytest.raises(ApiAway):
        world.run()
