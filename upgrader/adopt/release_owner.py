"""Which Helm release has an add-on's object: this product's own, whose values have the last word, or another one.

CoreDNS's own chart is such another one. If adoption took its objects over, the next upgrade of that release would
change them back. Pure.
"""

from __future__ import annotations

from upgrader.errors import Blocked
from upgrader.ports import KubeObject

__all__ = ["is_released"]

_NAME, _NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
_OWN, _SYSTEM = "kubernetes", "kube-system"


def is_released(found: KubeObject, label: str, section: str) -> bool:
    """Whether an object is of the release `kubernetes`. `label`: its kind and name; `section`: its add-on's in that
    release's values. Raises Blocked where it is of another release.
    """
    annotations = (found.get("metadata") or {}).get("annotations") or {}
    if not (name := annotations.get(_NAME)):
        return False
    namespace = annotations.get(_NAMESPACE) or _SYSTEM
    if (namespace, name) != (_SYSTEM, _OWN):
        raise Blocked(
            f"{label} belongs to Helm release {namespace}/{name}, whose next upgrade would change it back; nothing was "
            "changed",
            remedy=f"Set `{section}.enabled: false` in values/kubernetes.yaml: adoption and upgrades then leave it "
            "unchanged.",
        )
    return True
