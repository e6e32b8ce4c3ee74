"""Fields of a static pod that would be copied: those that Kubernetes requires, and those that it knows. Pure.

The kubelet runs no pod that lacks one of the former. What it doesn't know, it ignores, such as a `readonly` that should
be `readOnly`; the API refuses such a field in the chart's pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["lacking", "unknown"]

_MOUNT = frozenset({"mountPath", "mountPropagation", "name", "readOnly", "recursiveReadOnly", "subPath", "subPathExpr"})
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
    "emptyDir": frozenset({"medium", "sizeLimit"}),
    "hostPath": frozenset({"path", "type"}),
}
"""The fields of the sources that the kubelet has for static pods without the API."""
_RESOURCES = frozenset({"claims", "limits", "requests"})


def lacking(spec: Mapping[str, Any]) -> str:
    """What a pod's spec lacks, in words; "" for nothing. Raises LookupError, TypeError or AttributeError for one that
    is something else.
    """
    names = set()
    for volume in spec.get("volumes") or ():
        if not volume.get("name"):
            return "a volume has no `name`"
        if "hostPath" in volume and not volume["hostPath"].get("path"):
            return f"the volume {volume['name']} has no `path`"
        names.add(volume["name"])
    for container in spec["containers"]:
        for mount in container.get("volumeMounts") or ():
            if not (name := mount.get("name")):
                return "a mount has no `name`"
            if not mount.get("mountPath"):
                return f"the mount {name} has no `mountPath`"
            if name not in names:
                return f"the mount {name} is of no volume"
    return ""


def unknown(spec: Mapping[str, Any], container: Mapping[str, Any]) -> Iterator[str]:
    """Each field that Kubernetes doesn't know, of the volumes, the mounts and the resources."""
    for volume in spec.get("volumes") or ():
        for key in sorted(volume.keys() - _VOLUME):
            yield f"`{key}` in the volume {volume['name']}"
        for source, known in _SOURCES.items():
            for key in sorted((volume.get(source) or {}).keys() - known):
                yield f"`{source}.{key}` in the volume {volume['name']}"
    for mount in container.get("volumeMounts") or ():
        for key in sorted(mount.keys() - _MOUNT):
            yield f"`{key}` in the mount of {mount['name']} at {mount['mountPath']}"
    for key in sorted((container.get("resources") or {}).keys() - _RESOURCES):
        yield f"`resources.{key}`"
