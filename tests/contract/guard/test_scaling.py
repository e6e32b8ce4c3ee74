"""Sets that follow a ReplicaTemplate or a leader, and delayed downscales, on a real API server with the chart's rights.

The replica that leads scales them; what their controller and the kubelets do is done here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.guard_process import GuardProcess, guard_process
from testkit.lab_cluster import until
from testkit.pod_service import PodService, pod_service
from tests.contract.checking import merge
from tests.contract.guard.chart_rights import DOWNSCALE, Right, complaints
from tests.contract.guard.conftest import Pair
from tests.contract.guard.test_chart import FLAGS, rights
from tests.contract.guard.test_downscale_prepared import PODS, SETS, rendered, replicas
from tests.contract.guard.test_downscale_prepared import shown as shown_downscale
from tests.contract.guard.webhooks import scaled
from tests.contract.guard.zones import Zones, zones
from upgrader.errors import ApiError
from upgrader.ports import Kind, KubeObject

TEMPLATES = Kind("rollout-operator.grafana.com/v1", "replicatemplates")
DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
EVENTS = Kind("v1", "events")
MIRROR = "grafana.com/rollout-mirror-replicas-from-resource"
FOLLOWS = {
    f"{MIRROR}-name": "db",
    f"{MIRROR}-kind": "ReplicaTemplate",
    f"{MIRROR}-api-version": TEMPLATES.api_version,
}
HOUR = 3600
ROLLOUT = (*FLAGS, "-roles=rollout", "-kubernetes.namespace=shop", "-reconcile.interval=1s")


@pytest.fixture(scope="module")
def objects(pair: Pair) -> Iterator[list[KubeObject]]:
    """What Helm renders; ReplicaTemplates are served."""
    found = rendered()
    (definition,) = (each for each in found if each["kind"] == "CustomResourceDefinition")
    pair.kube.create(DEFINITIONS, definition)
    try:
        until("ReplicaTemplates to be served", lambda: served(pair), timeout_seconds=120)
        yield found
    finally:
        pair.kube.delete(DEFINITIONS, definition["metadata"]["name"])


@pytest.fixture
def guard(pair: Pair, objects: list[KubeObject], tmp_path: Path) -> Iterator[GuardProcess]:
    """One that leads, with the chart's rights, of which none may be missing."""
    with rights(pair, objects), guard_process(tmp_path, pair.account, *ROLLOUT) as process:
        process.wait_ready()
        yield process
        assert complaints(process) == []


def served(pair: Pair) -> bool:
    """Whether the kind is there."""
    try:
        pair.kube.list(TEMPLATES, "shop")
    except ApiError:
        return False
    return True


@pytest.fixture
def template(pair: Pair, objects: list[KubeObject]) -> Iterator[str]:
    """A ReplicaTemplate of one replica."""
    spec = {"replicas": 1, "labelSelector": "rollout-group=db"}
    manifest = {"apiVersion": TEMPLATES.api_version, "kind": "ReplicaTemplate", "metadata": {"name": "db"}}
    pair.kube.create(TEMPLATES, {**manifest, "spec": spec}, "shop")
    yield "db"
    pair.kube.delete(TEMPLATES, "db", "shop")


def wanted(pair: Pair, number: int) -> None:
    """As an autoscaler asks for it: by its scale."""
    scale = {"spec": {"replicas": number}}
    merge(pair.kube, f"/apis/{TEMPLATES.api_version}/namespaces/shop/replicatemplates/db/scale", scale)


def shown(pair: Pair) -> int | None:
    """What its status says."""
    found: Any = pair.kube.get(TEMPLATES, "db", "shop")
    return (found.get("status") or {}).get("replicas")


def annotated(pair: Pair, name: str, **notes: str | None) -> None:
    """A set, with these annotations more, or less (None)."""
    pair.kube.patch(SETS, name, {"metadata": {"annotations": notes}}, "shop")


def follows(pair: Pair, name: str, **more: str) -> None:
    """A set that has as many replicas as the ReplicaTemplate wants."""
    annotated(pair, name, **FOLLOWS, **more)


def settle(pair: Pair, group: Zones, name: str, *, ready: bool = True) -> None:
    """What the spec wants is done, as the controller and the kubelets do; `ready`: new pods are."""
    number = replicas(pair, name)
    for pod in group.pods(name):
        if int(pod.rpartition("-")[2]) >= number:
            pair.kube.delete(PODS, pod, "shop")
    now = Zones(pair.kube, group.group, [name], number)
    now.controller(name)
    if ready:
        now.make_ready(name)


def has(pair: Pair, name: str, number: int) -> None:
    """Wait until its spec says so."""
    until(f"{name} to have {number} replicas", lambda: replicas(pair, name) == number, timeout_seconds=120)


def looks(guard: GuardProcess, group: Zones) -> float:
    """How many times it has looked at the group."""
    name = f'rollout_operator_group_reconciles_total{{rollout_group="{group.group}"}}'
    lines = guard.get("/metrics")[1].splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def noted(pair: Pair, name: str) -> None:
    """Wait until a set shows when it was downscaled."""
    until(f"{name} to show when", lambda: shown_downscale(pair, name) != "", timeout_seconds=120)


def told(pair: Pair, name: str, says: str) -> None:
    """Wait for an Event NotScaled on a set."""

    def there() -> bool:
        return any(
            each["involvedObject"]["name"] == name and each["reason"] == "NotScaled" and says in each["message"]
            for each in pair.kube.list(EVENTS, "shop")
        )

    until(f"an Event on {name} that says {says!r}", there, timeout_seconds=120)


def test_sets_follow_a_replica_template_and_it_shows_what_they_have(
    pair: Pair, guard: GuardProcess, template: str
) -> None:
    """By the scale that an autoscaler writes: up, and then down, which the group's Lease notes of each. Its status
    follows, unless that is switched off.
    """
    with zones(pair.kube, count=2) as group:
        a, b = group.names
        follows(pair, a)
        follows(pair, b, **{f"{MIRROR}-write-back": "false"})
        wanted(pair, 3)
        for name in (a, b):
            has(pair, name, 3)
            settle(pair, group, name)
        until("its status to say 3", lambda: shown(pair) == 3, timeout_seconds=120)
        wanted(pair, 1)
        for name in (a, b):
            has(pair, name, 1)
            settle(pair, group, name)
            noted(pair, name)
        until("its status to say 1", lambda: shown(pair) == 1, timeout_seconds=120)
        annotated(pair, a, **{f"{MIRROR}-write-back": "false"})
        wanted(pair, 2)
        for name in (a, b):
            has(pair, name, 2)
            settle(pair, group, name)
        assert shown(pair) == 1


def test_a_reference_that_is_not_there_changes_nothing(pair: Pair, guard: GuardProcess) -> None:
    """It is an Event, and the group is rolled all the same."""
    with zones(pair.kube, count=1) as group:
        (a,) = group.names
        follows(pair, a)
        told(pair, a, "follows ReplicaTemplate db, which can't be read: it doesn't exist, or has no scale")
        group.template(a, "v2")
        until("its pod to be deleted", lambda: not group.pods(a), timeout_seconds=120)
        assert replicas(pair, a) == 1


def test_a_follower_has_as_many_replicas_as_its_leader(pair: Pair, guard: GuardProcess) -> None:
    """More once the leader's are ready, and fewer; forced ones count before the leader's. A leader that is missing
    changes nothing, and is an Event.
    """
    with zones(pair.kube, count=2) as group:
        a, b = group.names
        leads = {"grafana.com/rollout-downscale-leader": a}
        annotated(pair, b, **leads, **{"grafana.com/rollout-upscale-only-when-leader-ready": "true"})
        assert scaled(pair.kube, a, 3, subresource="scale") == ""
        settle(pair, group, a, ready=False)
        before = looks(guard, group)
        until("guard to look twice", lambda: looks(guard, group) >= before + 2, timeout_seconds=120)
        assert replicas(pair, b) == 1
        settle(pair, group, a)
        has(pair, b, 3)
        settle(pair, group, b)
        assert scaled(pair.kube, a, 2, subresource="scale") == ""
        settle(pair, group, a)
        has(pair, b, 2)
        settle(pair, group, b)
        annotated(pair, b, **{"grafana.com/rollout-force-replicas": "4"})
        has(pair, b, 4)
        settle(pair, group, b)
        annotated(
            pair,
            b,
            **{"grafana.com/rollout-force-replicas": None, "grafana.com/rollout-downscale-leader": f"{a}-gone"},
        )
        told(pair, b, f"the leader '{a}-gone' of {b} is not in its group")
        assert replicas(pair, b) == 4


@pytest.fixture
def service() -> Iterator[PodService]:
    """What pods are told."""
    with pod_service() as found:
        yield found


def prepared_since(service: PodService, pod: str, ago: float) -> None:
    """What a pod answers from now on."""
    service.bodies[pod] = json.dumps({"timestamp": int(time.time() - ago)}).encode()


def test_a_delayed_downscale_takes_the_last_pods_over_the_delay(
    pair: Pair, guard: GuardProcess, template: str, service: PodService
) -> None:
    """Pods that go are asked since when they are prepared, by their IP with their name as Host. None goes while one of
    them can't be prepared; then the last ones that were for an hour; and those that stay are told so.
    """
    with zones(pair.kube, replicas=4, count=1) as group:
        (a,) = group.names
        for pod in group.pods(a):
            status = {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
            merge(pair.kube, f"/api/v1/namespaces/shop/pods/{pod}/status", {"status": status})
        wanted(pair, 1)
        for number, ago in ((1, 0), (2, 2 * HOUR), (3, 2 * HOUR)):
            prepared_since(service, f"{a}-{number}", ago)
        service.answers[f"{a}-1"] = 500
        follows(
            pair,
            a,
            **{
                "grafana.com/rollout-delayed-downscale": "1h",
                "grafana.com/rollout-prepare-delayed-downscale-url": f"http://pod:{service.port}/delayed?x=1",
            },
        )
        told(pair, a, f"{a}-1 can't be prepared: HTTP 500")
        assert replicas(pair, a) == 4
        service.answers.clear()
        has(pair, a, 2)
        assert {f"{a}-{number}" for number in (1, 2, 3)} == service.pods("POST")
        until("the first pod to be told that it stays", lambda: f"{a}-0" in service.pods("DELETE"), timeout_seconds=120)
        host = f"{a}-3.{a}.shop.svc.cluster.local.:{service.port}"
        assert ("POST", host, "/delayed?x=1") in service.told
        until("its status to say 2", lambda: shown(pair) == 2, timeout_seconds=120)
        settle(pair, group, a)
        told(pair, a, f"the last pod of {a} has not been prepared for {HOUR} s yet")
        prepared_since(service, f"{a}-1", 2 * HOUR)
        has(pair, a, 1)
        settle(pair, group, a)
        until("its status to say 1", lambda: shown(pair) == 1, timeout_seconds=120)
        wanted(pair, 2)
        has(pair, a, 2)


@pytest.mark.parametrize("right", DOWNSCALE, ids=str)
def test_a_right_that_following_sets_lack_is_named(
    pair: Pair, objects: list[KubeObject], template: str, tmp_path: Path, right: Right
) -> None:
    """In the log, as soon as it is needed: for the reference, for the scale, and to show when a set was downscaled."""
    with (
        rights(pair, objects, right),
        zones(pair.kube, replicas=2, count=1) as group,
        guard_process(tmp_path, pair.account, *ROLLOUT) as process,
    ):
        process.wait_ready()
        (a,) = group.names
        follows(pair, a)

        def said() -> bool:
            settle(pair, group, a)
            return complaints(process, right) != []

        until(f"it to name {right}", said, timeout_seconds=120, interval_seconds=0.5)
