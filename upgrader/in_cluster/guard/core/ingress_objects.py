"""The objects that an IngressDaemonSet makes: a Deployment for each node, a DaemonSet for each health port."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from upgrader.in_cluster.guard.core.ingress import IngressDaemonSet

__all__ = [
    "CHECKER_LABELS",
    "NODE_LABEL",
    "PODS",
    "REVISION",
    "deployment",
    "deployment_name",
    "health_checker",
    "node_value",
    "ports_left_out",
    "tolerations",
]

NODE_LABEL = "ingress-daemon-for-node"
CHECKER_LABELS = {"app.kubernetes.io/component": "health-checker"}
PODS = "ingressdaemonsets.mumoshu.github.com/pods-per-node"
"""How many pods the node has to have, whatever somebody has scaled its Deployment to."""
_PORT = "ingressdaemonsets.mumoshu.github.io/health-check-node-port"
_ORIGINAL = re.compile(r"(.*/)?ingress-daemonset-controller(:[^/]*|@.*)?")
"""The original's image, whose program knows other flags."""
REVISION = "ingressdaemonsets.mumoshu.github.com/revision"
_LABEL = 63
_NAME = 242  # and its ReplicaSet's name is eleven characters longer
_TAINTS = (  # what a DaemonSet's pods tolerate
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_HOST_NETWORK_TAINT = ("node.kubernetes.io/network-unavailable", "NoSchedule")


def node_value(node: str) -> str:
    """The label's value for a node: its name, or, if that is too long, its beginning and a hash."""
    return _short(node, _LABEL)


def deployment_name(ingress: str, node: str) -> str:
    """`NAME-NODE`, with a hash if that is too long."""
    return _short(f"{ingress}-{node}", _NAME)


def ports_left_out(which: IngressDaemonSet) -> bool:
    """Whether several pods of a node would ask for the same port of it, of which the kubelet lets only one in."""
    shared = which.pods_per_node > 1 or which.surge not in (0, "0%")
    return shared and any(_host_ports(c, _spec(which)) for c in _containers(which))


def deployment(which: IngressDaemonSet, node: str) -> dict[str, Any]:
    """The Deployment of a node's pods; the annotation `REVISION` is of all but the number of pods."""
    labels = {**which.selector, NODE_LABEL: node_value(node)}
    template = _template(which, node, labels)
    strategy = {
        "type": "RollingUpdate",
        "rollingUpdate": {
            "maxUnavailable": "100%" if which.whole_node else which.unavailable,
            "maxSurge": 0 if which.whole_node else which.surge,
        },
    }
    if not which.whole_node and which.unavailable in (0, "0%") and which.surge in (0, "0%"):
        strategy["rollingUpdate"] = {"maxUnavailable": 1, "maxSurge": 0}  # both 0 are refused by the API server
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": deployment_name(which.name, node),
            "namespace": which.namespace,
            "labels": {**which.labels, **labels},
            "annotations": {REVISION: _hash(template), PODS: str(which.pods_per_node)},
        },
        "spec": {
            "replicas": which.pods_per_node,
            "selector": {"matchLabels": labels},
            "strategy": strategy,
            "template": template,
        },
    }


def health_checker(which: IngressDaemonSet, port: int, own_image: str = "") -> dict[str, Any]:
    """The DaemonSet whose pods answer the load balancer's question about their node on a port.

    `own_image`: guard's, where the IngressDaemonSet names none, or the original's, whose program knows other flags.
    """
    name = _short(f"{which.name}-{port}", _LABEL)
    labels = {**CHECKER_LABELS, "app.kubernetes.io/instance": name}
    given = which.health_checker or {}
    image = str(given.get("image") or "")
    container = {
        "name": "health-checker",
        "image": own_image if own_image and (not image or _ORIGINAL.fullmatch(image)) else image,
        "imagePullPolicy": given.get("imagePullPolicy") or "IfNotPresent",
        "args": ["ingress-health", f"-ingress={which.namespace}/{which.name}", f"-port={port}", f"-due={which.due}"],
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "ports": [{"name": "health", "containerPort": port, "hostPort": port}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {"requests": {"cpu": "10m", "memory": "48Mi"}, "limits": {"memory": "128Mi"}},
    }
    pod = {
        "hostNetwork": True,
        "serviceAccountName": given.get("serviceAccountName") or "default",
        "nodeSelector": dict(which.node_selector),
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    annotations = {REVISION: _hash(pod), _PORT: str(port)}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {
            "name": name,
            "namespace": which.namespace,
            "labels": {**which.labels, **labels},
            "annotations": annotations,
        },
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def tolerations(which: IngressDaemonSet) -> list[dict[str, Any]]:
    """What its pods tolerate: what the user says, and what a DaemonSet's do."""
    return _tolerations(_spec(which))


def _template(which: IngressDaemonSet, node: str, labels: Mapping[str, str]) -> dict[str, Any]:
    metadata = which.template.get("metadata") or {}
    spec = {**_spec(which), "nodeName": node, "tolerations": _tolerations(_spec(which))}
    spec.pop("nodeSelector", None)  # decided already; the kubelet would end the pods of a node that loses its label
    if ports_left_out(which):
        spec["containers"] = [_without_host_ports(c, spec) for c in _containers(which)]
    return {"metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}, "spec": spec}


def _tolerations(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    taints = (*_TAINTS, _HOST_NETWORK_TAINT) if spec.get("hostNetwork") else _TAINTS
    ours = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in taints]
    return [*(spec.get("tolerations") or []), *ours]


def _host_ports(container: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    ports = container.get("ports") or []
    return bool(ports) if spec.get("hostNetwork") else any(p.get("hostPort") for p in ports)


def _without_host_ports(container: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """The container without its ports where each is one of the host, else without what makes them so."""
    if spec.get("hostNetwork"):
        return {key: value for key, value in container.items() if key != "ports"}
    ports = [{k: v for k, v in p.items() if k not in ("hostPort", "hostIP")} for p in container.get("ports") or []]
    return {**container, "ports": ports}


def _spec(which: IngressDaemonSet) -> Mapping[str, Any]:
    return which.template.get("spec") or {}


def _containers(which: IngressDaemonSet) -> list[Mapping[str, Any]]:
    return list(_spec(which).get("containers") or [])


def _hash(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _short(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return f"{text[: most - 11].rstrip('-_.')}-{digest}"
