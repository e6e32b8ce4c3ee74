"""The groups of StatefulSets in a release, which guard rolls zone by zone."""

from __future__ import annotations

from upgrader.model.manifest import objects_in

__all__ = ["groups_in"]

_LABEL = "rollout-group"


def groups_in(namespace: str, *manifests: str) -> frozenset[str]:
    """`NAMESPACE/GROUP` of each in these manifests; `namespace` is that of objects without one."""
    return frozenset(
        f"{item['metadata'].get('namespace') or namespace}/{group}"
        for manifest in manifests
        for item in objects_in(manifest).values()
        if item["kind"] == "StatefulSet" and (group := (item["metadata"].get("labels") or {}).get(_LABEL))
    )
