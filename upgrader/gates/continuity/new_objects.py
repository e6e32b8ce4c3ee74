"""The Deployment that proves that new pods work, and its Service."""

from __future__ import annotations

import inspect
from typing import Any

from upgrader.gates.continuity import inside_pod
from upgrader.gates.continuity.sentinel import LABELS, NAME, NAMESPACE
from upgrader.ports import KubeObject

__all__ = ["deployment", "selector", "service"]

_INHERITED = ("imagePullSecrets", "nodeSelector", "tolerations")


def deployment(name: str, checkpointer: KubeObject) -> dict[str, Any]:
    """One replica with the image of the pod-checkpointer's DaemonSet, which every controller has, where that may run.

    It has no rights, and passes the `restricted` Pod Security Standard.
    """
    source = inspect.getsource(inside_pod)
    like = checkpointer["spec"]["template"]["spec"]
    main = like["containers"][0]
    container = {
        "name": "main",
        "image": main["image"],
        "imagePullPolicy": main.get("imagePullPolicy", "IfNotPresent"),
        "command": ["python3", "-c", source, "wait"],
        "readinessProbe": {
            "exec": {"command": ["python3", "-c", source, "check"]},
            "periodSeconds": 1,
            "timeoutSeconds": 10,
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "resources": {"requests": {"cpu": "10m", "memory": "24Mi"}, "limits": {"memory": "96Mi"}},
    }
    pod = {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 2,
        "dnsConfig": {"options": [{"name": "timeout", "value": "1"}, {"name": "attempts", "value": "3"}]},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        **{key: like[key] for key in _INHERITED if key in like},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(name),
        "spec": {
            "replicas": 1,
            "revisionHistoryLimit": 0,
            "selector": {"matchLabels": selector(name)},
            "template": {"metadata": {"labels": {**LABELS, **selector(name)}}, "spec": pod},
        },
    }


def service(name: str) -> dict[str, Any]:
    """The Service whose endpoints should get that pod, and lose it."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(name),
        "spec": {"selector": selector(name), "ports": [{"name": "none", "port": 80, "targetPort": 8080}]},
    }


def selector(name: str) -> dict[str, str]:
    """The label of its pods alone."""
    return {"app.kubernetes.io/instance": name}


def _metadata(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": NAMESPACE, "labels": LABELS}
