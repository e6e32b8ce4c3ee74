"""etcd and the other critical pods, before a run."""

from __future__ import annotations

import pytest

from tests.unit.gates.builders import add_pod, crashed, running
from tests.unit.preflight.conftest import World
from upgrader.errors import ApiError
from upgrader.preflight.critical_pods import check_critical_pods

CRITICAL = "system-node-critical"


def test_etcd_member_that_is_not_ready_refuses_the_run(world: World) -> None:
    """The gates would fail on it after the change; its own words are shown."""
    labels = {"component": "etcd"}
    add_pod(world.kube, "etcd", running(), labels=labels, priority_class=CRITICAL)
    assert world.find(check_critical_pods) == {}
    pod = add_pod(world.kube, "etcd", crashed(), labels=labels, priority_class=CRITICAL)
    world.kube.log_texts[pod, "main", False] = "panic: freepages: failed to get all reachable pages\n"
    found = world.find(check_critical_pods)
    assert found["etcd.not-ready"].severity == "error"
    assert "freepages" in found["etcd.not-ready"].diagnosis


def test_etcd_that_the_api_finds_unhealthy_refuses_the_run(world: World) -> None:
    """Also where etcd doesn't run as pods of the cluster."""
    world.kube.raw_answers["/readyz/etcd"] = "ok"
    assert world.find(check_critical_pods) == {}
    error = ApiError("HTTP 500: internal server error: etcd failed: context deadline exceeded")
    error.status = 500
    world.kube.raw_answers["/readyz/etcd"] = error
    assert "context deadline exceeded" in world.find(check_critical_pods)["etcd.unhealthy"].diagnosis


@pytest.mark.parametrize("status", [401, 403])
def test_who_may_not_ask_for_etcd_does_not_know(world: World, status: int) -> None:
    """A refused question says nothing of etcd: it is unknown, and what to do is about rights."""
    error = ApiError('forbidden: User "ci" cannot get path "/readyz/etcd"')
    error.status = status
    world.kube.raw_answers["/readyz/etcd"] = error
    found = world.find(check_critical_pods)
    assert found.keys() == {"etcd.unknown"}
    assert found["etcd.unknown"].severity == "unknown"
    assert "cannot get path" in found["etcd.unknown"].diagnosis and "nonResourceURLs" in found["etcd.unknown"].remedy


def test_other_critical_pods_are_named(world: World) -> None:
    """The run doesn't ask for what was not Ready before it, and says so."""
    add_pod(world.kube, "cilium", crashed(), daemon=True, priority_class=CRITICAL)
    found = world.find(check_critical_pods)["critical-pods.not-ready"]
    assert (found.severity, found.title) == ("warning", "DaemonSet cilium: not all critical pods are Ready")
