"""Requested certificates are issued, and no token is valid permanently."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.gates.kubernetes_kinds import SECRETS
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.workload import parse_time
from upgrader.ports import Kind
from upgrader.preflight.context import PreflightContext

__all__ = ["check_signing_requests", "check_tokens"]

_REQUESTS = Kind("certificates.k8s.io/v1", "certificatesigningrequests", namespaced=False)
_KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
_WAITS_SECONDS = 600.0
_LAST_USED = "kubernetes.io/legacy-token-last-used"
"""The label that kube-apiserver sets on a Secret whose token is used, at most once a day."""


def check_signing_requests(context: PreflightContext) -> Iterator[Finding]:
    """Requests that have not been approved, denied or signed for ten minutes."""
    waiting: dict[str, list[str]] = {}
    for request in context.kube.each(_REQUESTS):
        status, spec = request.get("status") or {}, request.get("spec") or {}
        ended = {item["type"] for item in status.get("conditions") or ()} & {"Denied", "Failed"}
        created = parse_time(request["metadata"].get("creationTimestamp"))
        if ended or status.get("certificate") or created is None:
            continue
        if (context.clock.now() - created).total_seconds() >= _WAITS_SECONDS:
            who = str(spec.get("username") or request["metadata"]["name"])
            waiting.setdefault(str(spec.get("signerName")), []).append(who)
    for signer, users in sorted(waiting.items()):
        of_kubelets = signer == _KUBELET_CLIENT
        yield Finding(
            "signing-requests.pending",
            "warning" if of_kubelets else "info",
            f"certificate requests for {signer} are pending: {first_few(sorted(set(users)))}",
            "Kubelets whose certificate isn't renewed lose the API when it expires: their nodes become NotReady."
            if of_kubelets
            else "The requester keeps using its old certificate, or has none.",
            "Review them (kubectl get certificatesigningrequests), and approve the valid ones (kubectl certificate "
            "approve NAME). kube-controller-manager approves and signs the requests of kubelets.",
        )


def check_tokens(context: PreflightContext) -> Iterator[Finding]:
    """Tokens in Secrets that are in use. They are counted; none is read."""
    used = context.kube.count(SECRETS, labels=_LAST_USED)
    if used:
        yield Finding(
            "tokens.long-lived",
            "info",
            f"{used:,} ServiceAccount {'token that never expires' if used == 1 else 'tokens that never expire'} "
            f"{'is' if used == 1 else 'are'} in use",
            "They are stored in Secrets, and stay valid until the Secret is deleted or the token signing key is "
            "replaced.",
            "Switch their clients to short-lived tokens (kubectl create token, or a projected volume), then delete "
            f"the Secrets: kubectl get secrets -A -l {_LAST_USED}",
        )
