"""The running versions of the Kubernetes components."""

from __future__ import annotations

import json
from collections.abc import Mapping

import yaml

from upgrader.ports import Kind, Kube, KubeObject

__all__ = ["COMPONENTS", "OLDER", "OLDER_TARGET", "PATH", "kubeadms_version", "running_versions"]

OLDER, OLDER_TARGET = "v1.33.13", "v1.34.4"
"""The hop of tests/soak/test_older_versions.py: to build them takes half an hour."""
PATH = ("v1.33.13", "v1.34.4", "v1.35.4", "v1.36.3", "v1.37.1")
"""The versions of tests/soak/test_several_minors.py, each a minor after the one before."""

COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
_PODS = Kind("v1", "pods")
_CONFIG_MAPS = Kind("v1", "configmaps")


def running_versions(kube: Kube) -> Mapping[str, str]:
    """Component → the versions of its ready pods ("v1.36.3", or several with commas, or "none").

    kube-apiserver reports its own version; for the others it is the tag of their containers' images.
    """
    found: dict[str, set[str]] = {component: set() for component in COMPONENTS}
    found["kube-apiserver"].add(str(json.loads(kube.raw("/version"))["gitVersion"]))
    for pod in kube.list(_PODS, "kube-system"):
        if _ready(pod):
            for container in pod["spec"]["containers"]:
                repository, _, tag = container["image"].rpartition(":")
                component = repository.rsplit("/", 1)[-1]
                if component in found:
                    found[component].add(tag)
    return {component: ", ".join(sorted(versions)) or "none" for component, versions in found.items()}


def kubeadms_version(kube: Kube) -> str:
    """The version that kubeadm records as running: that of its ConfigMap."""
    found = kube.get(_CONFIG_MAPS, "kubeadm-config", "kube-system")
    assert found is not None
    return str(yaml.safe_load(found["data"]["ClusterConfiguration"])["kubernetesVersion"])


def _ready(pod: KubeObject) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
