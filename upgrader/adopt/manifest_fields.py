"""Fields of a static pod that would be copied: those that Kubernetes requires, and those that it knows. Pure.

The kubelet runs no pod that lacks one of the former. What it doesn't know, it ignores, such as a `readonly` that should
be `readOnly`; the API refuses such a field in the chart's pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from upgrader.errors import UsageError
from upgrader.model.version import KubernetesVersion

__all__ = ["lacking", "unknown"]

_POD = frozenset(
    {
        "activeDeadlineSeconds",
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "dnsConfig",
        "dnsPolicy",
        "enableServiceLinks",
        "ephemeralContainers",
        "evictionResponders",
        "hostAliases",
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "hostUsers",
        "hostname",
        "hostnameOverride",
        "imagePullSecrets",
        "initContainers",
        "nodeName",
        "nodeSelector",
        "os",
        "overhead",
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "readinessGates",
        "resourceClaims",
        "resources",
        "restartPolicy",
        "runtimeClassName",
        "schedulerName",
        "schedulingGates",
        "schedulingGroup",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "setHostnameAsFQDN",
        "shareProcessNamespace",
        "subdomain",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
        "volumes",
        "workloadRef",
    }
)
_CONTAINER = frozenset(
    {
        "args",
        "command",
        "env",
        "envFrom",
        "image",
        "imagePullPolicy",
        "lifecycle",
        "livenessProbe",
        "name",
        "ports",
        "readinessProbe",
        "resizePolicy",
        "resources",
        "restartPolicy",
        "restartPolicyRules",
        "securityContext",
        "startupProbe",
        "stdin",
        "stdinOnce",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "tty",
        "volumeDevices",
        "volumeMounts",
        "workingDir",
    }
)
"""Of any supported version."""
_MOUNT = frozenset(
    {
        "bindMountOptions",
        "mountPath",
        "mountPropagation",
        "name",
        "readOnly",
        "recursiveReadOnly",
        "subPath",
        "subPathExpr",
    }
)
_VOLUME = frozenset(
    {
        "awsElasticBlockStore",
        "azureDisk",
        "azureFile",
        "cephfs",
        "cinder",
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "fc",
        "flexVolume",
        "flocker",
        "gcePersistentDisk",
        "gitRepo",
        "glusterfs",
        "hostPath",
        "image",
        "iscsi",
        "name",
        "nfs",
        "persistentVolumeClaim",
        "photonPersistentDisk",
        "portworxVolume",
        "projected",
        "quobyte",
        "rbd",
        "scaleIO",
        "secret",
        "storageos",
        "vsphereVolume",
    }
)
_SOURCES: Mapping[str, frozenset[str]] = {
    "emptyDir": frozenset({"medium", "mode", "sizeLimit"}),
    "hostPath": frozenset({"path", "type"}),
}
"""The fields of the sources that the kubelet has for static pods without the API."""
_RESOURCES = frozenset({"claims", "limits", "requests"})
_SINCE = {"bindMountOptions": 37, "emptyDir.mode": 37}
"""Those of them that came after the oldest supported version: the minor version 1.x."""


def lacking(pod: Mapping[str, Any]) -> str:
    """What a manifest lacks to be a pod, in words; "" for nothing. Raises LookupError, TypeError or AttributeError for
    one that is something else.
    """
    names = set()
    spec = pod["spec"]
    for volume in spec.get("volumes") or ():
        if not volume.get("name"):
            return "a volume has no `name`"
        if (path := volume.get("hostPath")) is not None and not path.get("path"):
            return f"the volume {volume['name']} has no `path`"
        names.add(volume["name"])
    for container in spec["containers"]:
        for mount in container.get("volumeMounts") or ():
            if not (name := mount.get("name")):
                return "a mount has no `name`"
            if not mount.get("mountPath"):
                return f"the mount {name} has no `mountPath`"
            if name not in names:
                return f"the pod has no volume for the mount {name}"
    for key, own in (("apiVersion", "v1"), ("kind", "Pod")):
        if (found := pod.get(key)) != own:
            return f"its `{key}` is {found}, not {own}" if found else f"it has no `{key}: {own}`"
    return ""


def unknown(spec: Mapping[str, Any], container: Mapping[str, Any], image: str) -> Iterator[str]:
    """What is wrong with each field that Kubernetes doesn't know, in the version of this image: of the pod and its
    container, the volumes, the mounts and the resources.
    """
    minor = _minor(image)
    for name, where, known in _fields(spec, container):
        since = _SINCE.get(name, 0)
        if not known:
            yield f"`{name}`{where}, a field that Kubernetes doesn't have"
        elif since and minor is not None and minor < since:
            yield f"`{name}`{where}, which Kubernetes has only since v1.{since}"


def _fields(spec: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[tuple[str, str, bool]]:
    """Each field's name, where it is, and whether any supported version knows it."""
    yield from ((key, "", key in _POD) for key in sorted(spec))
    yield from ((key, "", key in _CONTAINER) for key in sorted(container))
    for volume in spec.get("volumes") or ():
        where = f" in the volume {volume['name']}"
        yield from ((key, where, key in _VOLUME) for key in sorted(volume))
        for source, known in _SOURCES.items():
            yield from ((f"{source}.{key}", where, key in known) for key in sorted(volume.get(source) or {}))
    for mount in container.get("volumeMounts") or ():
        where = f" in the mount of {mount['name']} at {mount['mountPath']}"
        yield from ((key, where, key in _MOUNT) for key in sorted(mount))
    yield from ((f"resources.{key}", "", key in _RESOURCES) for key in sorted(container.get("resources") or {}))


def _minor(image: str) -> int | None:
    """Of the version in an image's tag; None if it names none."""
    try:
        return KubernetesVersion.parse(image.partition("@")[0].rpartition(":")[2]).minor
    except UsageError:
        return None
