"""A certificate in a file of a controller."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

__all__ = ["RENEWED_BY_KUBEADM", "CertificateFile", "Keeper", "UnreadableCertificate"]

Keeper = Literal["kubeadm", "kubelet", "nobody", "unknown"]
"""Who renews a certificate: `kubeadm certs renew`, the kubelet itself, no one (as for a CA), or unknown."""

RENEWED_BY_KUBEADM = frozenset(
    f"/etc/kubernetes/{name}"
    for name in (
        "admin.conf",
        "super-admin.conf",
        "controller-manager.conf",
        "scheduler.conf",
        "pki/apiserver.crt",
        "pki/apiserver-kubelet-client.crt",
        "pki/apiserver-etcd-client.crt",
        "pki/front-proxy-client.crt",
        "pki/etcd/server.crt",
        "pki/etcd/peer.crt",
        "pki/etcd/healthcheck-client.crt",
    )
)
"""What `kubeadm certs renew all` writes."""


@dataclass(frozen=True)
class CertificateFile:
    """The first certificate of a file, if its issuers follow in the same file. Times are UTC."""

    host: str
    """The controller's name in the inventory."""
    path: str
    subject: str
    """As RFC 4514 writes it: `CN=kube-apiserver`."""
    issuer: str
    not_before: datetime
    not_after: datetime
    authority: bool
    """Whether it may issue other certificates."""

    @property
    def keeper(self) -> Keeper:
        """Who renews it, by kubeadm's names of the files."""
        if self.authority:
            return "nobody"
        if self.path.startswith("/var/lib/kubelet/"):
            return "kubelet"
        return "kubeadm" if self.path in RENEWED_BY_KUBEADM else "unknown"


@dataclass(frozen=True)
class UnreadableCertificate:
    """A file that should contain a certificate, and what is wrong with it."""

    host: str
    path: str
    why: str
