"""kube-apiserver may use the kubelets' API, so that logs, exec and port-forward work."""

from __future__ import annotations

from collections.abc import Iterator

from cryptography import x509
from cryptography.x509.oid import NameOID

from upgrader.model.finding import Finding
from upgrader.ports import Kind
from upgrader.preflight.component_flags import component_flags
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.controller_keys import certificates_of

__all__ = ["check_kubelet_access"]

_REVIEWS = Kind("authorization.k8s.io/v1", "subjectaccessreviews", namespaced=False)
_FLAG = "kubelet-client-certificate"
_DEFAULT = "/etc/kubernetes/pki/apiserver-kubelet-client.crt"
_VERBS = ("get", "create")
"""The verbs on nodes/proxy that kubelets require: the former for logs, the latter for exec."""


def check_kubelet_access(context: PreflightContext) -> Iterator[Finding]:
    """A review of the rights of each controller's client certificate, as kubelets ask for one."""
    path = (component_flags(context, "kube-apiserver") or {}).get(_FLAG, _DEFAULT)
    clients: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for name, facts in context.facts.items():
        certificate = certificates_of(facts).get(path)
        if certificate is None:
            yield Finding(
                "kubelet-access.unread",
                "info",
                f"{name}: {path} is missing, so kube-apiserver's permissions on kubelets can't be checked",
            )
        else:
            clients.setdefault(_identity(certificate), []).append(name)
    for (user, groups), names in clients.items():
        missing = [verb for verb in _VERBS if not _allowed(context, user, groups, verb)]
        if missing:
            yield Finding(
                "kubelet-access.refused",
                "warning",
                f"kube-apiserver on {', '.join(names)} is not allowed to {' and '.join(missing)} nodes/proxy",
                f"It connects to kubelets as user {user} of groups {', '.join(groups) or 'none'}. Kubelets with "
                "webhook authorization refuse it: kubectl logs, exec and port-forward fail, and a failed step's logs "
                "can't be read.",
                "kubectl create clusterrolebinding kubeadm:apiserver-kubelet-client "
                f"--clusterrole=system:kubelet-api-admin --user={user}",
            )


def _identity(certificate: x509.Certificate) -> tuple[str, tuple[str, ...]]:
    """User and groups, as an API server reads them from a client's certificate."""
    names = {
        oid: tuple(str(item.value) for item in certificate.subject.get_attributes_for_oid(oid))
        for oid in (NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME)
    }
    return next(iter(names[NameOID.COMMON_NAME]), ""), tuple(sorted(names[NameOID.ORGANIZATION_NAME]))


def _allowed(context: PreflightContext, user: str, groups: tuple[str, ...], verb: str) -> bool:
    review = {
        "apiVersion": _REVIEWS.api_version,
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": {
            "user": user,
            "groups": [*groups, "system:authenticated"],
            "resourceAttributes": {"verb": verb, "resource": "nodes", "subresource": "proxy"},
        },
    }
    return bool(context.kube.create(_REVIEWS, review).get("status", {}).get("allowed"))
