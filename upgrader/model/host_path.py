"""The path on the node of a file in a container."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

__all__ = ["on_node"]


def on_node(spec: Mapping[str, Any], container: Mapping[str, Any], path: str) -> str | None:
    """The node's path of a container's file, by the pod's `spec`; None if no volume is mounted there.

    Raises KeyError if it is in a volume that isn't on the node's disk (such as a Secret), or in a folder that only the
    kubelet knows (`subPathExpr`).
    """
    inside = PurePosixPath(path)
    around = [mount for mount in container.get("volumeMounts") or () if inside.is_relative_to(mount["mountPath"])]
    if not around:
        return None
    # A mount below another mount's folder hides that folder's content.
    mount = max(around, key=lambda item: len(PurePosixPath(item["mountPath"]).parts))
    if mount.get("subPathExpr"):
        raise KeyError(f"subPathExpr of volume {mount['name']}")
    volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
    root = PurePosixPath(volumes[mount["name"]]["hostPath"]["path"])
    return str(root / str(mount.get("subPath") or "") / inside.relative_to(mount["mountPath"]))
