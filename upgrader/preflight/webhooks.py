"""No admission webhook blocks a run, or its rollback, from changing objects of the control plane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from upgrader.gates.kubernetes_kinds import NAMESPACES
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.workload import selects
from upgrader.ports import Kind, KubeObject
from upgrader.preflight.context import SYSTEM, PreflightContext
from upgrader.preflight.service_backends import ServiceBackends

__all__ = ["check_webhooks"]

_CONFIGURATIONS = {
    "ValidatingWebhookConfiguration": Kind(
        "admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", namespaced=False
    ),
    "MutatingWebhookConfiguration": Kind(
        "admissionregistration.k8s.io/v1", "mutatingwebhookconfigurations", namespaced=False
    ),
}

_OURS: Mapping[tuple[str, str], str] = {
    ("", "pods"): "Namespaced",
    ("", "pods/binding"): "Namespaced",
    ("", "pods/status"): "Namespaced",
    ("", "configmaps"): "Namespaced",
    ("", "secrets"): "Namespaced",
    ("", "services"): "Namespaced",
    ("", "serviceaccounts"): "Namespaced",
    ("apps", "daemonsets"): "Namespaced",
    ("apps", "deployments"): "Namespaced",
    ("apps", "replicasets"): "Namespaced",
    ("coordination.k8s.io", "leases"): "Namespaced",
    ("discovery.k8s.io", "endpointslices"): "Namespaced",
    ("policy", "poddisruptionbudgets"): "Namespaced",
    ("", "nodes"): "Cluster",
    ("", "nodes/status"): "Cluster",
    ("rbac.authorization.k8s.io", "clusterroles"): "Cluster",
    ("rbac.authorization.k8s.io", "clusterrolebindings"): "Cluster",
}
"""(Group, resource) of the objects that a run, its rollback and the control plane write in kube-system, and the
scope.
"""

_SCOPES = {resource: scope for (_, resource), scope in _OURS.items()}
_WRITES = {"*", "CREATE", "UPDATE", "DELETE"}
_CHANGES = {"*", "UPDATE"}
_DEFAULT_TIMEOUT = 10
_SLOW_SECONDS = 10
_EXCLUDE = (
    "Exclude kube-system with a namespaceSelector (kubernetes.io/metadata.name NotIn kube-system), or set "
    "failurePolicy: Ignore."
)
_NARROW = (
    "These objects have no namespace, so a namespaceSelector doesn't exclude them: narrow the webhook's rules (scope: "
    "Namespaced, or other resources), or set failurePolicy: Ignore."
)


def check_webhooks(context: PreflightContext) -> Iterator[Finding]:
    """Each webhook that a write to kube-system, to a Lease or to a node has to pass."""
    backends = ServiceBackends(context.kube)
    namespace = context.kube.get(NAMESPACES, SYSTEM) or {"metadata": {}}
    labels = {"kubernetes.io/metadata.name": SYSTEM, **(namespace["metadata"].get("labels") or {})}
    for kind, resource in _CONFIGURATIONS.items():
        for configuration in context.kube.list(resource):
            name = configuration["metadata"]["name"]
            for webhook in configuration.get("webhooks") or ():
                caught = _caught(webhook, labels)
                if caught:
                    title = f"webhook {webhook['name']} of {kind} {name}"
                    see = f"kubectl get {kind.lower()} {name} -o yaml"
                    yield from _judge(title, webhook, caught, backends.problem(webhook["clientConfig"]), see)


def _judge(title: str, webhook: KubeObject, caught: list[str], problem: str, see: str) -> Iterator[Finding]:
    shown = first_few(caught)
    fails = webhook.get("failurePolicy", "Fail") == "Fail"
    exclude = _EXCLUDE if any(_SCOPES[resource] == "Namespaced" for resource in caught) else _NARROW
    if fails and problem:
        narrowed = _narrowed(webhook)
        yield Finding(
            "webhooks.no-backend",
            "warning" if narrowed else "error",
            f"{title} {'may refuse' if narrowed else 'refuses'} {shown}: {problem}",
            "Its failurePolicy is Fail, so the API server rejects these writes, including those of a rollback."
            + (f" Its {narrowed} might exclude some of them." if narrowed else ""),
            f"Fix its backend, or remove the webhook ({see}). {exclude}",
        )
    elif fails:
        yield Finding(
            "webhooks.catches-control-plane",
            "warning",
            f"{title} intercepts writes to {shown} of the control plane",
            "Its failurePolicy is Fail: while its backend is down, these objects can't be changed or rolled back, "
            "and the backend itself might need the control plane to start.",
            exclude,
        )
    seconds = webhook.get("timeoutSeconds", _DEFAULT_TIMEOUT)
    if seconds > _SLOW_SECONDS:
        yield Finding(
            "webhooks.slow",
            "warning",
            f"{title} can delay {shown} by {seconds} s each",
            "Kubernetes' own controllers time out writes after 10 s or less, Lease renewals after 5 s.",
            f"Set its timeoutSeconds to at most {_SLOW_SECONDS}.",
        )


def _caught(webhook: KubeObject, labels: Mapping[str, str]) -> list[str]:
    """The control plane's resources whose writes the webhook receives, in kube-system or without a namespace."""
    here = selects(webhook.get("namespaceSelector") or {}, labels)
    found: dict[str, None] = {}
    for rule in webhook.get("rules") or ():
        if not _WRITES.intersection(rule.get("operations") or ()):
            continue
        for (group, resource), scope in _OURS.items():
            if scope == "Namespaced" and not here:
                continue
            if resource.startswith("nodes") and not _CHANGES.intersection(rule["operations"]):
                continue  # a node is created once, by its own kubelet
            if rule.get("scope", "*") in ("*", scope) and _matches(rule, group, resource):
                found[resource] = None
    return list(found)


def _matches(rule: Mapping[str, Any], group: str, resource: str) -> bool:
    """Whether a rule names a resource itself: `pods/*` does, as Kubernetes reads it, and `pods/exec` doesn't."""
    groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
    main, _, part = resource.partition("/")
    names = {"*/*", f"{main}/*", f"*/{part}", resource} if part else {"*", "*/*", f"{main}/*", resource}
    return bool({"*", group}.intersection(groups)) and bool(names.intersection(resources))


def _narrowed(webhook: KubeObject) -> str:
    """The field that may exclude some of the matched objects, and can't be evaluated here; "" for none."""
    if webhook.get("matchConditions"):
        return "matchConditions"
    selector = webhook.get("objectSelector") or {}
    return "objectSelector" if selector.get("matchLabels") or selector.get("matchExpressions") else ""
