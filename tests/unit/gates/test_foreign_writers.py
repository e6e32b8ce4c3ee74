"""A workload that others change back is told from one that is only slow."""

from __future__ import annotations

from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.kube import FakeKube
from tests.unit.gates.builders import add_deployment, add_pod, running
from upgrader.errors import WorkloadFailed
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.gate_catalog import GateCatalog
from upgrader.gates.kubernetes_kinds import WORKLOADS
from upgrader.gates.rollout_gate import RolloutGate
from upgrader.gates.workload_watcher import watch_workloads
from upgrader.model.cluster import Cluster
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.outcome import VerdictKind

MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {containers: [{name: main, image: web:v2}]}}}
"""


def put(kube: FakeKube, image: str, generation: int, owner: str = "") -> None:
    """The Deployment, all of it Ready, with that image; `owner`: who has taken the image from Helm."""
    add_deployment(kube, generation=generation, revision=generation)
    add_pod(kube, "web", running(), revision=generation)
    found: dict[str, Any] = dict(kube.get(WORKLOADS["Deployment"], "web", "kube-system") or {})
    found["spec"]["template"] = {"spec": {"containers": [{"name": "main", "image": image}]}}
    found["metadata"]["managedFields"] = [
        {"manager": manager, "time": "2026-01-01T10:00:00Z", "fieldsV1": _fields(image=manager == (owner or "helm"))}
        for manager in filter(None, ("helm", owner))
    ]
    kube.put(WORKLOADS["Deployment"], found)


def _fields(*, image: bool) -> dict[str, Any]:
    container: dict[str, Any] = {".": {}, "f:name": {}, **({"f:image": {}} if image else {})}
    return {"f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"main"}': container}}}}}


def gate(kube: FakeKube, cluster: Cluster, *, applied: bool = True) -> RolloutGate:
    """The gate of the Deployment behind a step that has applied the manifest, or hasn't."""
    catalog = GateCatalog(kube, FakeClock(), cluster, GatePolicy())
    found = catalog.own("shop", MANIFEST, namespace="kube-system", target=None, applied=applied)[0].gate
    assert isinstance(found, RolloutGate)
    return found


def test_reverted_workload_is_broken_however_healthy_it_is(kube: FakeKube, cluster: Cluster) -> None:
    """All of its pods are Ready, but of the old image: the gate names who wrote it, and how to pause that."""
    put(kube, "web:v1", 3, owner="argocd-controller")
    verdict = gate(kube, cluster).check()
    assert verdict.kind is VerdictKind.BROKEN
    assert "field manager argocd-controller changed" in verdict.reason and "web:v1" in verdict.reason
    assert "argocd app set APP --sync-policy none" in verdict.remedy
    assert "--show-managed-fields" in verdict.remedy


@pytest.mark.parametrize(
    ("manager", "command"),
    [("helm-controller", "flux suspend helmrelease"), ("kustomize-controller", "flux suspend kustomization")],
)
def test_flux_is_paused_by_what_owns_the_release(kube: FakeKube, cluster: Cluster, manager: str, command: str) -> None:
    """Its two controllers have field managers, and commands, of their own."""
    put(kube, "web:v1", 3, owner=manager)
    assert command in gate(kube, cluster).check().remedy


def test_what_helm_applied_holds(kube: FakeKube, cluster: Cluster) -> None:
    """Nobody else wrote the image."""
    put(kube, "web:v2", 2)
    assert gate(kube, cluster).check().kind is VerdictKind.HOLDS


def test_without_a_change_of_its_own_a_step_doesnt_look(kube: FakeKube, cluster: Cluster) -> None:
    """Behind an undo, or a release that stays as it is, an old edit is nobody's failure."""
    put(kube, "web:v1", 3, owner="kubectl-edit")
    assert gate(kube, cluster, applied=False).check().kind is VerdictKind.HOLDS


def test_api_that_doesnt_answer_is_unknown(kube: FakeKube, cluster: Cluster) -> None:
    """Whether it was changed back can't be told then."""
    put(kube, "web:v1", 3, owner="kubectl-edit")
    kube.unavailable = True
    assert gate(kube, cluster).check().kind is VerdictKind.UNKNOWN


def test_helms_wait_ends_once_others_change_it_back(kube: FakeKube) -> None:
    """Helm would wait for a rollout that isn't its own any more, and call it deployed."""
    put(kube, "web:v1", 1)
    clock = FakeClock()
    watch = watch_workloads(kube, MANIFEST, clock=clock, namespace="kube-system", absence=ApiAbsence(kube, clock, 60.0))
    put(kube, "web:v2", 2)
    watch()
    put(kube, "web:v1", 3, owner="argocd-controller")
    watch()
    with pytest.raises(WorkloadFailed, match="field manager argocd-controller changed"):
        watch()
