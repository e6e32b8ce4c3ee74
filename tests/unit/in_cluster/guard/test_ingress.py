"""IngressDaemonSets as the role keeps them: what is asked of the API, in which order, and what a kill leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.unit.in_cluster.guard.core.test_ingress import DETACH, NO_PODS, item
from tests.unit.in_cluster.guard.fake_api import FakeApi
from tests.unit.in_cluster.guard.test_rollouts import Sure, at_once, lead
from upgrader.contract.detach import ATTACHED, DETACHED, DETACHMENT, OWNER
from upgrader.contract.times import timestamp
from upgrader.in_cluster.guard.core.ingress import DUE
from upgrader.in_cluster.guard.core.ingress_rollout import DETACH_ASKED
from upgrader.in_cluster.guard.core.run_lease import GROUPS
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict
from upgrader.in_cluster.guard.roles.ingress import IngressDaemonSets
from upgrader.in_cluster.guard.roles.ingress_cluster import DAEMON_SETS, DEPLOYMENTS, INGRESSES, NODES
from upgrader.in_cluster.guard.roles.ingress_health import IngressHealth
from upgrader.in_cluster.guard.roles.rolling_groups import ROLLING, RollingGroups
from upgrader.in_cluster.guard.roles.run_lease import LEASES, RunLease
from upgrader.in_cluster.guard.runtime.ingress_metrics import IngressMetrics
from upgrader.in_cluster.guard.runtime.metrics import Metrics

KEY = ("ns", "nginx")


class World:
    """Nodes with the label, an IngressDaemonSet, and a role that leads; Deployments' controller is the test."""

    def __init__(self, *nodes: str, rolling: dict[str, Any] | None = None, holds: bool = False) -> None:
        self.api, self.now, self._holds = FakeApi(), 1000.0, holds
        self.leadership = Sure(self.api, "ops", "guard", "me")
        self.metrics = Metrics()
        self.start()
        self.ingress(rolling if rolling is not None else {**DETACH, "maxUnavailableNodes": 1})
        for name in nodes:
            self.api.put(NODES, {"metadata": {"name": name, "labels": {"ingress": "true"}}, "spec": {}})

    def start(self) -> None:
        """A process that knows nothing."""
        self.metrics = Metrics()
        counted = IngressMetrics(self.metrics)
        self.run_lease = RunLease(self.api)
        holds = (
            (self.run_lease, RollingGroups(self.api, "ops", "guard-ingress", sleep=at_once)) if self._holds else None
        )
        self.role = IngressDaemonSets(
            self.api, ["ns"], self.leadership, counted, 5, image="own:1", holds=holds, now=lambda: self.now
        )

    def ingress(self, rolling: dict[str, Any], image: str = "nginx:1") -> None:
        """As the user has it."""
        made = item(rolling, pod={"containers": [{"name": "nginx", "image": image}]})
        made["metadata"] |= {"uid": "uid-nginx", "generation": 1}
        made["status"] = self.status()
        self.api.put(INGRESSES, made, "ns")

    async def look(self, times: int = 1) -> None:
        """At it, with caches that know what there is."""
        for _ in range(times):
            for informer in self.role.informers:
                await informer._list()
            await self.role._look_at(KEY)

    def controller(self, ready: int = 2) -> None:
        """The Deployments' has made all pods of the newest template, so many of them ready."""
        for path, found in list(self.api.objects.items()):
            if "/deployments/" in path:
                status = {"observedGeneration": 9, "replicas": 2, "updatedReplicas": 2, "readyReplicas": ready}
                self.api.put(DEPLOYMENTS, {**found, "status": status}, "ns")

    def agent(self, name: str) -> None:
        """Answers what the Node's annotations ask."""
        found, marks = self.node(name), self.marks(name)
        if DETACHMENT in marks:
            marks = {key: text for key, text in marks.items() if key != ATTACHED} | {DETACHED: timestamp(self.now)}
        elif DETACHED in marks:
            marks = {key: text for key, text in marks.items() if key != DETACHED} | {ATTACHED: timestamp(self.now)}
        self.api.put(NODES, {**found, "metadata": {**found["metadata"], "annotations": marks}})

    def node(self, name: str) -> dict[str, Any]:
        """The Node."""
        return self.api.objects[NODES.path("", name)]

    def marks(self, name: str) -> dict[str, str]:
        """Its annotations."""
        return dict(self.node(name)["metadata"].get("annotations") or {})

    def its(self, name: str) -> dict[str, Any]:
        """The node's Deployment."""
        return self.api.objects[DEPLOYMENTS.path("ns", f"nginx-{name}")]

    def image(self, name: str) -> str:
        """Of its pods."""
        return str(self.its(name)["spec"]["template"]["spec"]["containers"][0]["image"])

    def due(self, name: str) -> bool:
        """Whether its health port fails."""
        return DUE in self.its(name)["metadata"]["annotations"]

    def status(self) -> Any:
        """Of the IngressDaemonSet."""
        return self.api.objects.get(INGRESSES.path("ns", "nginx"), {}).get("status") or {}

    def condition(self, kind: str) -> tuple[str, str]:
        """Status and message."""
        (found,) = (each for each in self.status()["conditions"] if each["type"] == kind)
        return found["status"], found["message"]

    def writes(self) -> list[str]:
        """What was asked for, but for what is only read."""
        return [call for call in self.api.calls if call.split()[0] not in ("get", "page", "watch")]


def put_run(world: World, holder: str = "anna", groups: str = "") -> None:
    """The Lease of a run that is alive; `holder` "": of one that has released it."""
    spec = {"holderIdentity": holder, "renewTime": "2026-11-25T12:00:00.000000Z", "leaseDurationSeconds": 60}
    notes = {"upgrader.io/run": "run-7", GROUPS: groups}
    world.api.put(LEASES, {"metadata": {"name": "upgrader", "annotations": notes}, "spec": spec}, "kube-system")


def begun(world: World) -> str:
    """What the leader has noted."""
    notes = world.api.objects[LEASES.path("ops", "guard-ingress")]["metadata"].get("annotations") or {}
    return str(notes.get(ROLLING, ""))


def held(test: Callable[[World], Awaitable[None]], *nodes: str, **more: Any) -> None:
    """In a world where runs hold IngressDaemonSets, and one is alive; a new image is there."""

    async def whole() -> None:
        world = World(*nodes, holds=True, **more)
        world.api.put(LEASES, {"metadata": {"name": "guard-ingress"}, "spec": {}}, "ops")
        await world.look()
        world.controller()
        await world.look()
        put_run(world)
        world.ingress({**DETACH, "maxUnavailableNodes": 1}, "nginx:2")
        await test(world)

    asyncio.run(whole())


def run(test: Callable[[World], Awaitable[None]], *nodes: str, **more: Any) -> None:
    """In a loop of its own, with all pods ready at first."""

    async def whole() -> None:
        world = World(*nodes, **more)
        await world.look()
        world.controller()
        await world.look()
        await test(world)

    asyncio.run(whole())


def test_each_node_gets_a_deployment_and_each_port_a_checker() -> None:
    """All of it is the IngressDaemonSet's own, so that it goes with it; then there is nothing to be done."""

    async def test(world: World) -> None:
        for made in (world.its("n1"), world.api.objects[DAEMON_SETS.path("ns", "nginx-10080")]):
            (owner,) = made["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == (
                "IngressDaemonSet",
                "nginx",
                "uid-nginx",
                True,
            )
        assert [world.status()[f"{state}Nodes"] for state in ("desired", "updated", "ready", "updating")] == [
            2,
            2,
            2,
            0,
        ]
        assert world.condition("Updated") == ("True", "") and world.condition("PortsLeftOut")[0] == "False"
        world.api.calls.clear()
        await world.look(2)
        assert world.writes() == []
        labels = 'name="nginx",namespace="ns",state="ready"'
        assert f"guard_ingress_nodes{{{labels}}} 2.0" in world.metrics.text()

    run(test, "n1", "n2")


def test_an_update_from_beginning_to_end_by_processes_that_are_killed_after_each_step() -> None:
    """503, annotated, answered, the grace, all pods at once, 200, attached; then the next node. Each step is done by
    a process that knows nothing of the one before.
    """

    async def test(world: World) -> None:
        async def step() -> None:
            world.start()
            await world.look()

        world.ingress({**DETACH, "maxUnavailableNodes": 1}, "nginx:2")
        for name, other in (("n1", "n2"), ("n2", "n1")):
            await step()
            assert world.due(name) and not world.due(other) and DETACHMENT not in world.marks(name)
            await step()
            assert world.marks(name) == {**_old(world, name), DETACHMENT: "true", OWNER: f"ns/nginx {DETACHMENT}"}
            world.now += 100
            await step()
            assert world.image(name) == "nginx:1", "nobody has answered"
            world.agent(name)
            await world.look()
            world.now += 29
            await world.look()
            assert world.image(name) == "nginx:1", "the grace isn't over"
            assert "grace period" in world.condition("Updated")[1]
            world.now += 1
            await world.look()
            assert world.image(name) == "nginx:2"
            world.controller(ready=1)
            await step()
            assert world.due(name) and DETACHMENT in world.marks(name), "one pod isn't ready"
            world.controller()
            await step()
            assert not world.due(name) and DETACHMENT in world.marks(name)
            await step()
            assert DETACHMENT not in world.marks(name) and OWNER not in world.marks(name)
            await step()
            assert DETACH_ASKED in world.its(name)["metadata"]["annotations"], "it isn't attached yet"
            world.agent(name)
            await step()
            assert DETACH_ASKED not in world.its(name)["metadata"]["annotations"]
        await step()
        assert world.condition("Updated")[0] == "True" and world.status()["updatedNodes"] == 2

    run(test, "n1", "n2")


def _old(world: World, name: str) -> dict[str, str]:
    return {key: text for key, text in world.marks(name).items() if key not in (DETACHMENT, OWNER)}


def test_a_new_process_counts_the_grace_anew() -> None:
    """From when it has seen the answer itself: no clock but its own is trusted."""

    async def test(world: World) -> None:
        world.ingress({**DETACH, "maxUnavailableNodes": 1}, "nginx:2")
        await world.look(2)
        world.agent("n1")
        await world.look()
        world.now += 29
        world.start()
        await world.look()
        world.now += 29
        await world.look()
        assert world.image("n1") == "nginx:1"
        world.now += 1
        await world.look()
        assert world.image("n1") == "nginx:2"

    run(test, "n1")


def test_who_may_not_lead_any_more_writes_nothing() -> None:
    """Not even what it has decided while it led."""

    async def test(world: World) -> None:
        world.leadership.is_sure = False
        world.ingress({**DETACH, "maxUnavailableNodes": 1}, "nginx:2")
        world.api.calls.clear()
        await world.look()
        assert world.writes() == []

    run(test, "n1")


def test_an_old_cache_changes_nothing() -> None:
    """What another leader has just done is read from the API before anything is done."""

    async def test(world: World) -> None:
        world.ingress({**DETACH, "maxUnavailableNodes": 1}, "nginx:2")
        for informer in world.role.informers:
            await informer._list()
        found = world.its("n2")
        meta = {**found["metadata"], "annotations": {**found["metadata"]["annotations"], DUE: timestamp(world.now)}}
        world.api.put(DEPLOYMENTS, {**found, "metadata": meta}, "ns")
        await world.role._look_at(KEY)
        assert not world.due("n1"), "n2 has begun meanwhile"

    run(test, "n1", "n2")


def test_a_run_that_is_alive_holds_what_has_not_begun() -> None:
    """The condition names the run; it begins once the run has released its Lease, and is noted before the first node
    is marked, until all are done.
    """

    async def test(world: World) -> None:
        before = len(world.writes())
        await world.look(2)
        assert not world.due("n1") and begun(world) == ""
        assert [call for call in world.writes()[before:] if "/ingressdaemonsets/" not in call] == []
        assert world.condition("Updated") == ("False", "n1: waiting for the upgrade run-7 to end")
        put_run(world, holder="")
        await world.run_lease.look()
        await world.look()
        assert world.due("n1") and begun(world) == "ns/IngressDaemonSet/nginx"
        calls = world.writes()[before:]
        noted, marked = (next(n for n, call in enumerate(calls) if what in call) for what in ("leases", "deployments"))
        assert noted < marked

    held(test, "n1")


def test_the_runs_own_step_updates_it() -> None:
    """The one that the Lease names, by what it says at that moment."""

    async def test(world: World) -> None:
        put_run(world, groups="ns/IngressDaemonSet/other,ns/nginx")
        await world.look()
        assert not world.due("n1")
        put_run(world, groups="ns/nginx,ns/IngressDaemonSet/nginx")
        await world.run_lease.look()
        await world.look()
        assert world.due("n1")

    held(test, "n1")


def test_an_update_in_the_middle_is_not_stopped_half_way() -> None:
    """Nodes go on one by one, by whoever leads; once all are new it no longer counts as begun."""

    async def test(world: World) -> None:
        notes = {"name": "guard-ingress", "annotations": {ROLLING: "ns/IngressDaemonSet/nginx"}}
        world.api.put(LEASES, {"metadata": notes, "spec": {}}, "ops")
        world.start()  # another one leads
        for name in ("n1", "n2"):
            for _ in range(8):
                await world.look()
                if (DETACHMENT in world.marks(name)) != (DETACHED in world.marks(name)):
                    world.agent(name)
                world.controller()
                world.now += 100
            assert world.image(name) == "nginx:2" and DETACHMENT not in world.marks(name)
        await world.look()
        assert world.condition("Updated")[0] == "True" and begun(world) == ""

    held(test, "n1", "n2")


@pytest.mark.parametrize("error", [ApiAway("away"), ApiRefused("leases is forbidden", 403)])
def test_whether_a_run_is_alive_must_be_known(error: Exception) -> None:
    """No node begins as long as its Lease can't be read, which the condition says; a new node gets its pods."""

    async def test(world: World) -> None:
        world.api.put(NODES, {"metadata": {"name": "n2", "labels": {"ingress": "true"}}, "spec": {}})
        world.api.next_answer("get", error)
        await world.look()
        assert not world.due("n1") and world.image("n2") == "nginx:2"
        assert f"the Lease of upgrades, which can't be read: {error}" in world.condition("Updated")[1]

    held(test, "n1")


def test_a_health_checker_that_is_there_is_not_replaced_under_a_hold() -> None:
    """It would answer nobody meanwhile; it is replaced after the run."""

    async def test(world: World) -> None:
        def image() -> str:
            found = world.api.objects[DAEMON_SETS.path("ns", "nginx-10080")]
            return str(found["spec"]["template"]["spec"]["containers"][0]["image"])

        old = image()
        found = world.api.objects[INGRESSES.path("ns", "nginx")]
        found["spec"]["healthChecker"] = {"image": "own:2"}
        world.api.put(INGRESSES, found, "ns")
        await world.look()
        assert image() == old
        put_run(world, holder="")
        await world.run_lease.look()
        await world.look()
        assert image() == "own:2"

    held(test, "n1")


def test_one_that_is_deleted_no_longer_counts_as_begun() -> None:
    """Another one of its name has begun nothing."""

    async def test(world: World) -> None:
        notes = {"name": "guard-ingress", "annotations": {ROLLING: "ns/IngressDaemonSet/nginx"}}
        world.api.put(LEASES, {"metadata": notes, "spec": {}}, "ops")
        world.start()
        del world.api.objects[INGRESSES.path("ns", "nginx")]
        await world.look()
        assert begun(world) == ""

    held(test, "n1")


def test_one_that_was_deleted_while_nobody_led_no_longer_counts_as_begun() -> None:
    """Whoever leads next finds it in the note alone, also where the API doesn't answer at first. What is no
    IngressDaemonSet of these namespaces stays.
    """

    async def test(world: World) -> None:
        rolling = "else/IngressDaemonSet/x,ns/IngressDaemonSet/nginx,shop/db"
        world.api.put(LEASES, {"metadata": {"name": "guard-ingress", "annotations": {ROLLING: rolling}}}, "ops")
        world.start()
        del world.api.objects[INGRESSES.path("ns", "nginx")]
        for informer in world.role.informers:
            await informer._list()
        world.api.next_answer("get", ApiAway("away"))
        await lead(world.role._work, lambda: "nginx" not in begun(world))
        assert begun(world) == "else/IngressDaemonSet/x,shop/db"

    held(test, "n1")


def test_a_node_that_is_refused_keeps_no_other_waiting() -> None:
    """Why stands in the condition, and it is counted."""

    async def test(world: World) -> None:
        for name in ("n2", "n3"):
            world.api.put(NODES, {"metadata": {"name": name, "labels": {"ingress": "true"}}, "spec": {}})
        world.api.next_answer("create", ApiRefused("exceeded quota", 403))
        await world.look()
        assert world.its("n3")["metadata"]["name"] == "nginx-n3"
        assert world.condition("Updated") == ("False", "n2: exceeded quota")
        assert 'result="failed"} 1.0' in world.metrics.text()
        await world.look()
        world.controller()
        await world.look()
        assert world.condition("Updated") == ("True", "")

    run(test, "n1")


def test_somebody_elses_deployment_stays() -> None:
    """One of the same name that isn't the IngressDaemonSet's is named, and not touched."""

    async def test(world: World) -> None:
        theirs = {"metadata": {"name": "nginx-n2"}, "spec": {"replicas": 7}}
        world.api.put(DEPLOYMENTS, theirs, "ns")
        world.api.put(NODES, {"metadata": {"name": "n2", "labels": {"ingress": "true"}}, "spec": {}})
        await world.look()
        assert world.its("n2")["spec"] == {"replicas": 7}
        assert "exists already and has another owner" in world.condition("Updated")[1]

    run(test, "n1")


@pytest.mark.parametrize("error", [Conflict("modified", 409), ApiAway("away")])
def test_what_fails_is_done_the_next_time(error: Exception) -> None:
    """Whoever has written the object meanwhile was first."""

    async def test(world: World) -> None:
        world.ingress({**DETACH, "maxUnavailableNodes": 1}, "nginx:2")
        world.api.next_answer("patch", error)
        await world.look()
        assert not world.due("n1")
        await world.look()
        assert world.due("n1")

    run(test, "n1")


def test_a_node_that_is_no_longer_selected_loses_its_deployment_and_is_put_back() -> None:
    """Also one that has just been detached."""

    async def test(world: World) -> None:
        world.ingress({**DETACH, "maxUnavailableNodes": 1}, "nginx:2")
        await world.look(2)
        assert DETACHMENT in world.marks("n1")
        found = world.node("n1")
        world.api.put(NODES, {**found, "metadata": {**found["metadata"], "labels": {}}})
        await world.look()
        assert DEPLOYMENTS.path("ns", "nginx-n1") not in world.api.objects and world.marks("n1") == {}

    run(test, "n1")


def test_a_node_that_has_gone_loses_its_deployment() -> None:
    """There is nothing to put back."""

    async def test(world: World) -> None:
        del world.api.objects[NODES.path("", "n1")]
        await world.look()
        assert DEPLOYMENTS.path("ns", "nginx-n1") not in world.api.objects
        assert world.status()["desiredNodes"] == 0

    run(test, "n1")


def test_nodes_that_a_deleted_one_has_detached_are_put_back() -> None:
    """By whoever leads then, which finds them by what stands on them; others' stay."""

    async def test(world: World) -> None:
        world.ingress({**DETACH, "maxUnavailableNodes": 1}, "nginx:2")
        await world.look(2)
        theirs = {"name": "n9", "annotations": {DETACHMENT: "true", OWNER: f"ns/other {DETACHMENT}"}}
        world.api.put(NODES, {"metadata": theirs, "spec": {}})
        del world.api.objects[INGRESSES.path("ns", "nginx")]
        world.start()
        await world.look()
        assert world.marks("n1") == {} and DETACHMENT in world.marks("n9")

    run(test, "n1")


def test_a_contradiction_changes_nothing() -> None:
    """Stored before the definition refused it: its condition says what contradicts what."""

    async def test(world: World) -> None:
        world.ingress({"maxUnavailableNodes": 1, "maxDegradedNodes": 1}, "nginx:2")
        await world.look()
        assert not world.due("n1") and world.image("n1") == "nginx:1"
        assert world.condition("Valid") == (
            "False",
            "only one of maxUnavailableNodes and maxDegradedNodes may be 1 or more",
        )
        assert world.status()["desiredNodes"] == 1

    run(test, "n1")


def test_a_foreign_annotation_is_written_on_no_node() -> None:
    """Rights in a namespace give none on Nodes: its condition says which key guard may not write."""

    async def test(world: World) -> None:
        asks = {"annotateNodeToDetach": {"key": "flannel.alpha.coreos.com/public-ip", "value": "10.0.0.9"}}
        world.ingress({**asks, "maxUnavailableNodes": 1}, "nginx:2")
        before = world.writes()
        await world.look(3)
        assert world.marks("n1") == {} and world.image("n1") == "nginx:1"
        status, why = world.condition("Valid")
        assert status == "False" and "flannel.alpha.coreos.com/public-ip" in why
        assert [call for call in world.writes()[len(before) :] if "/ingressdaemonsets/" not in call] == []

    run(test, "n1")


def test_a_port_that_goes_loses_its_checker() -> None:
    """And a new one gets one."""

    async def test(world: World) -> None:
        found = world.api.objects[INGRESSES.path("ns", "nginx")]
        spec = {**found["spec"], "healthCheckNodePorts": [10081]}
        world.api.put(INGRESSES, {**found, "spec": spec}, "ns")
        await world.look()
        checkers = [path.rpartition("/")[2] for path in world.api.objects if "/daemonsets/" in path]
        assert checkers == ["nginx-10081"]

    run(test, "n1")


def test_the_health_port_says_why_a_node_is_to_get_no_traffic() -> None:
    """503 before anything is known, without a Deployment, with an update due, with a pod that isn't ready."""

    async def test(world: World) -> None:
        health = IngressHealth(world.api, "ns", "nginx", "n1", DUE)
        assert "nothing is known" in health.why_not()
        await health.informer._list()
        assert health.why_not() == ""
        world.controller(ready=1)
        await health.informer._list()
        assert health.why_not() == "1 of 2 pods of the node are ready"
        world.controller()
        world.ingress({**DETACH, "maxUnavailableNodes": 1}, "nginx:2")
        await world.look()
        await health.informer._list()
        assert health.why_not() == "an update of the node's pods is due"
        other = IngressHealth(world.api, "ns", "nginx", "n2", DUE)
        await other.informer._list()
        assert other.why_not() == "there is no Deployment ns/nginx-n2"

    run(test, "n1")


def test_changes_are_looked_at_by_whoever_leads() -> None:
    """All of them at first, and each that changes."""

    async def test() -> None:
        world = World("n1")
        tasks = [asyncio.ensure_future(informer.run()) for informer in world.role.informers]
        tasks.append(asyncio.ensure_future(world.role.run()))
        async with asyncio.timeout(60):
            while DEPLOYMENTS.path("ns", "nginx-n1") not in world.api.objects:
                await asyncio.sleep(0.001)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(test())


@pytest.mark.parametrize("pod", NO_PODS, ids=str)
def test_one_that_is_nonsense_ends_nothing(pod: dict[str, Any]) -> None:
    """Who may write one in a namespace would end the process for all others; the status says what is wrong."""

    async def test() -> None:
        world = World("n1")
        made = item(pod=pod)
        made["metadata"] |= {"uid": "uid-nginx", "generation": 1}
        world.api.put(INGRESSES, made, "ns")
        world.api.put(NODES, {**world.node("n1"), "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})
        await world.look()
        valid, why = world.condition("Valid")
        assert valid == "False" and "isn't a list of objects" in why

    asyncio.run(test())


def test_one_that_surprises_is_looked_at_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it is, the others are looked at, and it is counted as failed."""

    async def test() -> None:
        world = World("n1")
        monkeypatch.setattr("upgrader.in_cluster.guard.roles.ingress.read", int)  # which raises a TypeError
        await world.look(2)
        assert 'guard_ingress_reconciles_total{name="nginx",namespace="ns",result="failed"} 2.0' in world.metrics.text()

    asyncio.run(test())


def test_of_one_that_is_gone_nothing_is_counted() -> None:
    """Neither its nodes nor how often it was looked at: whoever makes them chooses their names."""

    async def test(world: World) -> None:
        assert 'name="nginx"' in world.metrics.text()
        del world.api.objects[INGRESSES.path("ns", "nginx")]
        await world.look(2)
        assert 'name="nginx"' not in world.metrics.text()

    run(test, "n1")
