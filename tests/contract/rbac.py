"""The rights that a chart gives, as a real API server goes by them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from typing import Any

from upgrader.ports import Kind, Kube, KubeObject

__all__ = ["RBAC", "allowed", "rights_but"]

RBAC = {
    "Role": Kind("rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": Kind("rbac.authorization.k8s.io/v1", "rolebindings"),
    "ClusterRole": Kind("rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False),
    "ClusterRoleBinding": Kind("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False),
}
_REVIEWS = Kind("authorization.k8s.io/v1", "subjectaccessreviews", namespaced=False)


def rights_but(objects: Iterable[KubeObject], lost: Callable[[str, str, str], bool]) -> list[dict[str, Any]]:
    """Copies of a chart's roles and bindings, with a rule for each right, but for those of which `lost` says that they
    are: of the role's namespace, the verb and the resource.
    """
    given = [copy.deepcopy(dict(each)) for each in objects if each["kind"] in RBAC]
    for each in given:
        if "rules" in each:
            place = each["metadata"].get("namespace", "")
            each["rules"] = [
                {**rule, "verbs": [verb], "resources": [resource]}
                for rule in each["rules"]
                for verb, resource in product(rule["verbs"], rule["resources"])
                if not lost(place, verb, resource)
            ]
    return given


def allowed(kube: Kube, user: str, attributes: Mapping[str, str]) -> bool:
    """Whether the API server's authorizer, which watches roles and bindings, lets a user do that by now."""
    review = {"metadata": {}, "spec": {"user": user, "resourceAttributes": dict(attributes)}}
    return bool(kube.create(_REVIEWS, review)["status"]["allowed"])
