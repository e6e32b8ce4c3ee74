"""The objects of a release that guard rolls out: groups of StatefulSets by zone, IngressDaemonSets by node."""

from __future__ import annotations

from upgrader.model.manifest import Manifest, objects_in

__all__ = ["groups_in"]

_LABEL = "rollout-group"


def groups_in(namespace: str, *manifests: str) -> frozenset[str]:
    """`NAMESPACE/GROUP` of each group in these manifests, and `NAMESPACE/IngressDaemonSet/NAME`; `namespace` is the
    default for objects without one.
    """
    return frozenset(
        f"{item['metadata'].get('namespace') or namespace}/{what}"
        for manifest in manifests
        for item in objects_in(manifest).values()
        if (what := _rolled(item))
    )


def _rolled(item: Manifest) -> str:
    match item["kind"]:
        case "StatefulSet":
            return str((item["metadata"].get("labels") or {}).get(_LABEL) or "")
        case "IngressDaemonSet":
            return f"IngressDaemonSet/{item['metadata']['name']}"
        case _:
            return ""
