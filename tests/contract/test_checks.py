"""Checks of what others install in a cluster, on a real API server: what it really says of each."""

from __future__ import annotations

import base64
import gzip
import json
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.lab_cluster import until
from upgrader.adapters.clock import SystemClock
from upgrader.adapters.helm import HelmAdapter
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import ApiError, HelmError
from upgrader.gates.kubernetes_kinds import SERVICE_CIDRS
from upgrader.model.cluster import Cluster, Host
from upgrader.model.finding import Finding
from upgrader.model.observed import Observed
from upgrader.model.release import ReleaseSpec
from upgrader.model.version import KubernetesVersion
from upgrader.ports import Kind
from upgrader.preflight.all_checks import Check, run_checks
from upgrader.preflight.context import NODES, PODS, PreflightContext
from upgrader.preflight.custom_resources import check_custom_resources
from upgrader.preflight.disruption_budgets import check_disruption_budgets
from upgrader.preflight.namespaces import check_namespaces
from upgrader.preflight.networks import check_networks
from upgrader.preflight.removed_apis import check_removed_apis
from upgrader.preflight.served_apis import check_served_apis
from upgrader.preflight.webhooks import check_webhooks

VALIDATING = Kind("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", namespaced=False)
API_SERVICES = Kind("apiregistration.k8s.io/v1", "apiservices", namespaced=False)
DEFINITIONS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)
BUDGETS = Kind("policy/v1", "poddisruptionbudgets")
NAMESPACES = Kind("v1", "namespaces", namespaced=False)
SECRETS = Kind("v1", "secrets")
GROUP = "check.upgrader.example"
NOBODY = {"namespace": "default", "name": "nobody"}


@pytest.fixture
def kube(lab_folder: Path) -> Iterator[KubeAdapter]:
    """The real API."""
    adapter = KubeAdapter(lab_folder / "kubeconfig")
    try:
        yield adapter
    finally:
        adapter.close()


def findings(kube: KubeAdapter, check: Check, *, later: timedelta = timedelta()) -> list[Finding]:
    """What a check finds on the cluster, whose controllers are those with the label, on a clock that is ahead."""
    controllers = kube.list(NODES, labels="node-role.kubernetes.io/control-plane")
    hosts = tuple(Host(node["metadata"]["name"], "") for node in controllers)
    clock = FakeClock()
    clock.sleep((SystemClock().now() + later - clock.now()).total_seconds())
    context = PreflightContext(
        kube,
        FakeHosts(),
        FakeHelm(),
        clock,
        Cluster(Path(), Path(), "", Path(), hosts),
        KubernetesVersion(1, 37, 1),
        Observed(KubernetesVersion(1, 36, 3), {}, {}),
        300.0,
    )
    return list(run_checks(context, [("family", check)]))


def found(kube: KubeAdapter, check: Check, name: str, **more: Any) -> list[str]:
    """The ids of the findings that name an object."""
    return [finding.id for finding in findings(kube, check, **more) if name in finding.title]


@pytest.fixture
def made(kube: KubeAdapter) -> Iterator[Callable[[Kind, dict[str, Any]], str]]:
    """Creates objects of a random name, unless they have one, and deletes them afterwards."""
    created: list[tuple[Kind, str]] = []

    def make(kind: Kind, manifest: dict[str, Any]) -> str:
        name = manifest["metadata"].setdefault("name", f"upgrader-check-{uuid.uuid4().hex[:6]}")
        created.append((kind, name))
        kube.create(kind, manifest)
        return str(name)

    yield make
    for kind, name in reversed(created):
        kube.delete(kind, name)


def test_webhook_without_a_backend(kube: KubeAdapter, made: Callable[[Kind, dict[str, Any]], str]) -> None:
    """The API server fills in the defaults that make it dangerous: Fail, and every namespace."""
    hook = {
        "name": f"pods.{GROUP}",
        "clientConfig": {"service": NOBODY},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "objectSelector": {"matchLabels": {GROUP: "nothing-has-this"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 15,
    }
    name = made(VALIDATING, {"metadata": {}, "webhooks": [hook]})
    assert found(kube, check_webhooks, name) == ["webhooks.no-backend", "webhooks.slow"]
    kube.delete(VALIDATING, name)
    assert found(kube, check_webhooks, name) == []


def test_aggregated_api_without_a_backend(kube: KubeAdapter, made: Callable[[Kind, dict[str, Any]], str]) -> None:
    """The API server's own verdict on an APIService is the finding; those of a healthy cluster are none."""
    assert [item for item in findings(kube, check_served_apis) if item.id == "apis.unavailable"] == []
    spec = {"group": GROUP, "version": "v1", "service": NOBODY, "groupPriorityMinimum": 1000, "versionPriority": 10}
    name = made(API_SERVICES, {"metadata": {"name": f"v1.{GROUP}"}, "spec": {**spec, "insecureSkipTLSVerify": True}})
    until("the APIService to be judged", lambda: "ServiceNotFound" in _said(kube, name), timeout_seconds=30)
    assert found(kube, check_served_apis, name) == ["apis.unavailable"]


def _said(kube: KubeAdapter, name: str) -> str:
    return "".join(item.diagnosis for item in findings(kube, check_served_apis) if name in item.title)


def test_deprecated_api_that_was_used(kube: KubeAdapter) -> None:
    """A read of Endpoints, deprecated since v1.33, is counted by the API server, and named."""
    kube.list(Kind("v1", "endpoints"), "default")
    (finding,) = [item for item in findings(kube, check_served_apis) if item.id == "apis.requested-deprecated"]
    assert "v1/endpoints" in finding.title


def test_release_with_an_api_that_is_gone(kube: KubeAdapter, lab_folder: Path, tmp_path: Path) -> None:
    """A record that Helm itself wrote is read; the manifests of the lab's own releases are no finding."""
    assert [item for item in findings(kube, check_removed_apis) if item.severity != "info"] == []
    name = f"upgrader-check-{uuid.uuid4().hex[:6]}"
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: outdated\nversion: 0.1.0\n")
    (tmp_path / "templates" / "map.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: outdated}\n")
    helm = HelmAdapter(lab_folder / "kubeconfig")
    try:
        helm.upgrade(ReleaseSpec(name, "default", tmp_path), timeout_seconds=60, watch=lambda: None)
        assert found(kube, check_removed_apis, name) == []
        _write_manifest(kube, name, "apiVersion: policy/v1beta1\nkind: PodSecurityPolicy\nmetadata: {name: old}\n")
        (finding,) = [item for item in findings(kube, check_removed_apis) if name in item.title]
        assert (finding.id, finding.severity) == ("removed-apis.others", "warning")
        assert "PodSecurityPolicy old: policy/v1beta1 is gone since v1.25" in finding.diagnosis
        with pytest.raises(HelmError, match=r"unable to build kubernetes objects|removed kubernetes api"):
            helm.upgrade(ReleaseSpec(name, "default", tmp_path), timeout_seconds=60, watch=lambda: None)
    finally:
        kube.delete(SECRETS, f"sh.helm.release.v1.{name}.v1", "default")
        kube.delete(SECRETS, f"sh.helm.release.v1.{name}.v2", "default")
        kube.delete(Kind("v1", "configmaps"), "outdated", "default")
        helm.close()


def _write_manifest(kube: KubeAdapter, release: str, manifest: str) -> None:
    """Let the record of a release's first revision have another manifest, as one that is older than the cluster has."""
    secret = kube.get(SECRETS, f"sh.helm.release.v1.{release}.v1", "default")
    assert secret is not None
    kept = json.loads(gzip.decompress(base64.b64decode(base64.b64decode(secret["data"]["release"]))))
    packed = base64.b64encode(gzip.compress(json.dumps({**kept, "manifest": manifest}).encode()))
    data = {"release": base64.b64encode(packed).decode()}
    kube.replace(SECRETS, {**secret, "data": data}, "default")


def test_conversion_webhook_without_a_backend(kube: KubeAdapter, made: Callable[[Kind, dict[str, Any]], str]) -> None:
    """A definition with two versions and nobody to convert between them."""
    schema = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "metadata": {"name": f"widgets.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": schema},
                {"name": "v2", "served": True, "storage": False, "schema": schema},
            ],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": {"service": NOBODY}, "conversionReviewVersions": ["v1"]},
            },
        },
    }
    assert found(kube, check_custom_resources, GROUP) == []
    made(DEFINITIONS, definition)
    assert found(kube, check_custom_resources, GROUP) == ["custom-resources.conversion"]


def test_namespace_that_can_not_be_deleted(kube: KubeAdapter, made: Callable[[Kind, dict[str, Any]], str]) -> None:
    """A ConfigMap with a finalizer that nobody removes keeps it; the API server says so in its conditions."""
    maps = Kind("v1", "configmaps")
    name = made(NAMESPACES, {"metadata": {}})
    kept = {"metadata": {"name": "kept", "finalizers": [f"{GROUP}/nobody"]}}
    kube.create(maps, kept, name)
    try:
        kube.delete(NAMESPACES, name)
        until("the namespace to be stuck", lambda: "finalizers" in _why_stuck(kube, name), timeout_seconds=60)
        assert found(kube, check_namespaces, name) == []
        assert found(kube, check_namespaces, name, later=timedelta(minutes=11)) == ["namespaces.terminating"]
    finally:
        kube.replace(maps, {"metadata": {"name": "kept", "namespace": name, "finalizers": []}}, name)


def _why_stuck(kube: KubeAdapter, name: str) -> str:
    later = timedelta(minutes=11)
    return "".join(item.diagnosis for item in findings(kube, check_namespaces, later=later) if name in item.title)


def pod_disruption_budget(name: str, labels: dict[str, str], **spec: Any) -> dict[str, Any]:
    """A PodDisruptionBudget over the pods with these labels."""
    return {"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, **spec}}


def test_budget_without_room(kube: KubeAdapter, made: Callable[[Kind, dict[str, Any]], str]) -> None:
    """The numbers that kube-controller-manager computes; a pod that isn't scheduled counts. A lab has none itself."""
    assert findings(kube, check_disruption_budgets) == []
    namespace = made(NAMESPACES, {"metadata": {}})
    kube.create(BUDGETS, pod_disruption_budget("web", {"app": "web"}, minAvailable=1), namespace)
    spec = {
        "containers": [{"name": "main", "image": "nothing.example/nothing"}],
        "nodeSelector": {GROUP: "no-node-has-this"},
        "automountServiceAccountToken": False,
    }
    until("the budget to be observed", lambda: not _budgets(kube, namespace), timeout_seconds=30)
    until("a ServiceAccount", lambda: _created(kube, namespace, spec), timeout_seconds=30)
    until("the budget to count its pod", lambda: bool(_budgets(kube, namespace)), timeout_seconds=30)
    assert _budgets(kube, namespace) == ["disruption-budgets.no-room"]
    (finding,) = [item for item in findings(kube, check_disruption_budgets) if namespace in item.title]
    assert "minAvailable 1: 1 of 1 must stay" in finding.title


def _budgets(kube: KubeAdapter, namespace: str) -> list[str]:
    return found(kube, check_disruption_budgets, namespace)


def _created(kube: KubeAdapter, namespace: str, spec: dict[str, Any]) -> bool:
    """Whether the pod is there; its namespace's ServiceAccount comes a moment after the namespace."""
    if kube.get(PODS, "web", namespace) is None:
        kube.create(PODS, {"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": spec}, namespace)
    return True


def test_two_budgets_over_one_pod(kube: KubeAdapter) -> None:
    """The eviction API answers with an error, whatever they allow; each for itself is no finding."""
    dns = {"k8s-app": "kube-dns"}
    names = [f"upgrader-check-{uuid.uuid4().hex[:6]}" for _ in range(2)]
    pod = next(item for item in kube.list(PODS, "kube-system", labels="k8s-app=kube-dns"))["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "kube-system"}}
    try:
        for number, name in enumerate(names):
            assert found(kube, check_disruption_budgets, name) == []
            kube.create(BUDGETS, pod_disruption_budget(name, dns, maxUnavailable="100%"), "kube-system")
            until("the budget to count its pods", partial(_settled, kube, name), timeout_seconds=30)
            ids = found(kube, check_disruption_budgets, name)
            assert ids == (["disruption-budgets.overlap"] if number else [])
        with pytest.raises(ApiError, match="more than one PodDisruptionBudget"):
            kube.create(Kind("v1", f"pods/{pod}/eviction"), eviction, "kube-system", dry_run=True)
    finally:
        for name in names:
            kube.delete(BUDGETS, name, "kube-system")


def _settled(kube: KubeAdapter, name: str) -> bool:
    budget = kube.get(BUDGETS, name, "kube-system") or {}
    return bool((budget.get("status") or {}).get("expectedPods"))


def test_service_cidr_within_a_pod_cidr(kube: KubeAdapter, made: Callable[[Kind, dict[str, Any]], str]) -> None:
    """Kubernetes admits it without a word. The lab's own networks, flags and numbers of addresses are no finding."""
    assert findings(kube, check_networks) == []
    cidr = kube.list(NODES)[0]["spec"]["podCIDR"]
    inside = f"{cidr.rpartition('.')[0]}.240/29"
    name = made(SERVICE_CIDRS, {"metadata": {}, "spec": {"cidrs": [inside]}})
    assert found(kube, check_networks, inside) == ["networks.overlap"]
    kube.delete(SERVICE_CIDRS, name)
    until("the ServiceCIDR to be gone", lambda: kube.get(SERVICE_CIDRS, name) is None, timeout_seconds=60)
    assert findings(kube, check_networks) == []
