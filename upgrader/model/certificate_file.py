"""A certificate in a file of a controller."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

__all__ = ["CertificateFile", "Keeper", "UnreadableCertificate"]

Keeper = Literal["kubeadm", "kubelet", "nobody"]
"""Who renews a certificate: `kubeadm certs renew`, the kubelet by itself, or nobody, as with a CA."""


@dataclass(frozen=True)
class CertificateFile:
    """The first certificate of a file: the file's own, where its issuers follow. Times are UTC."""

    host: str
    """The controller's name in the inventory."""
    path: str
    subject: str
    """As RFC 4514 writes it: `CN=kube-apiserver`."""
    issuer: str
    not_before: datetime
    not_after: datetime
    authority: bool
    """Whether it may issue others."""

    @property
    def keeper(self) -> Keeper:
        """Who renews it, by kubeadm's names of the files."""
        if self.authority:
            return "nobody"
        return "kubelet" if self.path.startswith("/var/lib/kubelet/") else "kubeadm"


@dataclass(frozen=True)
class UnreadableCertificate:
    """A file that should have a certificate, and what is wrong with it."""

    host: str
    path: str
    why: str
