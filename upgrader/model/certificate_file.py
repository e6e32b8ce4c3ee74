"""A certificate in a file of a controller."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

__all__ = ["CERTIFICATES_FOLDER", "CertificateFile", "Keeper", "UnreadableCertificate"]

Keeper = Literal["kubeadm", "kubelet", "nobody", "unknown"]
"""Who renews a certificate: `kubeadm certs renew`, the kubelet itself, no one (as for a CA), or unknown."""

CERTIFICATES_FOLDER = "/etc/kubernetes/pki"
"""kubeadm's folder of certificates where its `certificatesDir` says nothing else."""

_KUBECONFIGS = frozenset(
    f"/etc/kubernetes/{name}"
    for name in ("admin.conf", "super-admin.conf", "controller-manager.conf", "scheduler.conf")
)
_IN_FOLDER = (
    "apiserver.crt",
    "apiserver-kubelet-client.crt",
    "apiserver-etcd-client.crt",
    "front-proxy-client.crt",
    "etcd/server.crt",
    "etcd/peer.crt",
    "etcd/healthcheck-client.crt",
)
"""What `kubeadm certs renew all` writes, beside the kubeconfigs."""


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
    folder: str = CERTIFICATES_FOLDER
    """kubeadm's folder of certificates on that controller."""

    @property
    def keeper(self) -> Keeper:
        """Who renews it, by kubeadm's names of the files."""
        if self.authority:
            return "nobody"
        if self.path.startswith("/var/lib/kubelet/"):
            return "kubelet"
        renewed = self.path in _KUBECONFIGS or self.path in {f"{self.folder}/{name}" for name in _IN_FOLDER}
        return "kubeadm" if renewed else "unknown"


@dataclass(frozen=True)
class UnreadableCertificate:
    """A file that should contain a certificate, and what is wrong with it."""

    host: str
    path: str
    why: str
