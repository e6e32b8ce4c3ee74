"""A lab like a cluster, from the cluster's copy, and the real plan on it: a bad flag, an upgrade, a power cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from testkit.kinds.catalogue import Kind
from testkit.kinds.clusters import cluster_of
from testkit.kinds.columns import COLUMNS, PASSED, whole_way
from testkit.lab_cluster import LabCluster, until
from upgrader.errors import ApiError
from upgrader.lab.binaries import PAUSE
from upgrader.lab.webhooks import STUB_URL
from upgrader.ports import Kind as ApiKind

_ADMISSION = "admissionregistration.k8s.io/v1"
_NAMESPACES = ApiKind("v1", "namespaces", namespaced=False)
_CONFIG_MAPS = ApiKind("v1", "configmaps")
_DEPLOYMENTS = ApiKind("apps/v1", "deployments")
_BUDGETS = ApiKind("policy/v1", "poddisruptionbudgets")
_CLASSES = ApiKind("scheduling.k8s.io/v1", "priorityclasses", namespaced=False)
_POLICIES = ApiKind(_ADMISSION, "validatingadmissionpolicies", namespaced=False)
_WEBHOOKS = ApiKind(_ADMISSION, "validatingwebhookconfigurations", namespaced=False)
_BINDINGS = ApiKind(_ADMISSION, "validatingadmissionpolicybindings", namespaced=False)
_SECRET = "bcdfghjklmnpqr"  # a word that no pattern takes for a secret
_LABELS = {"app": "web"}
_WEBHOOK = "deployments.shop.example.com"
_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65534,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def _deployment(name: str, replicas: int) -> dict[str, Any]:
    container = {
        "name": "web",
        "image": f"registry.k8s.io/pause:{PAUSE}",
        "env": [{"name": "MODE", "value": _SECRET}],
        "securityContext": _RESTRICTED,
    }
    pods = {
        "metadata": {"labels": _LABELS, "annotations": {"note": _SECRET}},
        "spec": {"priorityClassName": "shop", "containers": [container], "tolerations": [{"operator": "Exists"}]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": _LABELS}, "template": pods}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def _furnish(cluster: LabCluster) -> None:
    """A namespace as operators have them: with a workload, a budget, a policy, and secrets where none is copied."""
    kube = cluster.kube
    labels = {"pod-security.kubernetes.io/enforce": "restricted", "team": "shop"}
    kube.apply(_NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": labels}})
    kube.apply(
        _CLASSES,
        {
            "apiVersion": _CLASSES.api_version,
            "kind": "PriorityClass",
            "metadata": {"name": "shop"},
            "value": 100,
            "description": _SECRET,
        },
    )
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"mode": _SECRET}}
    kube.apply(_CONFIG_MAPS, settings, "shop")
    kube.apply(_DEPLOYMENTS, _deployment("web", 2), "shop")
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": _LABELS}}
    kube.apply(
        _BUDGETS,
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": budget},
        "shop",
    )
    rule = {
        "apiGroups": ["apps"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["deployments"],
    }
    policy = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.spec.replicas < 100", "message": "too many"}],
    }
    for kind, name, spec in (
        (_POLICIES, "ValidatingAdmissionPolicy", policy),
        (
            _BINDINGS,
            "ValidatingAdmissionPolicyBinding",
            {"policyName": "few-replicas", "validationActions": ["Deny"]},
        ),
    ):
        item = {"apiVersion": _ADMISSION, "kind": name, "metadata": {"name": "few-replicas"}, "spec": spec}
        kube.apply(kind, item)
    webhook = {
        "name": _WEBHOOK,
        "rules": [{**rule, "resources": ["deployments", "deployments/status"]}],
        "failurePolicy": "Fail",
        "timeoutSeconds": 5,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": f"https://127.0.0.1:1/{_SECRET}"},
    }
    # The last, and the first to be removed: nothing answers it here.
    kube.apply(
        _WEBHOOKS,
        {
            "apiVersion": _ADMISSION,
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "shop"},
            "webhooks": [webhook],
        },
    )


def _remove(cluster: LabCluster) -> None:
    cluster.kube.delete(_WEBHOOKS, "shop")
    cluster.kube.delete(_BINDINGS, "few-replicas")
    cluster.kube.delete(_POLICIES, "few-replicas")
    cluster.kube.delete(_NAMESPACES, "shop")
    cluster.kube.delete(_CLASSES, "shop")


def _is_like_it(lab: LabCluster) -> None:
    """Its workload has all pods Ready, without anything of the cluster's containers; its policy refuses, its webhook is
    asked.
    """

    def ready() -> bool:
        web = lab.kube.get(_DEPLOYMENTS, "web", "shop")
        assert web is not None and _SECRET not in str(web)
        return bool(web["status"].get("readyReplicas") == web["spec"]["replicas"] == 2)

    until("the workload of the copied cluster", ready, timeout_seconds=180)
    assert lab.kube.get(_BUDGETS, "web", "shop") is not None and lab.kube.get(_CONFIG_MAPS, "settings", "shop") is None

    def refused() -> bool:
        try:
            lab.kube.create(_DEPLOYMENTS, _deployment("many", 100), "shop", dry_run=True)
        except ApiError as error:
            return "too many" in error.message
        return False  # the API server compiles a new policy within seconds

    until("the policy of the copied cluster", refused, timeout_seconds=60)
    before = _asked(lab)
    lab.kube.create(_DEPLOYMENTS, _deployment("few", 1), "shop", dry_run=True)
    until("its webhook to be asked", lambda: _asked(lab) > before, timeout_seconds=30)


def _asked(lab: LabCluster) -> int:
    """How often the webhook was asked on the controller, since its boot."""
    counts = json.loads(lab.on_controller("curl", "--silent", "--insecure", STUB_URL))
    return int(counts.get(f"ValidatingWebhookConfiguration/shop/{_WEBHOOK}", 0))


def test_the_real_plan_on_a_lab_like_the_cluster(cluster: LabCluster, tmp_path: Path) -> None:
    """The copy has none of the cluster's secrets; the lab is adopted and has its workloads, policies and webhooks, and
    keeps them through a run that is rolled back, an upgrade without a failed request, a power cut and a recovery.
    """
    file = tmp_path / "copy.yaml"
    try:
        _furnish(cluster)
        ended = cluster.upgrader("rehearse", "copy", "--out", str(file))
    finally:
        _remove(cluster)
    assert ended.exit_code == 0, ended
    assert _SECRET not in file.read_text() + str(ended)
    kind = Kind("like", switches=("--like", str(file)), proofs=(_is_like_it,))
    with cluster_of(kind) as lab:
        assert set(lab.releases()) == {"pod-checkpointer", "kube-apiserver", "kubernetes"}
        seen = dict(whole_way(lab, kind, adopted=True))
    assert {column: cell.result for column, cell in seen.items()} == {
        column: PASSED for column in COLUMNS if column != "adopt"
    }, seen
