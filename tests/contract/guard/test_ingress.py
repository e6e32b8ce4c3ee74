"""IngressDaemonSets on a real API server: what the document promises about each node, and who may do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from testkit.guard_process import GuardProcess, guard_process
from testkit.lab_cluster import until
from tests.contract.checking import merge
from tests.contract.guard.chart_rights import HEALTH_CHECKERS, INGRESS, INGRESS_HOLD, Right, complaints
from tests.contract.guard.conftest import Pair
from tests.contract.guard.ingresses import (
    ASKED,
    DETACH,
    INGRESSES,
    NODES,
    Edge,
    chart,
    checkers,
    edge,
    install,
    manifest,
)
from tests.contract.guard.test_chart import rights
from tests.contract.guard.test_hold import RUN, run_lock
from tests.contract.guard.test_rollout import says
from upgrader.engine.locks.group_notes import GroupNotes
from upgrader.errors import ApiError
from upgrader.model.event import StepEnded, StepStarted
from upgrader.ports import Kind, KubeObject

FLAGS = ("-roles=ingress", "-ingress.namespace=shop", "-reconcile.interval=1s", "-ingress.health-checker-image=own:1")
LEASES = Kind("coordination.k8s.io/v1", "leases")
OWNER = "ingressdaemonsets.mumoshu.github.com/detached-by"


@pytest.fixture(scope="module", autouse=True)
def definition(pair: Pair) -> None:
    """IngressDaemonSets are served."""
    install(pair.kube)


@pytest.fixture
def guard(pair: Pair, tmp_path: Path) -> Iterator[GuardProcess]:
    """One that leads."""
    with guard_process(tmp_path, pair.kubeconfig, *FLAGS) as process:
        process.wait_ready()
        until("it to lead", lambda: says(process, "leading"), timeout_seconds=120, interval_seconds=0.1)
        yield process
    pair.kube.delete(LEASES, "guard-ingress", "ops")


def goes_on(site: Edge, what: str, holds: Callable[[], bool], seconds: float = 120, *, agent: bool = True) -> None:
    """While everybody else does their part, it becomes so."""

    def one() -> bool:
        site.tick(agent=agent)
        return holds()

    until(what, one, timeout_seconds=seconds, interval_seconds=0.1)


def whole(site: Edge) -> None:
    """All nodes have their pods, and are counted."""
    count = len(site.nodes)
    goes_on(site, "all nodes to be ready", lambda: site.status() == (count, count, count, 0))


@pytest.mark.soak
def test_an_update_with_a_controller_that_is_killed(pair: Pair, tmp_path: Path) -> None:
    """The health port is 503 and the node out for its grace before a pod goes (the site looks, at each); never more
    nodes annotated than may be; in the end 200 and attached. The leader is killed once a node is annotated.
    """
    with ExitStack() as stack, edge(pair.kube, DETACH, 3) as site:
        guards = [stack.enter_context(guard_process(tmp_path / n, pair.kubeconfig, *FLAGS)) for n in ("one", "two")]
        stack.enter_context(checkers(site, tmp_path, pair.kubeconfig))
        assert [site.health(node) for node in site.nodes] == [503] * 3, "there are no pods yet"
        whole(site)
        goes_on(site, "all to answer", lambda: all(site.health(node) == 200 for node in site.nodes), 30)
        for each in guards:
            each.wait_ready()
        site.image("nginx:2")
        goes_on(site, "a node to be annotated", lambda: any(ASKED in site.marks(node) for node in site.nodes))
        (leader,) = (each for each in guards if says(each, "leading"))
        leader.kill()
        goes_on(site, "all pods to be new", lambda: site.images() == ["nginx:2"] * 6, 240)
        whole(site)
        assert site.replaced == list(site.nodes) and site.most_asked == 1
        goes_on(site, "all to answer", lambda: all(site.health(node) == 200 for node in site.nodes), 30)
        for node in site.nodes:
            assert list(site.marks(node)) == ["node-detacher.variant.run/attachment-timestamp"]
        assert site.condition("Updated")["status"] == "True"
    pair.kube.delete(LEASES, "guard-ingress", "ops")


def test_as_many_nodes_as_may_be_and_no_pod_without_an_answer(pair: Pair, guard: GuardProcess) -> None:
    """Two of three are annotated; without an agent nothing goes, and the condition says what it waits for."""
    with edge(pair.kube, {**DETACH, "maxUnavailableNodes": 2}, 3) as site:
        whole(site)
        site.image("nginx:2")
        waits = "waiting for the annotation node-detacher.variant.run/detachment-timestamp on the node"

        def waiting() -> bool:
            return str(site.condition("Updated").get("message")).count(waits) == 2

        goes_on(site, "two to wait", waiting, agent=False)
        site.tick(agent=False)
        assert site.images() == ["nginx:1"] * 6 and site.most_asked == 2
        goes_on(site, "all pods to be new", lambda: site.images() == ["nginx:2"] * 6, 120)
        assert site.most_asked == 2
        whole(site)


def test_nodes_that_go_and_one_that_somebody_else_has_out(pair: Pair, guard: GuardProcess) -> None:
    """A node that loses its label loses its Deployment, and is put back; one that somebody else has detached waits."""
    with edge(pair.kube, DETACH, 2) as site:
        whole(site)
        first, second = site.nodes
        merge(pair.kube, f"/api/v1/nodes/{second}", {"metadata": {"annotations": {ASKED: "true"}}})
        site.image("nginx:2")

        def waits() -> bool:
            return "another client" in str(site.condition("Updated").get("message"))

        goes_on(site, "it to wait", waits, agent=False)
        assert not site.replaced and OWNER not in site.marks(second)
        merge(pair.kube, f"/api/v1/nodes/{second}", {"metadata": {"annotations": {ASKED: None}}})
        goes_on(site, "the first to be annotated", lambda: OWNER in site.marks(first), agent=False)
        merge(pair.kube, f"/api/v1/nodes/{first}", {"metadata": {"labels": {"ingress": None}}})

        def gone() -> bool:
            return site.deployment(first) is None and ASKED not in site.marks(first)

        until("it to lose its Deployment", gone, timeout_seconds=120, interval_seconds=0.1)


def test_what_it_makes(pair: Pair, guard: GuardProcess) -> None:
    """As the document names it; with the original's health checker replaced, and shared ports left out, told so."""
    with edge(pair.kube, DETACH, 1) as site:
        whole(site)
        (node,) = site.nodes
        made = site.deployment(node)
        assert made["spec"]["selector"]["matchLabels"] == {"app": site.name, "ingress-daemon-for-node": node}
        assert made["metadata"]["labels"]["team"] == "edge" and made["spec"]["replicas"] == 2
        pod = made["spec"]["template"]["spec"]
        assert pod["nodeName"] == node and "ports" not in pod["containers"][0]
        assert site.condition("PortsLeftOut")["status"] == "True"
        checker: Any = pair.kube.get(Kind("apps/v1", "daemonsets"), f"{site.name}-10080", "shop")
        assert (
            checker["metadata"]["annotations"]["ingressdaemonsets.mumoshu.github.io/health-check-node-port"] == "10080"
        )
        assert checker["spec"]["template"]["spec"]["containers"][0]["image"] == "own:1"
        assert {each["metadata"]["ownerReferences"][0]["name"] for each in (made, checker)} == {site.name}


@pytest.mark.parametrize(
    ("rolling", "spec", "says_"),
    [
        ({"maxUnavailableNodes": 2, "maxDegradedNodes": 3}, {}, "only one of maxUnavailableNodes"),
        ({"maxDegradedNodes": 0}, {}, "no node is ever updated"),
        ({"waitForDetachmentByAnnotatedTimestamp": {"key": "a/b"}}, {}, "needs annotateNodeToDetach"),
        (
            {**DETACH, "waitForDetachmentByAnnotatedTimestamp": {"key": "a/b", "format": "Unix"}},
            {},
            'Unsupported value: "Unix"',
        ),
        ({"maxUnavaiablePodsPerNode": 1, "maxUnavailablePodsPerNode": "2"}, {}, "two spellings of the same"),
        ({"maxUnavailablePodsPerNode": "many"}, {}, "maxUnavailablePodsPerNode"),
        ({}, {"podsPerNode": 1, "replicas": 2}, "two names of the same"),
        ({}, {"healthCheckNodePorts": [80, 80]}, "Duplicate value"),
        ({}, {"selector": {"matchLabels": {"app": "another"}}}, "doesn't select the template's own labels"),
        ({}, {"template": {"metadata": {}, "spec": {}}}, "labels: Required value"),
        ({}, {"updateStrategy": {"type": "OnDelete"}}, 'Unsupported value: "OnDelete"'),
    ],
)
def test_contradictions_are_refused_by_the_api_server(
    pair: Pair, rolling: dict[str, Any], spec: dict[str, Any], says_: str
) -> None:
    """By the definition alone: nobody of guard's is asked."""
    with pytest.raises(ApiError) as refused:
        pair.kube.create(INGRESSES, manifest("wrong", rolling, **spec), "shop")
    assert refused.value.status == 422 and says_ in refused.value.message


def test_what_selects_stays(pair: Pair) -> None:
    """A Deployment's selector can't be changed: neither the selector, nor the labels that stand for it."""
    pair.kube.create(INGRESSES, manifest("stays", {}), "shop")
    try:
        for change in (
            {"template": {"metadata": {"labels": {"app": "other"}}}},
            {"selector": {"matchLabels": {"app": "stays"}}},
        ):
            with pytest.raises(ApiError) as refused:
                pair.kube.patch(INGRESSES, "stays", {"spec": change}, "shop")
            assert refused.value.status == 422 and "can't be changed" in refused.value.message
        pair.kube.patch(INGRESSES, "stays", {"spec": {"podsPerNode": 3}}, "shop")
    finally:
        pair.kube.delete(INGRESSES, "stays", "shop")


@pytest.fixture(scope="module")
def objects() -> list[KubeObject]:
    """What Helm renders."""
    return chart()


def waits_for(site: Edge) -> str:
    """What its condition says."""
    return str(site.condition("Updated").get("message"))


def test_a_run_holds_an_update_but_that_of_its_step(pair: Pair, objects: list[KubeObject], tmp_path: Path) -> None:
    """Nodes get their first pods, and none begins to be updated; both wait, with the run's name. Once its step has
    begun a node begins, and the update goes on to its end after the step. The next one is held again, until the run is
    over.
    """
    with (
        run_lock(pair) as run,
        rights(pair, objects),
        edge(pair.kube, DETACH, 2) as site,
        guard_process(tmp_path, pair.roles["ingress"], *FLAGS, "-hold=run") as process,
    ):
        process.wait_ready()
        whole(site)
        site.image("nginx:2")
        told = f"waiting for the upgrade {RUN} to end"
        goes_on(site, "both nodes to wait", lambda: waits_for(site).count(told) == 2)
        assert site.images() == ["nginx:1"] * 4 and site.most_asked == 0
        notes = GroupNotes(run.lock, {"edge": [f"shop/IngressDaemonSet/{site.name}"]})
        notes.emit(StepStarted("edge", "v1 → v2", None))
        goes_on(site, "a node to be annotated", lambda: site.most_asked == 1)
        notes.emit(StepEnded("edge", "passed", 1))
        goes_on(site, "all pods to be new", lambda: site.images() == ["nginx:2"] * 4, 240)
        whole(site)
        site.image("nginx:3")
        goes_on(site, "both nodes to wait", lambda: waits_for(site).count(told) == 2)
        assert site.images() == ["nginx:2"] * 4
        run.end()
        goes_on(site, "all pods to be new", lambda: site.images() == ["nginx:3"] * 4, 240)
        assert complaints(process) == []
    pair.kube.delete(LEASES, "guard-ingress", "ops")


@pytest.mark.parametrize("right", INGRESS_HOLD, ids=str)
def test_without_the_right_to_read_the_lease_no_update_begins(
    pair: Pair, objects: list[KubeObject], tmp_path: Path, right: Right
) -> None:
    """Nobody knows whether a run is alive: the right is named in the condition; nodes get their first pods."""
    with (
        rights(pair, objects, right),
        edge(pair.kube, DETACH, 1) as site,
        guard_process(tmp_path, pair.roles["ingress"], *FLAGS, "-hold=run") as process,
    ):
        process.wait_ready()
        whole(site)
        site.image("nginx:2")
        goes_on(site, "it to name the right", lambda: right.named in waits_for(site))
        assert site.images() == ["nginx:1"] * 2 and site.most_asked == 0
    pair.kube.delete(LEASES, "guard-ingress", "ops")


@pytest.mark.parametrize("right", [None, *INGRESS], ids=str)
def test_the_charts_rights_are_enough_and_each_is_needed(
    pair: Pair, objects: list[KubeObject], tmp_path: Path, right: Right | None
) -> None:
    """From the first pods to a node that leaves: with one less, the log names it."""
    with (
        rights(pair, objects, right),
        edge(pair.kube, {**DETACH, "maxUnavailableNodes": 2}, 2) as site,
        guard_process(tmp_path, pair.roles["ingress"], *FLAGS) as process,
    ):
        steps = iter((lambda: _changes(site), lambda: _loses(site), lambda: None))

        def done() -> bool:
            if right and complaints(process, right):
                return True
            site.tick()
            count = sum("ingress" in (pair.kube.get(NODES, n) or {})["metadata"].get("labels", {}) for n in site.nodes)
            if site.status() != (count, count, count, 0) or site.condition("Updated").get("status") != "True":
                return False
            observed = site.item()["status"]["observedGeneration"] == site.item()["metadata"]["generation"]
            if observed and next(steps)() is None and count == 1 and site.deployment(site.nodes[0]) is None:
                return not right
            return False

        until(f"it to work, or to name {right}", done, timeout_seconds=120, interval_seconds=0.2)
        if not right:
            assert complaints(process) == []
    pair.kube.delete(LEASES, "guard-ingress", "ops")


@pytest.mark.parametrize("right", [None, *HEALTH_CHECKERS], ids=str)
def test_a_right_that_health_checkers_lack_is_named(
    pair: Pair, objects: list[KubeObject], tmp_path: Path, right: Right | None
) -> None:
    """In the log of the checker, whose port answers no until it knows; and none is missing by the chart's rights."""
    with rights(pair, objects, right), edge(pair.kube, {}, 1) as site, checkers(site, tmp_path, pair.checker) as logs:
        (node,) = site.nodes
        if right:
            # As it stands in JSON.
            named = right.named.replace('"', '\\"')
            until(f"it to name {right}", lambda: named in logs[node].read_text(), timeout_seconds=120)
        else:
            unknown = "nothing is known of the node's pods yet"
            until("it to know", lambda: unknown not in site.answer(node), timeout_seconds=120)
            assert "cannot" not in logs[node].read_text()
        assert site.health(node) == 503


def _changes(site: Edge) -> None:
    """Its image, and its health checkers'."""
    site.kube.patch(INGRESSES, site.name, {"spec": {"healthChecker": {"image": "own:2"}}}, "shop")
    site.image("nginx:2")


def _loses(site: Edge) -> None:
    """The first node its label, and a port its checker."""
    merge(site.kube, f"/api/v1/nodes/{site.nodes[0]}", {"metadata": {"labels": {"ingress": None}}})
    site.kube.patch(INGRESSES, site.name, {"spec": {"healthCheckNodePorts": [10081]}}, "shop")
