"""Checks of what others install in a cluster, on a real one: what it really says of each.

What needs an API server alone is in test_checks_of_api_servers.py.
"""

from __future__ import annotations

import base64
import uuid
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from testkit.lab_cluster import until
from tests.contract.checking import GROUP, Make, Status, fake_node, findings, found, rewrite_record, waiting_pod
from upgrader.adapters.helm import HelmAdapter
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import ApiError, HelmError
from upgrader.gates.kubernetes_kinds import SERVICE_CIDRS, SERVICES
from upgrader.model.release import ReleaseSpec
from upgrader.ports import Kind
from upgrader.preflight.context import NODES, PODS
from upgrader.preflight.disruption_budgets import check_disruption_budgets
from upgrader.preflight.namespaces import check_namespaces
from upgrader.preflight.networks import check_networks
from upgrader.preflight.removed_apis import check_removed_apis
from upgrader.preflight.served_apis import check_served_apis
from upgrader.preflight.webhooks import check_webhooks

VALIDATING = Kind("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", namespaced=False)
API_SERVICES = Kind("apiregistration.k8s.io/v1", "apiservices", namespaced=False)
BUDGETS = Kind("policy/v1", "poddisruptionbudgets")
NAMESPACES = Kind("v1", "namespaces", namespaced=False)
SECRETS = Kind("v1", "secrets")
ACCOUNTS = Kind("v1", "serviceaccounts")
SLICES = Kind("discovery.k8s.io/v1", "endpointslices")
NOBODY = {"namespace": "default", "name": "nobody"}


def test_webhook_without_a_backend(kube: KubeAdapter, made: Make) -> None:
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


def test_webhook_over_the_control_plane(kube: KubeAdapter, made: Make) -> None:
    """With a backend that is ready, it is in the way all the same; with failurePolicy Ignore, it isn't."""
    service = made(SERVICES, {"metadata": {}, "spec": {"ports": [{"port": 443}]}}, "default")
    slice_ = {
        "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.9"], "conditions": {"ready": True}}],
    }
    made(SLICES, slice_, "default")
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE"]}
    hook = {
        "name": f"daemonsets.{GROUP}",
        "clientConfig": {"service": {"namespace": "default", "name": service}},
        "rules": [{**rule, "resources": ["daemonsets"]}],
        "objectSelector": {"matchLabels": {GROUP: "nothing-has-this"}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    name = made(VALIDATING, {"metadata": {}, "webhooks": [{**hook, "failurePolicy": "Ignore"}]})
    assert found(kube, check_webhooks, name) == []
    other = made(VALIDATING, {"metadata": {}, "webhooks": [hook]})
    assert found(kube, check_webhooks, other) == ["webhooks.catches-control-plane"]


def test_aggregated_api_without_a_backend(kube: KubeAdapter, made: Make) -> None:
    """The API server's own verdict on an APIService is the finding; those of a healthy cluster are none."""
    assert [item for item in findings(kube, check_served_apis) if item.id == "apis.unavailable"] == []
    spec = {"group": GROUP, "version": "v1", "service": NOBODY, "groupPriorityMinimum": 1000, "versionPriority": 10}
    name = made(API_SERVICES, {"metadata": {"name": f"v1.{GROUP}"}, "spec": {**spec, "insecureSkipTLSVerify": True}})
    until("the APIService to be judged", lambda: "ServiceNotFound" in _said(kube, name), timeout_seconds=120)
    assert found(kube, check_served_apis, name) == ["apis.unavailable"]


def _said(kube: KubeAdapter, name: str) -> str:
    return "".join(item.diagnosis for item in findings(kube, check_served_apis) if name in item.title)


def test_service_cidr_within_a_pod_cidr(kube: KubeAdapter, made: Make) -> None:
    """Kubernetes admits it without a word. The lab's own networks, flags and numbers of addresses are no finding."""
    assert findings(kube, check_networks) == []
    cidr = kube.list(NODES)[0]["spec"]["podCIDR"]
    inside = f"{cidr.rpartition('.')[0]}.240/29"
    name = made(SERVICE_CIDRS, {"metadata": {}, "spec": {"cidrs": [inside]}})
    assert found(kube, check_networks, inside) == ["networks.overlap"]
    kube.delete(SERVICE_CIDRS, name)  # it takes ten seconds, for which the other tests are


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
        rewrite_record(kube, name, "apiVersion: policy/v1beta1\nkind: PodSecurityPolicy\nmetadata: {name: old}\n")
        (finding,) = [item for item in findings(kube, check_removed_apis) if name in item.title]
        assert (finding.id, finding.severity) == ("removed-apis.others", "warning")
        assert "PodSecurityPolicy old: policy/v1beta1 was removed in v1.25" in finding.diagnosis
        with pytest.raises(HelmError, match=r"unable to build kubernetes objects|removed kubernetes api"):
            helm.upgrade(ReleaseSpec(name, "default", tmp_path), timeout_seconds=60, watch=lambda: None)
    finally:
        kube.delete(SECRETS, f"sh.helm.release.v1.{name}.v1", "default")
        kube.delete(SECRETS, f"sh.helm.release.v1.{name}.v2", "default")
        kube.delete(Kind("v1", "configmaps"), "outdated", "default")
        helm.close()


def test_release_whose_record_is_damaged(kube: KubeAdapter, made: Make) -> None:
    """A Secret that says to be Helm's, and holds something else."""
    name = f"upgrader-check-{uuid.uuid4().hex[:6]}"
    assert found(kube, check_removed_apis, name) == []
    labels = {"owner": "helm", "status": "deployed", "name": name, "version": "1"}
    data = {"release": base64.b64encode(b"no release").decode()}
    made(SECRETS, {"metadata": {"labels": labels}, "type": "helm.sh/release.v1", "data": data}, "default")
    assert found(kube, check_removed_apis, name) == ["removed-apis.damaged"]


def test_namespace_that_can_not_be_deleted(kube: KubeAdapter, made: Make) -> None:
    """A ConfigMap with a finalizer that nobody removes keeps it; the API server says so in its conditions."""
    maps = Kind("v1", "configmaps")
    name = made(NAMESPACES, {"metadata": {}})
    kept = {"metadata": {"name": "kept", "finalizers": [f"{GROUP}/nobody"]}}
    kube.create(maps, kept, name)
    try:
        kube.delete(NAMESPACES, name)
        until("the namespace to be stuck", lambda: "finalizers" in _why_stuck(kube, name), timeout_seconds=120)
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


def test_budget_without_room(kube: KubeAdapter, made: Make) -> None:
    """The numbers that kube-controller-manager computes; a pod that isn't scheduled counts. A lab has none itself."""
    assert findings(kube, check_disruption_budgets) == []
    namespace = made(NAMESPACES, {"metadata": {}})
    kube.create(BUDGETS, pod_disruption_budget("web", {"app": "web"}, minAvailable=1), namespace)
    spec = {
        "containers": [{"name": "main", "image": "nothing.example/nothing"}],
        "nodeSelector": {GROUP: "no-node-has-this"},
        "automountServiceAccountToken": False,
    }
    until("the budget to be observed", lambda: not _budgets(kube, namespace), timeout_seconds=120)
    until("a ServiceAccount", lambda: _created(kube, namespace, spec), timeout_seconds=120)
    until("the budget to count its pod", lambda: bool(_budgets(kube, namespace)), timeout_seconds=120)
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


def test_budget_whose_pods_are_not_ready(kube: KubeAdapter, made: Make, status: Status) -> None:
    """One of two must stay, and none is Ready: nothing may be evicted now, though it may later."""
    node, labels = fake_node(made, status), {"app": "web"}
    namespace = made(NAMESPACES, {"metadata": {}})
    kube.create(BUDGETS, pod_disruption_budget("web", labels, minAvailable=1), namespace)
    until("a ServiceAccount", lambda: kube.get(ACCOUNTS, "default", namespace) is not None, timeout_seconds=120)
    pods = [waiting_pod(made, node, {"name": "main"}, namespace, labels=labels) for _ in range(2)]
    unhealthy = ["disruption-budgets.unhealthy"]
    # While pods come, kube-controller-manager may fail to compute it for a moment.
    until("the budget to count both", lambda: _budgets(kube, namespace) == unhealthy, timeout_seconds=120)
    ready = [{"type": kind, "status": "True"} for kind in ("Ready", "ContainersReady")]
    for pod in pods:
        status(PODS, pod, namespace, {"phase": "Running", "conditions": ready})
    until("the budget to be met", lambda: _budgets(kube, namespace) == [], timeout_seconds=120)


def test_budget_that_can_not_be_computed(kube: KubeAdapter, made: Make, status: Status) -> None:
    """With maxUnavailable, pods need a controller whose size is known; kube-controller-manager says that it isn't."""
    node, labels = fake_node(made, status), {"app": "web"}
    namespace = made(NAMESPACES, {"metadata": {}})
    until("a ServiceAccount", lambda: kube.get(ACCOUNTS, "default", namespace) is not None, timeout_seconds=120)
    kube.create(BUDGETS, pod_disruption_budget("web", labels, maxUnavailable=1), namespace)
    until("the budget to be observed", lambda: _budgets(kube, namespace) == [], timeout_seconds=120)
    owner = {"apiVersion": f"{GROUP}/v1", "kind": "Nothing", "name": "x", "uid": str(uuid.uuid4()), "controller": True}
    waiting_pod(made, node, {"name": "main"}, namespace, labels=labels, ownerReferences=[owner])
    until("it to fail", lambda: bool(_budgets(kube, namespace)), timeout_seconds=120)
    assert _budgets(kube, namespace) == ["disruption-budgets.not-computed"]


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
            until("the budget to count its pods", partial(_settled, kube, name), timeout_seconds=120)
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


def test_service_cidr_that_is_gone(kube: KubeAdapter) -> None:
    """What an earlier test has deleted is no finding any more."""
    until("no ServiceCIDR to be deleted", lambda: not _deleted_cidrs(kube), timeout_seconds=120)
    assert findings(kube, check_networks) == []


def _deleted_cidrs(kube: KubeAdapter) -> list[str]:
    found = (each["metadata"] for each in kube.list(SERVICE_CIDRS))
    return [each["name"] for each in found if "deletionTimestamp" in each]
