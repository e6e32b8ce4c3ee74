"""The runner's gates and checks of what guard looks after, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.lab_cluster import until
from tests.contract.checking import checked, ids, merge
from tests.contract.guard.conftest import Pair
from tests.contract.guard.zones import Zones, zones
from upgrader.adapters.kube import KubeAdapter
from upgrader.gates import protector_gate
from upgrader.gates.kubernetes_kinds import POD_PROTECTORS, STATEFUL_SETS
from upgrader.gates.protector_gate import ProtectorGate
from upgrader.gates.rollout_gate import RolloutGate
from upgrader.gates.rollout_group_gate import RolloutGroupGate
from upgrader.model.gate_settings import GatePolicy, WorkloadGate
from upgrader.model.node_settings import NodePool, NodeSource
from upgrader.model.outcome import Verdict, VerdictKind
from upgrader.model.version import KubernetesVersion
from upgrader.model.workload import WorkloadRef
from upgrader.ports import Kind
from upgrader.preflight import protectors as preflight_protectors
from upgrader.preflight.protectors import check_protectors
from upgrader.preflight.rollouts import check_rollouts
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.step_document import NodeChange

DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
SETS = "/apis/apps/v1/namespaces/shop/statefulsets"
PODS = Kind("v1", "pods")


def looked(kube: KubeAdapter, group: Zones) -> Verdict:
    """One look of the group's gate."""
    return RolloutGroupGate(kube, "shop", group.group).check()


def next_pod(kube: KubeAdapter, group: Zones, name: str) -> None:
    """What guard does: a pod is deleted, and its set's controller makes the next one."""
    kube.delete(PODS, f"{name}-0", "shop")
    until("the pod to go", lambda: not group.pods(name), timeout_seconds=120)
    group.controller(name)


def test_group_that_is_rolled(pair: Pair) -> None:
    """Zone by zone: the gate doesn't hold until the last pod is Ready, and checks refuse a run until then."""
    kube = pair.kube
    with zones(kube) as group:
        assert looked(kube, group).kind is VerdictKind.HOLDS
        assert ids(kube, check_rollouts) == []
        gates = (WorkloadGate("rolloutGroup", "shop", group.group, GatePolicy()),)
        (awaited,) = check_rollouts(replace(checked(kube), workload_gates=gates))
        assert awaited.id == "rollouts.awaited"
        for name in group.names:
            group.template(name, "v2")
        for number, name in enumerate(group.names):
            verdict = looked(kube, group)
            assert verdict.kind is VerdictKind.PENDING
            assert f"{number} of 3 StatefulSets are complete; 0/1 pods of StatefulSet shop/{name}" in verdict.reason
            assert ids(kube, check_rollouts) == ["rollouts.under-way"]
            next_pod(kube, group, name)
            assert "has not been seen by any scheduler" in looked(kube, group).reason  # there is none here
            if number == 2:
                assert ids(kube, check_rollouts) == ["rollouts.not-ready"]
            group.make_ready(name)
        assert looked(kube, group).kind is VerdictKind.HOLDS
        merge(kube, f"{SETS}/{group.names[1]}", {"metadata": {"annotations": {"grafana.com/rollout-paused": "true"}}})
        assert f"the rollout of {group.names[1]} is paused" in looked(kube, group).reason
        assert ids(kube, check_rollouts) == ["rollouts.paused"]
    assert looked(kube, group).kind is VerdictKind.UNKNOWN


def test_single_set(pair: Pair) -> None:
    """A set of OnDelete, then with a partition: the API server's defaults are understood."""
    kube = pair.kube
    with zones(kube, count=1) as group:
        (name,) = group.names
        gate = RolloutGate(kube, WorkloadRef("StatefulSet", "shop", name))
        assert gate.check().kind is VerdictKind.HOLDS
        group.template(name, "v2")
        assert "not yet replaced" in gate.check().reason
        merge(kube, f"{SETS}/{name}", {"spec": {"updateStrategy": {"type": "RollingUpdate"}}})
        assert "has not observed the new spec" in gate.check().reason
        group.controller(name)
        assert gate.check().kind is VerdictKind.PENDING
        partition = {"updateStrategy": {"rollingUpdate": {"partition": 1}}}
        merge(kube, f"{SETS}/{name}", {"spec": partition})
        group.controller(name)
        assert gate.check().reason.endswith("1 of them may keep an older revision (partition)")


def test_pods_that_nobody_replaces(pair: Pair) -> None:
    """What the API server writes into a release's StatefulSet is no change of its template."""
    kube = pair.kube
    with zones(kube, count=1) as group:
        found: Any = kube.get(STATEFUL_SETS, group.names[0], "shop")
    manifest = {**found, "kind": "StatefulSet", "metadata": {"name": group.names[0], "namespace": "shop"}}
    context = checked(kube, planned={"shop": str(manifest)})
    assert context.plan is not None
    (release,) = context.plan.steps
    assert isinstance(release, PlannedRelease)
    for image, expected in (("x", []), ("y", ["rollouts.by-hand"])):
        step = replace(release, before=str(manifest).replace("'image': 'x'", f"'image': '{image}'"))
        planned = replace(context, plan=replace(context.plan, steps=(step,)))
        assert [finding.id for finding in check_rollouts(planned)] == expected


def test_pods_that_nobody_has_replaced(pair: Pair) -> None:
    """A release's set, which the run leaves as it is, has a pod of an older revision."""
    kube = pair.kube
    with zones(kube, count=1) as group:
        found: Any = kube.get(STATEFUL_SETS, group.names[0], "shop")
        manifest = str({**found, "kind": "StatefulSet", "metadata": {"name": group.names[0], "namespace": "shop"}})
        context = checked(kube, planned={"shop": manifest})
        assert context.plan is not None
        (release,) = context.plan.steps
        assert isinstance(release, PlannedRelease)
        step = replace(release, before=manifest, action="unchanged")
        planned = replace(context, plan=replace(context.plan, steps=(step,)))
        assert [finding.id for finding in check_rollouts(planned)] == []
        group.template(group.names[0], "v2")
        # The set of the cluster is in a group, too; that of the release is in none.
        assert [finding.id for finding in check_rollouts(planned)] == ["rollouts.under-way", "rollouts.left-behind"]


@pytest.fixture
def protectors(pair: Pair) -> Iterator[KubeAdapter]:
    """The kind of PodProtectors, as far as the runner reads them, unless a test before has left the whole of it."""
    group, _, version = POD_PROTECTORS.api_version.partition("/")
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    name = f"{POD_PROTECTORS.plural}.{group}"
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": POD_PROTECTORS.plural, "singular": "podprotector", "kind": "PodProtector"},
        "versions": [{**served, "subresources": {"status": {}}}],
    }
    own = pair.kube.get(DEFINITIONS, name) is None
    meta = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}}
    if own:
        pair.kube.create(DEFINITIONS, {**meta, "spec": spec})

    def is_served() -> bool:
        found: Any = pair.kube.get(DEFINITIONS, name) or {}
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any(item["type"] == "Established" and item["status"] == "True" for item in conditions)

    until("the kind to be served", is_served, timeout_seconds=120)
    yield pair.kube
    if own:
        pair.kube.delete(DEFINITIONS, name)


def test_kind_that_is_not_served(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its CustomResourceDefinition, no check finds anything, and the gate says what is missing."""
    for module in (protector_gate, preflight_protectors):
        monkeypatch.setattr(module, "POD_PROTECTORS", Kind("podseidon.kubewharf.io/v0", "podprotectors"))
    assert ids(pair.kube, check_protectors) == []
    verdict = ProtectorGate(pair.kube, FakeClock(), "shop", "web").check()
    assert verdict.kind is VerdictKind.UNKNOWN
    assert "is not installed" in verdict.reason


def test_protector(protectors: KubeAdapter) -> None:
    """Not there, not counted, below its minimum, whole."""
    kube = protectors
    gate = ProtectorGate(kube, FakeClock(), "shop", "web")
    until("the kind to be known", lambda: "does not exist" in gate.check().reason, timeout_seconds=120)
    found = {
        "apiVersion": POD_PROTECTORS.api_version,
        "kind": "PodProtector",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}},
    }
    kube.create(POD_PROTECTORS, found, "shop")
    assert "no aggregator has counted" in gate.check().reason
    assert ids(kube, check_protectors) == ["protectors.not-counted"]

    def counted(estimate: int, at: datetime) -> None:
        counts = {"totalReplicas": 3, "availableReplicas": 3, "lastEventTime": at.isoformat()}
        cell = {"cellID": "core", "aggregation": counts}
        status = {"cells": [cell], "summary": {"estimatedAvailableReplicas": estimate}}
        kube.patch(POD_PROTECTORS, "web", {"status": status}, "shop", subresource="status")

    counted(3, kube.server_time() - timedelta(minutes=5))
    assert ids(kube, check_protectors) == ["protectors.not-counted"]
    counted(2, kube.server_time())
    assert gate.check().kind is VerdictKind.PENDING
    assert ids(kube, check_protectors) == ["protectors.below-minimum"]
    counted(3, kube.server_time())
    assert gate.check().kind is VerdictKind.HOLDS
    gates = (WorkloadGate("protector", "shop", "web", GatePolicy()),)
    assert ids(kube, check_protectors) == []
    (met,) = check_protectors(replace(checked(kube), workload_gates=gates))
    assert met.id == "protectors.met"

    def of_a_drain() -> list[str]:
        context, old = checked(kube), KubernetesVersion(1, 36, 3)
        assert context.plan is not None
        pool, change = NodePool("workers"), NodeChange("worker-1", old, old)
        drain = PlannedNodes(pool, (change,), old, NodeSource("packages"), 300.0, 1, Path("/p"))
        return [each.id for each in check_protectors(replace(context, plan=replace(context.plan, steps=(drain,))))]

    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": True}
    meta = {"name": "web-0", "labels": {"app": "web"}, "ownerReferences": [owner]}
    pod = {"nodeName": "worker-1", "containers": [{"name": "x", "image": "x"}], "terminationGracePeriodSeconds": 0}
    kube.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod}, "shop")
    assert of_a_drain() == ["protectors.never-allow", "protectors.met"]
    kube.patch(POD_PROTECTORS, "web", {"spec": {"minAvailable": 2}}, "shop")
    assert of_a_drain() == ["protectors.met"]
    kube.delete(PODS, "web-0", "shop")
