"""What has an add-on's object: this product's own Helm release, whose values have the last word, another release, or a
tool that applies it from a repository.

CoreDNS's own chart is such another release; Argo CD and Flux may apply it without one. If adoption took its objects
over, they would change them back. Pure.
"""

from __future__ import annotations

from upgrader.errors import Blocked
from upgrader.ports import KubeObject

__all__ = ["is_released"]

_NAME, _NAMESPACE = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"
_OWN, _SYSTEM = "kubernetes", "kube-system"
_APPLIED_BY = (
    ("annotations", "argocd.argoproj.io/tracking-id", "Argo CD"),
    ("labels", "argocd.argoproj.io/instance", "Argo CD"),
    ("labels", "kustomize.toolkit.fluxcd.io/name", "Flux"),
)
"""By which mark of an object such a tool finds what it applies."""


def is_released(found: KubeObject, label: str, section: str) -> bool:
    """Whether an object is of the release `kubernetes`. `label`: its kind and name; `section`: its add-on's in that
    release's values. Raises Blocked where it is of another release, or applied by a tool.
    """
    metadata = found.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    if not (name := annotations.get(_NAME)):
        for field, mark, tool in _APPLIED_BY:
            if value := (metadata.get(field) or {}).get(mark):
                raise _blocked(label, section, f"is applied by {tool} ({mark}={value}), which", field, mark)
        return False
    namespace = annotations.get(_NAMESPACE) or _SYSTEM
    if (namespace, name) != (_SYSTEM, _OWN):
        what = f"belongs to Helm release {namespace}/{name}, whose next upgrade"
        raise _blocked(label, section, what, "annotations", _NAME)
    return True


def _blocked(label: str, section: str, what: str, field: str, mark: str) -> Blocked:
    kind, _, place = label.partition(" ")
    namespace, _, name = place.rpartition("/")
    within = f" -n {namespace}" if namespace else ""
    verb = "label" if field == "labels" else "annotate"
    return Blocked(
        f"{label} {what} would change it back; nothing was changed",
        remedy=f"Set `{section}.enabled: false` in values/kubernetes.yaml: adoption and upgrades then leave it "
        f"unchanged. If {mark} is left over from before, remove it: kubectl {verb} {kind.lower()} {name}{within} "
        f"{mark}-",
    )
