"""Objects as clusters have them, for rehearsals on their data."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import yaml

from testkit.lab_cluster import until
from upgrader.adapters.kube import KubeAdapter
from upgrader.ports import Kind

__all__ = [
    "CONFIG_MAPS",
    "CRDS",
    "SECRET",
    "SECRETS",
    "SERVICES",
    "STATEFUL_SETS",
    "crd",
    "create_when_served",
    "helm_record",
    "item",
    "key",
    "large_pod",
    "permit_exec",
    "stateful_set_with_max_unavailable",
    "usual_objects",
]

SECRET = "hunter2-is-not-for-others"
"""What some of them have, and no result may have."""
SERVICES, CONFIG_MAPS, SECRETS = Kind("v1", "services"), Kind("v1", "configmaps"), Kind("v1", "secrets")
STATEFUL_SETS = Kind("apps/v1", "statefulsets")
CRDS = Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False)


def key(letter: str) -> str:
    """An encryption provider."""
    return f"{{aescbc: {{keys: [{{name: {letter}, secret: {base64.b64encode(letter.encode() * 32).decode()}}}]}}}}"


def crd(plural: str, schema: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A CustomResourceDefinition of the group example.com."""
    version = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].title()},
            "versions": [version],
            **more,
        },
    }


def item(api_version: str, kind: str, name: str, **content: Any) -> dict[str, Any]:
    """An object."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}


def helm_record(release: str, *documents: dict[str, Any]) -> dict[str, Any]:
    """As Helm keeps the first revision of a release in a Secret; the documents of its manifest are in YAML."""
    content = {"name": release, "namespace": "default", "version": 1, "manifest": yaml.safe_dump_all(documents)}
    packed = base64.b64encode(gzip.compress(json.dumps(content).encode()))
    made = item("v1", "Secret", f"sh.helm.release.v1.{release}.v1", type="helm.sh/release.v1")
    made["metadata"]["labels"] = {"owner": "helm", "name": release}
    return {**made, "data": {"release": base64.b64encode(packed).decode()}}


def stateful_set_with_max_unavailable() -> dict[str, Any]:
    """It sets a field that has a feature gate, MaxUnavailableStatefulSet."""
    labels = {"app": "parallel"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]}}
    spec = {"serviceName": "parallel", "selector": {"matchLabels": labels}, "template": pod}
    spec["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    return item("apps/v1", "StatefulSet", "parallel", spec=spec)


def large_pod(name: str) -> dict[str, Any]:
    """As large as many pods of workloads are: two containers with variables, probes and volumes (9 kB as stored)."""

    def container(of: str, *probes: str) -> dict[str, Any]:
        probe = {"httpGet": {"path": f"/health/{of}", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10}
        variables: list[dict[str, Any]] = [
            {
                "name": f"{of.upper()}_OPTION_{number}",
                "value": f"--option-{number}=https://{of}.example.com/v1/{number}",
            }
            for number in range(3)
        ]
        field, secret = {"fieldPath": "status.podIP"}, {"name": "web", "key": "password"}
        variables.append({"name": "POD_IP", "valueFrom": {"fieldRef": field}})
        variables.append({"name": "PASSWORD", "valueFrom": {"secretKeyRef": secret}})
        return {
            "name": of,
            "image": f"registry.example.com/team/{of}:v1.2.3@sha256:{'0123456789abcdef' * 4}",
            "args": [f"--setting-{number}=value-of-setting-{number}" for number in range(3)],
            "env": variables,
            "ports": [{"name": "http", "containerPort": 8080}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
            **dict.fromkeys(probes, probe),
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [
                {"name": "settings", "mountPath": "/etc/settings", "readOnly": True},
                {"name": "token", "mountPath": "/var/run/secrets/tokens", "readOnly": True},
                {"name": "work", "mountPath": "/work"},
            ],
        }

    term = {
        "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "web"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    token = {"secret": {"name": "web", "items": [{"key": "password", "path": "token", "mode": 0o400}]}}
    made = item(
        "v1",
        "Pod",
        name,
        spec={
            "containers": [container(of, "livenessProbe", "readinessProbe", "startupProbe") for of in ("web", "proxy")],
            "affinity": {
                "podAntiAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]
                }
            },
            "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "web", "effect": "NoSchedule"}],
            "volumes": [
                {"name": "settings", "configMap": {"name": "web"}},
                {"name": "token", "projected": {"sources": [token, {"configMap": {"name": "web"}}]}},
                {"name": "work", "emptyDir": {"sizeLimit": "1Gi"}},
            ],
        },
    )
    made["metadata"]["labels"] = {"app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop"}
    made["metadata"]["annotations"] = {"example.com/checksum-of-settings": "0123456789abcdef" * 4}
    return made


def usual_objects(kube: KubeAdapter) -> None:
    """Of many kinds, as clusters have them."""
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]}}
    of_pods = {"selector": {"matchLabels": labels}, "template": pod}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 9}},
    }
    job = {"spec": {"containers": pod["spec"]["containers"], "restartPolicy": "Never"}}  # type: ignore[index]
    for kind, made in (
        (Kind("v1", "pods"), item("v1", "Pod", "web", **pod | {"metadata": {"name": "web", "labels": labels}})),
        (Kind("apps/v1", "deployments"), item("apps/v1", "Deployment", "web", spec=of_pods)),
        (Kind("apps/v1", "daemonsets"), item("apps/v1", "DaemonSet", "web", spec=of_pods)),
        (STATEFUL_SETS, item("apps/v1", "StatefulSet", "web", spec={"serviceName": "web"} | of_pods)),
        (Kind("batch/v1", "jobs"), item("batch/v1", "Job", "once", spec={"template": job})),
        (
            Kind("batch/v1", "cronjobs"),
            item(
                "batch/v1",
                "CronJob",
                "daily",
                spec={"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": job}}},
            ),
        ),
        (
            SERVICES,
            item("v1", "Service", "web", spec={"type": "NodePort", "selector": labels, "ports": [{"port": 80}]}),
        ),
        (SERVICES, item("v1", "Service", "none", spec={"clusterIP": "None", "selector": labels})),
        (CONFIG_MAPS, item("v1", "ConfigMap", "web", data={"a": "b"})),
        (SECRETS, item("v1", "Secret", "web", stringData={"password": SECRET})),
        (Kind("v1", "persistentvolumeclaims"), item("v1", "PersistentVolumeClaim", "web", spec=claim)),
        (Kind("v1", "serviceaccounts"), item("v1", "ServiceAccount", "web")),
        (
            Kind("rbac.authorization.k8s.io/v1", "roles"),
            item("rbac.authorization.k8s.io/v1", "Role", "web", rules=[rule]),
        ),
        (
            Kind("networking.k8s.io/v1", "ingresses"),
            item("networking.k8s.io/v1", "Ingress", "web", spec={"rules": [{"http": {"paths": [path]}}]}),
        ),
        (
            Kind("networking.k8s.io/v1", "networkpolicies"),
            item("networking.k8s.io/v1", "NetworkPolicy", "web", spec={"podSelector": {}}),
        ),
        (
            Kind("policy/v1", "poddisruptionbudgets"),
            item(
                "policy/v1", "PodDisruptionBudget", "web", spec={"minAvailable": 1, "selector": {"matchLabels": labels}}
            ),
        ),
        (
            Kind("autoscaling/v2", "horizontalpodautoscalers"),
            item(
                "autoscaling/v2",
                "HorizontalPodAutoscaler",
                "web",
                spec={
                    "maxReplicas": 3,
                    "metrics": [metric],
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                },
            ),
        ),
    ):
        kube.create(kind, made, "default")
    plain = item("example.com/v1", "Plain", "one", spec={"token": SECRET})
    web = item("apps/v1", "Deployment", "web", spec=of_pods)
    service = item("v1", "Service", "web", spec={"type": "NodePort", "selector": labels, "ports": [{"port": 80}]})
    password = item("v1", "Secret", "new", stringData={"password": SECRET})
    kube.create(SECRETS, helm_record("web", web, service, password, plain), "default")
    kube.create(CRDS, crd("plains", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}))
    create_when_served(kube, "plains", plain)


def create_when_served(kube: KubeAdapter, plural: str, made: dict[str, Any]) -> None:
    """Of a CustomResourceDefinition that was made just now."""
    kind = Kind("example.com/v1", plural)
    until(f"{plural} to be served", lambda: bool(kube.create(kind, made, "default")), timeout_seconds=30)


def permit_exec(kube: KubeAdapter, user: str, *verbs: str) -> None:
    """A user may do this with pods/exec in one namespace."""
    group, rule = "rbac.authorization.k8s.io", {"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs}
    kube.create(Kind(f"{group}/v1", "roles"), item(f"{group}/v1", "Role", user, rules=[rule]), "default")
    subject = {"kind": "User", "name": user, "apiGroup": group}
    bound = item(f"{group}/v1", "RoleBinding", user, subjects=[subject])
    bound["roleRef"] = {"kind": "Role", "name": user, "apiGroup": group}
    kube.create(Kind(f"{group}/v1", "rolebindings"), bound, "default")
