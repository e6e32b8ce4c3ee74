"""Checks of nodes that a plan upgrades, on a real API server with its controllers; no machine is behind the node."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.lab_cluster import until
from testkit.nodes import node_sources
from tests.contract.checking import SERVER, TARGET, Make, Status, checked, fake_node, waiting_pod
from upgrader.adapters.kube import KubeAdapter
from upgrader.model.cluster import Host
from upgrader.model.node_settings import NodePool, NodeSource
from upgrader.ports import Kind
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.context import PODS
from upgrader.preflight.node_sources import check_node_sources
from upgrader.preflight.node_upgrades import check_node_upgrades
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.plan import Plan
from upgrader.steps.step_document import NodeChange

BUDGETS = Kind("policy/v1", "poddisruptionbudgets")
REPLICA_SETS = Kind("apps/v1", "replicasets")
PACKAGES = NodeSource("packages")
Found = Callable[..., list[str]]


@pytest.fixture
def node(made: Make, status: Status) -> str:
    """A worker that the plan upgrades."""
    return fake_node(made, status)


@pytest.fixture
def found(kube: KubeAdapter, node: str) -> Found:
    """What the check finds before the upgrade of that worker."""

    def ids(source: NodeSource = PACKAGES, *, listed: bool = True) -> list[str]:
        change = (NodeChange(node, SERVER, TARGET),)
        step = PlannedNodes(NodePool("workers"), change, TARGET, source, 300.0, 1, Path("/playbooks"))
        context = checked(kube)
        workers = (Host(node, "192.0.2.1"),) if listed else ()
        context = replace(
            context, plan=Plan(SERVER, TARGET, (step,)), cluster=replace(context.cluster, workers=workers)
        )
        return [
            item.id
            for item in run_checks(context, [("nodes", check_node_upgrades), ("node-sources", check_node_sources)])
        ]

    return ids


def test_node_that_ansible_does_not_know(found: Found) -> None:
    """It is a node of the cluster, and the inventory doesn't list it."""
    assert found() == []
    assert found(listed=False) == ["nodes.not-in-inventory"]


def test_programs_of_the_new_version(found: Found, tmp_path: Path) -> None:
    """Without a checksum, and without the files; the programs that labs run are both."""
    there = node_sources([str(TARGET)])
    source = NodeSource("folder", str(there["path"]), sha256=there["sha256"])
    assert found(source) == []
    assert found(replace(source, sha256={})) == ["nodes.source"]
    assert found(replace(source, path=str(tmp_path))) == ["nodes.source"]


def test_pod_that_nobody_would_make_again(kube: KubeAdapter, made: Make, node: str, found: Found) -> None:
    """On the node that is drained."""
    assert found() == []
    pod = waiting_pod(made, node, {"name": "main"}, "default")
    assert found() == ["nodes.bare-pods"]
    kube.delete(PODS, pod, "default")
    until("it to be gone", lambda: found() == [], timeout_seconds=120)


def test_budgets_of_pods_that_a_drain_evicts(
    kube: KubeAdapter, made: Make, status: Status, node: str, found: Found
) -> None:
    """One of one must stay: never. One of two: not while the other isn't Ready, and then at any time."""
    name = f"upgrader-check-{uuid.uuid4().hex[:6]}"
    selector = {"matchLabels": {"app": name}}
    pod = {
        "nodeName": node,
        "containers": [{"name": "main", "image": "nothing.example/nothing"}],
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec = {"replicas": 1, "selector": selector, "template": template}
    made(REPLICA_SETS, {"metadata": {"name": name}, "spec": spec}, "default")
    made(BUDGETS, {"metadata": {"name": name}, "spec": {"minAvailable": 1, "selector": selector}}, "default")

    def pods() -> list[str]:
        return [item["metadata"]["name"] for item in kube.list(PODS, "default", labels=f"app={name}")]

    def runs(pod: str, *, ready: bool) -> None:
        conditions = [{"type": kind, "status": str(ready)} for kind in ("Ready", "ContainersReady")]
        status(PODS, pod, "default", {"phase": "Running", "conditions": conditions})

    def becomes(expected: list[str]) -> None:
        until(f"{expected}", lambda: found() == expected, timeout_seconds=120)

    until("its pod", lambda: len(pods()) == 1, timeout_seconds=120)
    assert found() == []
    runs(pods()[0], ready=True)
    becomes(["nodes.drain-blocked"])
    current = kube.get(REPLICA_SETS, name, "default")
    assert current is not None
    kube.replace(REPLICA_SETS, {**current, "spec": {**current["spec"], "replicas": 2}}, "default")
    until("another pod", lambda: len(pods()) == 2, timeout_seconds=120)
    for each in pods():
        runs(each, ready=True)
    becomes([])
    runs(pods()[0], ready=False)
    becomes(["nodes.drain-waits"])
