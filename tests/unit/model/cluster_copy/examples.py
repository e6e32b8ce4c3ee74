"""A cluster with every kind and every field that a copy may have, and nothing else."""

from __future__ import annotations

from typing import Any

from upgrader.model.cluster_copy.copy import ClusterCopy, copy_of
from upgrader.model.version import KubernetesVersion

__all__ = ["NODES", "OBJECTS", "VALUES", "copied", "of_kind", "worker"]

_ADMISSION = "admissionregistration.k8s.io/v1"
_SELECTOR = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "tier", "operator": "In", "values": ["front", "back"]}],
}
_TERM = {"labelSelector": _SELECTOR, "topologyKey": "topology.kubernetes.io/zone"}
_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]
        }
    },
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [_TERM],
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": _TERM}],
    },
}
_SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": _SELECTOR,
}
_TEMPLATE = {
    "metadata": {"labels": {"app": "web", "tier": "front"}},
    "spec": {
        "nodeSelector": {"pool": "blue"},
        "affinity": _AFFINITY,
        "topologySpreadConstraints": [_SPREAD],
        "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "web", "effect": "NoSchedule"}],
        "priorityClassName": "high",
        "terminationGracePeriodSeconds": 30,
    },
}
_ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 1}}
_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"], "scope": "*"}
_WEBHOOK = {
    "name": "pods.shop.example.com",
    "rules": [_RULE],
    "failurePolicy": "Fail",
    "namespaceSelector": _SELECTOR,
    "matchConditions": [{"name": "not-system", "expression": "request.userInfo.username != 'system'"}],
    "sideEffects": "None",
    "timeoutSeconds": 5,
    "admissionReviewVersions": ["v1"],
}
_SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "minimum": 1, "default": 3},
                "kind": {"type": "string", "enum": ["small", "large"], "pattern": "^[a-z]+$"},
                "ports": {
                    "type": "array",
                    "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "x-kubernetes-list-type": "atomic",
                },
            },
            "x-kubernetes-validations": [{"rule": "self.size < 10", "message": "too large"}],
        }
    },
}


def _meta(name: str, namespace: str = "") -> dict[str, Any]:
    return {"name": name, **({"namespace": namespace} if namespace else {}), "labels": {"team": "shop"}}


OBJECTS: tuple[dict[str, Any], ...] = (
    {"apiVersion": "v1", "kind": "Namespace", "metadata": _meta("shop")},
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": _meta("high"),
        "value": 1000,
        "globalDefault": False,
        "preemptionPolicy": "Never",
    },
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": _meta("shops.example.com"),
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "shops", "singular": "shop", "kind": "Shop", "listKind": "ShopList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": _SCHEMA},
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                    },
                }
            ],
        },
    },
    {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _meta("web", "shop"),
        "spec": {"maxUnavailable": 1, "selector": _SELECTOR, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
    },
    {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _meta("web", "shop"),
        "spec": {"replicas": 4, "selector": _SELECTOR, "strategy": _ROLLING, "template": _TEMPLATE},
    },
    {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": _meta("log", "shop"),
        "spec": {
            "selector": _SELECTOR,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": _TEMPLATE,
        },
    },
    {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _meta("db", "shop"),
        "spec": {
            "replicas": 2,
            "selector": _SELECTOR,
            "serviceName": "db",
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}},
            "template": _TEMPLATE,
        },
    },
    {
        "apiVersion": _ADMISSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": _meta("few-replicas"),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [_RULE], "namespaceSelector": _SELECTOR},
            "matchConditions": [{"name": "new", "expression": "oldObject == null"}],
            "variables": [{"name": "replicas", "expression": "object.spec.replicas"}],
            "validations": [{"expression": "variables.replicas < 100", "message": "too many", "reason": "Invalid"}],
        },
    },
    {
        "apiVersion": _ADMISSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": _meta("few-replicas"),
        "spec": {"policyName": "few-replicas", "validationActions": ["Deny"]},
    },
    {
        "apiVersion": _ADMISSION,
        "kind": "ValidatingWebhookConfiguration",
        "metadata": _meta("shop"),
        "webhooks": [_WEBHOOK],
    },
    {
        "apiVersion": _ADMISSION,
        "kind": "MutatingWebhookConfiguration",
        "metadata": _meta("shop"),
        "webhooks": [{**_WEBHOOK, "reinvocationPolicy": "Never"}],
    },
)
"""As the API has them, in the order of a copy."""


def worker(name: str, labels: dict[str, str] | None = None, *taints: dict[str, str]) -> dict[str, Any]:
    """A Node."""
    status = {"nodeInfo": {"kubeletVersion": "v1.36.3"}}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"taints": [*taints]}, "status": status}


NODES = (
    worker("cp-1", {"node-role.kubernetes.io/control-plane": "", "zone": "a"}),
    worker("w-1", {"pool": "blue"}, {"key": "dedicated", "value": "web", "effect": "NoSchedule"}),
    worker("w-2", {"pool": "green"}),
)
VALUES: dict[str, Any] = {
    "kube-apiserver": {
        "extraArgs": {"feature-gates": "A=true", "max-requests-inflight": "800"},
        "gracefulShutdown": {"drainSeconds": 20},
    },
    "kubernetes": {"scheduler": {"extraArgs": {"profiling": "false"}}, "kubeProxy": {"maxUnavailable": "20%"}},
}


def copied(**changes: Any) -> ClusterCopy:
    """The copy of that cluster, or of one that differs in `nodes`, `objects`, `values` or `adopted`."""
    parts: dict[str, Any] = {"nodes": NODES, "objects": OBJECTS, "values": VALUES, "adopted": True, **changes}
    return copy_of(KubernetesVersion(1, 36, 3), **parts)


def of_kind(kind: str) -> dict[str, Any]:
    """The cluster's object of a kind."""
    return next(item for item in OBJECTS if item["kind"] == kind)
