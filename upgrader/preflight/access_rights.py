"""The operator's credentials may do all that a run may have to do, also what only a rollback needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from upgrader.model.finding import Finding
from upgrader.ports import Kind
from upgrader.preflight.context import SYSTEM, PreflightContext

__all__ = ["check_access"]

_REVIEWS = Kind("authorization.k8s.io/v1", "selfsubjectaccessreviews", namespaced=False)


@dataclass(frozen=True)
class _Right:
    """One verb on one resource, and what it is needed for. `namespace` "" means all, or none where it has none."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = SYSTEM
    why: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f" in {self.namespace}" if self.namespace else "")


_EVERYTHING = _Right("*", "*", "*", "")
_HELM = "Helm keeps releases in Secrets"
_NEEDED = (
    *(_Right(verb, "secrets", why=_HELM) for verb in ("list", "create", "update", "delete")),
    *(_Right(verb, "deployments", "apps", why="the releases' workloads") for verb in ("create", "patch", "delete")),
    *(_Right(verb, "daemonsets", "apps", why="the releases' workloads") for verb in ("create", "patch", "delete")),
    *(_Right(verb, "configmaps", why="the releases' files") for verb in ("create", "patch", "delete")),
    _Right("patch", "services", why="CoreDNS"),
    _Right("patch", "serviceaccounts", why="the releases' identities"),
    *(
        _Right(verb, resource, "rbac.authorization.k8s.io", namespace, "the releases' own rights")
        for verb in ("patch", "bind", "escalate")
        for resource, namespace in (("roles", SYSTEM), ("clusterroles", ""))
    ),
    _Right("patch", "clusterrolebindings", "rbac.authorization.k8s.io", "", "the releases' own rights"),
    _Right("patch", "poddisruptionbudgets", "policy", why="the releases' workloads"),
    _Right("update", "leases", "coordination.k8s.io", why="the cluster's lock"),
    _Right("list", "pods", namespace="", why="the gates"),
    _Right("get", "pods/log", why="the cause of a failure"),
    _Right("list", "events", namespace="", why="the cause of a failure"),
    _Right("list", "nodes", namespace="", why="the gates"),
)


def check_access(context: PreflightContext) -> Iterator[Finding]:
    """Ask the API server itself; whoever may do everything is asked one question."""
    if _allowed(context, _EVERYTHING):
        return
    missing = [right for right in _NEEDED if not _allowed(context, right)]
    if missing:
        reasons = ", ".join(dict.fromkeys(right.why for right in missing))
        yield Finding(
            "access.missing",
            "error",
            f"the kubeconfig's user may not {', '.join(map(str, missing[:4]))}{' …' if len(missing) > 4 else ''}",
            f"{len(missing)} of {len(_NEEDED)} rights are missing, needed for: {reasons}. A failed run could not be "
            "rolled back.",
            "Use credentials of cluster-admin: pods with hostPath volumes and role bindings amount to that anyway "
            "(docs/security.md). Check with: kubectl auth can-i --list -n kube-system",
        )


def _allowed(context: PreflightContext, right: _Right) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = {"verb": right.verb, "group": right.group, "resource": resource, "namespace": right.namespace}
    if subresource:
        attributes["subresource"] = subresource
    review = {
        "apiVersion": _REVIEWS.api_version,
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {"resourceAttributes": attributes},
    }
    return bool(context.kube.create(_REVIEWS, review).get("status", {}).get("allowed"))
