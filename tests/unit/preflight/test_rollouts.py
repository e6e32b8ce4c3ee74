"""No group is half of one revision and half of another when a run begins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import (
    add_daemonset,
    add_pod,
    add_stateful_pod,
    add_stateful_set,
    crashed,
    running,
)
from tests.unit.preflight.conftest import World
from upgrader.model.gate_settings import GatePolicy, WorkloadGate
from upgrader.ports import Kind
from upgrader.preflight.rollouts import check_rollouts


def zones(kube: FakeKube, *revisions: str) -> None:
    """A set of one pod for each zone, whose pod has this revision; their status says the same."""
    for zone, revision in zip("abc", revisions, strict=False):
        add_stateful_set(kube, f"db-{zone}", replicas=1, group="db", updatedReplicas=int(revision == "new"))
        add_stateful_pod(kube, 0, owner=f"db-{zone}", revision=revision)


def test_whole_group_is_no_finding_and_costs_one_list(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pod is read of a set whose own counts are complete; sets of no group are nobody's rollout."""
    zones(world.kube, "new", "new", "new")
    add_stateful_set(world.kube, "single", updatedReplicas=0)
    asked: list[str] = []
    real = world.kube.list

    def listed(kind: Kind, *arguments: Any, **more: Any) -> Any:
        asked.append(kind.plural)
        return real(kind, *arguments, **more)

    monkeypatch.setattr(world.kube, "list", listed)
    assert world.find(check_rollouts) == {}
    assert asked == ["statefulsets"]


def test_group_in_the_middle_of_a_rollout(world: World) -> None:
    """It would stay so for the whole run: the run isn't begun."""
    zones(world.kube, "new", "old", "old")
    found = world.find(check_rollouts)["rollouts.under-way"]
    assert found.blocking
    assert found.title == "rollout groups are in the middle of a rollout: shop/db"
    assert "0/1 pods of StatefulSet shop/db-b are updated and Ready; not yet replaced: db-b-0" in found.diagnosis
    assert "db-c" not in found.diagnosis, "one set shows it"


def test_spec_that_its_controller_has_not_seen(world: World) -> None:
    """What its counts are of isn't known."""
    add_stateful_set(world.kube, "db-a", replicas=1, group="db", generation=2, observed=1)
    add_stateful_pod(world.kube, 0, owner="db-a")
    assert list(world.find(check_rollouts)) == ["rollouts.under-way"]


@pytest.mark.parametrize("fault", [running(ready=False), crashed()])
def test_group_whose_pods_are_not_ready(world: World, fault: dict[str, object]) -> None:
    """All of the newest revision, and one is down: a run may start."""
    zones(world.kube, "new", "new")
    add_stateful_set(world.kube, "db-b", replicas=1, group="db", readyReplicas=0)
    add_stateful_pod(world.kube, 0, fault, owner="db-b")
    found = world.find(check_rollouts)
    assert list(found) == ["rollouts.not-ready"]
    assert not found["rollouts.not-ready"].blocking
    assert "container main of pod db-b-0" in found["rollouts.not-ready"].diagnosis


def test_counts_that_lag(world: World) -> None:
    """What the pods say counts, where the counts say something else."""
    zones(world.kube, "new")
    add_stateful_set(world.kube, "db-a", replicas=1, group="db", readyReplicas=0)
    assert world.find(check_rollouts) == {}


def test_paused_set(world: World) -> None:
    """A step that changes it would wait for it in vain; whole or not."""
    zones(world.kube, "new")
    add_stateful_set(world.kube, "db-b", replicas=0, group="db", paused=True)
    found = world.find(check_rollouts)
    assert list(found) == ["rollouts.paused"]
    assert "StatefulSet shop/db-b" in found["rollouts.paused"].diagnosis


SET = """
kind: StatefulSet
metadata: {name: queue%s}
spec: {updateStrategy: {type: %s}, template: {spec: {containers: [{image: %s}]}}}
"""
DAEMONS = SET.replace("StatefulSet", "DaemonSet").replace("queue", "agent")


@pytest.mark.parametrize("workload", [SET, DAEMONS])
@pytest.mark.parametrize(
    ("labels", "strategy", "image", "fires"),
    [
        ("", "OnDelete", "new", True),
        (", namespace: shop", "OnDelete", "new", True),
        ("", "RollingUpdate", "new", False),
        ("", "OnDelete", "old", False),
    ],
)
def test_pods_that_nobody_replaces(
    world: World, workload: str, labels: str, strategy: str, image: str, fires: bool
) -> None:
    """OnDelete, and a new template: somebody has to be there, or the step is rolled back."""
    world.before["web"] = workload % (labels, strategy, "old")
    world.manifests["web"] = workload % (labels, strategy, image)
    assert ("rollouts.by-hand" in world.find(check_rollouts)) is fires


def test_pods_that_guard_replaces(world: World) -> None:
    """Those of a StatefulSet in a group; a DaemonSet is in none, whatever its labels are."""
    for workload, fires in ((SET, False), (DAEMONS, True)):
        world.before["web"], world.manifests["web"] = (
            workload % (", labels: {rollout-group: queue}", "OnDelete", image) for image in ("old", "new")
        )
        assert ("rollouts.by-hand" in world.find(check_rollouts)) is fires


def test_pods_of_a_daemonset_that_nobody_has_replaced(world: World) -> None:
    """As of a StatefulSet: the gate of a release that the run leaves as it is would wait for them in vain."""
    world.before["web"] = world.manifests["web"] = DAEMONS % ("", "OnDelete", "x")
    for revision in (1, 2):
        add_daemonset(world.kube, revision=revision, strategy="OnDelete", updatedNumberScheduled=0)
    add_pod(world.kube, "agent", daemon=True, revision=1)
    found = world.find(check_rollouts)["rollouts.left-behind"]
    assert found.blocking
    assert "DaemonSet kube-system/agent: agent-1-controller-1" in found.diagnosis
    assert "OnDelete" in found.diagnosis


@pytest.mark.parametrize(
    ("strategy", "revision", "fires"),
    [("OnDelete", "old", True), ("OnDelete", "new", False), ("RollingUpdate", "old", False)],
)
def test_pods_that_nobody_has_replaced(world: World, strategy: str, revision: str, fires: bool) -> None:
    """Of a release that the run leaves as it is: its gate would wait for them in vain, and the run fail there."""
    world.before["web"] = world.manifests["web"] = SET % (", namespace: shop", strategy, "x")
    add_stateful_set(world.kube, "queue", replicas=1, updatedReplicas=int(revision == "new"))
    add_stateful_pod(world.kube, 0, owner="queue", revision=revision)
    (release,) = world.context().changing
    for action in ("unchanged", release.action):
        plan = replace(world.context().plan, steps=(replace(release, action=action),))  # type: ignore[type-var]
        found = {each.id: each for each in check_rollouts(replace(world.context(), plan=plan))}
        assert ("rollouts.left-behind" in found) is fires
        assert not fires or "StatefulSet shop/queue: queue-0" in found["rollouts.left-behind"].diagnosis


def test_plan_names_the_groups_that_it_waits_for(world: World) -> None:
    """Those of a changed release, and those that upgrader.yaml has."""
    assert world.find(check_rollouts) == {}
    world.manifests["web"] = SET % (", labels: {rollout-group: queue}", "OnDelete", "new")
    gates = tuple(WorkloadGate(kind, "shop", "db", GatePolicy()) for kind in ("rolloutGroup", "statefulset"))
    (found,) = check_rollouts(replace(world.context(), workload_gates=gates))
    assert (found.id, found.severity) == ("rollouts.awaited", "info")
    assert found.title == "the run waits for rollout groups: kube-system/queue, shop/db"
