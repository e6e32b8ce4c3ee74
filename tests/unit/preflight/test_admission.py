"""Whether the API would admit the pods that a run creates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.preflight.conftest import World, workload
from upgrader.errors import ApiError
from upgrader.ports import Kind, KubeObject
from upgrader.preflight.admission import check_admission
from upgrader.preflight.context import DEPLOYMENTS, PODS

MANIFEST = """
kind: ServiceAccount
metadata: {name: proxy, namespace: kube-system}
---
kind: DaemonSet
metadata: {name: proxy, namespace: kube-system}
spec:
  template:
    metadata: {labels: {app: proxy}, annotations: {a: b}}
    spec: {serviceAccountName: proxy, containers: []}
---
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {serviceAccountName: web, containers: []}}}
"""


def test_pods_that_are_admitted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One pod of each workload is tried and none is created; an account that the release brings isn't named yet."""
    tried: list[tuple[KubeObject, str, bool]] = []

    def create(kind: Kind, manifest: KubeObject, namespace: str, **more: Any) -> KubeObject:
        if kind == PODS:
            tried.append((manifest, namespace, more["dry_run"]))
        return manifest

    world.manifests["kubernetes"] = MANIFEST
    before = world.kube.list(PODS)
    assert world.find(check_admission) == {}
    assert world.kube.list(PODS) == before
    monkeypatch.setattr(world.kube, "create", create)
    assert world.find(check_admission) == {}
    (proxy, *where), (web, *_) = tried
    assert where == ["kube-system", True]
    assert proxy["metadata"] == {"labels": {"app": "proxy"}, "annotations": {"a": "b"}, "name": "proxy-dry-run"}
    assert "serviceAccountName" not in proxy["spec"] and web["spec"]["serviceAccountName"] == "web"


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ('failed calling webhook "deny.example.com": connection refused', "Fix the webhook's backend"),
        ('pods "web" is forbidden: violates PodSecurity "restricted:latest"', "kubectl label --overwrite namespace"),
        ('pods "web" is forbidden: exceeded quota: few', "describe resourcequotas"),
        ('namespaces "kube-system" not found', "kubectl create namespace kube-system"),
        ("the name is bad", "Change the values of release kubernetes"),
    ],
)
def test_pod_that_is_refused(world: World, message: str, remedy: str) -> None:
    """Neither the upgrade nor its rollback could create it, so the run is refused; the remedy is for what refuses."""
    world.manifests["kubernetes"] = MANIFEST.partition("---")[2].partition("---")[2]
    world.kube.refuses_dry_run = ApiError(message)
    found = world.find(check_admission)["admission.refused"]
    assert (found.severity, found.diagnosis) == ("error", message)
    assert remedy in found.remedy


def test_webhook_that_cannot_be_tried(world: World) -> None:
    """A webhook with side effects refuses every dry run, which says nothing about a real pod."""
    world.manifests["kubernetes"] = MANIFEST.partition("---")[2].partition("---")[2]
    world.kube.refuses_dry_run = ApiError('admission webhook "x" does not support dry run')
    assert world.find(check_admission)["admission.untested"].severity == "info"


@pytest.mark.parametrize("label", ["upgrader.io/probe", "app.kubernetes.io/managed-by"])
def test_what_gates_write_is_tried(world: World, monkeypatch: pytest.MonkeyPatch, label: str) -> None:
    """A policy or a full quota of kube-system that refuses their ConfigMaps fails the gates of a good upgrade, which is
    then rolled back: it is found before the run. Nothing of it is tried where no release changes.
    """
    refused = ApiError('configmaps "x" is forbidden: exceeded quota: few')

    def create(kind: Kind, manifest: KubeObject, namespace: str, **more: Any) -> KubeObject:
        assert more == {"dry_run": True}
        if manifest["kind"] == "ConfigMap" and label in manifest["metadata"]["labels"]:
            assert namespace == "kube-system"
            raise refused
        return manifest

    monkeypatch.setattr(world.kube, "create", create)
    assert world.find(check_admission) == {}
    world.manifests["kube-apiserver"] = MANIFEST
    found = world.find(check_admission)["admission.refused"]
    assert found.blocking and "ConfigMap kube-system/upgrader-" in found.title
    assert "kubectl -n kube-system describe resourcequotas" in found.remedy
    refused = ApiError("denied: no label `owner`")
    assert "ConfigMaps" in world.find(check_admission)["admission.refused"].remedy
    refused.status = 409  # it exists: an earlier prober was killed
    assert world.find(check_admission) == {}
    refused = ApiError('admission webhook "x" does not support dry run')
    assert world.find(check_admission).keys() == {"admission.untested"}


def test_nothing_is_tried_that_no_gate_of_the_run_writes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy on kube-system doesn't block a run without kube-apiserver whose prober is turned off."""

    def create(kind: Kind, manifest: KubeObject, namespace: str, **more: Any) -> KubeObject:
        if manifest["kind"] == "ConfigMap":
            tried.append(manifest["metadata"]["name"])
        return manifest

    monkeypatch.setattr(world.kube, "create", create)
    for release, probes, expected in (
        ("kubernetes", False, []),
        ("kubernetes", True, ["upgrader-availability"]),
        ("kube-apiserver", False, ["upgrader-probe-dry-run"]),
    ):
        tried = list[str]()
        world.manifests.clear()
        world.manifests[release] = MANIFEST
        assert list(check_admission(replace(world.context(), probes=probes))) == []
        assert tried == expected


BROUGHT = """
kind: Namespace
metadata: {name: metallb-system}
---
kind: PriorityClass
metadata: {name: mine}
---
kind: RuntimeClass
metadata: {name: gvisor}
---
kind: Deployment
metadata: {name: a, namespace: metallb-system}
spec: {template: {spec: {priorityClassName: mine, runtimeClassName: gvisor, containers: []}}}
"""


def test_what_the_release_itself_brings_is_no_reason(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod in a new namespace can't be tried yet, which is said; new classes are left out of the trial."""
    tried: list[KubeObject] = []

    def create(kind: Kind, manifest: KubeObject, namespace: str, **more: Any) -> KubeObject:
        if kind == PODS:
            tried.append(manifest)
        return manifest

    world.manifests["kubernetes"] = BROUGHT
    found = world.find(check_admission)
    assert found.keys() == {"admission.untested"} and found["admission.untested"].severity == "info"
    assert "metallb-system" in found["admission.untested"].diagnosis
    world.manifests["kubernetes"] = BROUGHT.replace("metallb-system", "kube-system").partition("---")[2]
    monkeypatch.setattr(world.kube, "create", create)
    assert world.find(check_admission) == {}
    assert tried[0]["spec"] == {"containers": []}


def test_namespace_that_exists_is_tried(world: World) -> None:
    """A release may take over a namespace that is there: its pods are tried in it."""
    world.manifests["kubernetes"] = BROUGHT
    world.kube.put(Kind("v1", "namespaces", namespaced=False), {"metadata": {"name": "metallb-system"}})
    world.kube.refuses_dry_run = ApiError("exceeded quota: few")
    assert world.find(check_admission).keys() == {"admission.refused"}


def test_limits_that_the_chart_does_not_have(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A LimitRange adds them, and the pod is admitted: a warning that names each; its own limits are no finding."""
    own = {"name": "main", "resources": {"limits": {"memory": "1Gi"}}}
    world.manifests["kubernetes"] = workload(own)
    assert world.find(check_admission) == {}
    limited = {"name": "main", "resources": {"limits": {"memory": "1Gi", "cpu": "100m"}}}
    admitted = {"spec": {"containers": [limited]}}
    monkeypatch.setattr(world.kube, "create", lambda kind, item, *_, **__: admitted if kind == PODS else item)
    found = world.find(check_admission)["admission.limits"]
    assert found.severity == "warning" and found.title.endswith("doesn't set: main: cpu 100m")


@pytest.mark.parametrize(("given", "found"), [(20, True), (45, False), (60, False), (None, False)])
@pytest.mark.parametrize("policy_for", ["pods", "workloads", "new workloads", "pods and workloads"])
def test_pods_that_get_less_time_to_end(
    world: World, monkeypatch: pytest.MonkeyPatch, policy_for: str, given: int | None, found: bool
) -> None:
    """A policy shortens the grace period of pods, of the workload, or of both: one warning with both times."""

    def mutated(manifest: KubeObject, what: str) -> KubeObject:
        if what not in policy_for:
            return manifest
        spec: KubeObject = {"containers": [], "terminationGracePeriodSeconds": given}
        return {**manifest, "spec": spec if what == "pods" else {"template": {"spec": spec}}}

    name = "mine" if policy_for == "new workloads" else "kube-apiserver"
    template = "{spec: {terminationGracePeriodSeconds: 45, containers: []}}"
    world.manifests[name] = f"kind: Deployment\nmetadata: {{name: {name}}}\nspec: {{template: {template}}}"
    monkeypatch.setattr(
        world.kube, "create", lambda kind, item, *_, **__: mutated(item, "pods" if kind == PODS else "workloads")
    )
    monkeypatch.setattr(world.kube, "dry_patch", lambda kind, name, item, *_: mutated(item, "workloads"))
    findings = list(check_admission(world.context()))
    assert [finding.id for finding in findings] == ["admission.grace-period"] * found
    for finding in findings:
        assert finding.severity == "warning" and finding.title.endswith("of its pods is 20 s, but 45 s in the chart")


API_SERVER = """
kind: Deployment
metadata: {name: kube-apiserver, namespace: kube-system, labels: {team: a}}
spec: {replicas: 9, template: {metadata: {labels: {app: b}}, spec: {hostNetwork: true, containers: [{name: main}]}}}
"""


def test_workload_that_a_policy_refuses(world: World) -> None:
    """A policy for Deployments, which admits pods: it would refuse Helm's upgrade, and Helm's rollback after it."""
    world.manifests["kube-apiserver"] = API_SERVER
    assert world.find(check_admission) == {}
    world.kube.refuses_dry_patch["kube-apiserver"] = refused = ApiError(
        "deployments.apps \"kube-apiserver\" is forbidden: ValidatingAdmissionPolicy 'teams' denied request"
    )
    found = world.find(check_admission)["admission.refused"]
    assert found.title == "Deployment kube-system/kube-apiserver: the API refuses it"
    assert found.diagnosis == refused.message and "the policy that rejects" in found.remedy


def test_only_what_makes_pods_is_tried_of_a_workload(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Helm writes it, with its annotation; another client's `replicas`, and what the API server fills in, are no
    part of it. What is gone from the template is taken out.
    """
    live = world.kube.get(DEPLOYMENTS, "kube-apiserver", "kube-system")
    assert live is not None
    template = {"metadata": {"labels": {"app": "a", "old": "x"}}, "spec": {"dnsPolicy": "Default", "containers": [{}]}}
    world.kube.put(DEPLOYMENTS, {**live, "spec": {**live["spec"], "template": template}})
    tried: list[KubeObject] = []

    def dry_patch(kind: Kind, name: str, changes: KubeObject, namespace: str) -> KubeObject:
        tried.append(changes)
        return changes

    monkeypatch.setattr(world.kube, "dry_patch", dry_patch)
    world.manifests["kube-apiserver"] = API_SERVER
    assert world.find(check_admission) == {}
    (changes,) = tried
    assert changes == {
        "metadata": {
            "labels": {"team": "a", "app.kubernetes.io/managed-by": "Helm"},
            "annotations": {"meta.helm.sh/release-name": "kube-apiserver"},
        },
        "spec": {
            "template": {
                "metadata": {"labels": {"app": "b", "old": None}},
                "spec": {"hostNetwork": True, "dnsPolicy": None, "containers": [{"name": "main"}]},
            }
        },
    }


def test_new_workload_that_a_policy_refuses(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that isn't there yet is created, dry."""

    def create(kind: Kind, manifest: KubeObject, namespace: str, **more: Any) -> KubeObject:
        assert more["dry_run"]
        if kind == DEPLOYMENTS:
            raise ApiError('admission webhook "policy.example" denied the request: no owner')
        return manifest

    monkeypatch.setattr(world.kube, "create", create)
    world.manifests["mine"] = API_SERVER.replace("kube-apiserver", "mine")
    assert world.find(check_admission)["admission.refused"].title == "Deployment kube-system/mine: the API refuses it"
