"""Whether a pod may be scheduled on a node, by its spec and the node's labels and taints.

If in doubt, it may: this decides where images are needed, and one image too many does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["may_run_on"]

_CONDITIONS = "node.kubernetes.io/"
"""Taints with this prefix come and go with a node's condition, or with a cordon."""
_EFFECTS = ("NoSchedule", "NoExecute")


def may_run_on(pod: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """By node name, node selector, required node affinity, and taints; `pod` is a pod's spec."""
    name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
    if pod.get("nodeName") not in (None, "", name):
        return False
    if any(labels.get(key) != value for key, value in (pod.get("nodeSelector") or {}).items()):
        return False
    return _affine(pod, name, labels) and all(
        any(_tolerates(toleration, taint) for toleration in pod.get("tolerations") or ())
        for taint in (node.get("spec") or {}).get("taints") or ()
        if taint.get("effect") in _EFFECTS and not str(taint.get("key")).startswith(_CONDITIONS)
    )


def _affine(pod: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    affinity = (pod.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    return any(_matches(term, name, labels) for term in required.get("nodeSelectorTerms") or ())


def _matches(term: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    """All conditions of a term must be true; an empty term matches no node."""
    by_label, by_field = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not by_label and not by_field:
        return False
    fields = {"metadata.name": name}
    return all(_holds(item, labels) for item in by_label) and all(_holds(item, fields) for item in by_field)


def _holds(requirement: Mapping[str, Any], known: Mapping[str, str]) -> bool:
    value, values = known.get(str(requirement.get("key"))), requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(value, operator, values)
        case _:
            return True


def _compares(value: str | None, operator: str, values: Any) -> bool:
    try:
        number, limit = int(value or ""), int(values[0])
    except (ValueError, TypeError, IndexError):
        return False
    return number > limit if operator == "Gt" else number < limit


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("key") not in (None, "", taint.get("key")):
        return False
    if toleration.get("operator") in (None, "", "Equal"):
        return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")
    return True
