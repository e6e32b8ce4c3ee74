"""A CA and what it issues, as kubeadm names them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

__all__ = ["KUBELET_CLIENT", "CertificateAuthority", "client_certificate"]

KUBELET_CLIENT = "/etc/kubernetes/pki/apiserver-kubelet-client.crt"


@dataclass(frozen=True)
class CertificateAuthority:
    """`pem` is its certificate; two of one name have different keys."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def named(cls, name: str) -> CertificateAuthority:
        """A new one."""
        return cls(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), ec.generate_private_key(ec.SECP256R1()))

    @property
    def pem(self) -> str:
        """Its certificate, made anew each time, with the same key."""
        return self._signed(self.name, self.key.public_key())

    def issue(self, user: str, *groups: str, until: datetime | None = None) -> str:
        """A client's certificate; `until`: when it ends."""
        names = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        names += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        return self._signed(x509.Name(names), ec.generate_private_key(ec.SECP256R1()).public_key(), until)

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePublicKey, until: datetime | None = None) -> str:
        builder = x509.CertificateBuilder(self.name, subject, key, x509.random_serial_number())
        builder = builder.not_valid_before(datetime(2025, 1, 1, tzinfo=UTC))
        builder = builder.not_valid_after(until or datetime(2035, 1, 1, tzinfo=UTC))
        builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def encoded(text: str) -> str:
    """As kubeconfigs have a certificate: base64."""
    return base64.b64encode(text.encode()).decode()


def printed(files: Mapping[str, str]) -> str:
    """What a controller with these files prints for `read_certificates`, by their paths below /etc/kubernetes."""
    paths = {name if name.startswith("/") else f"/etc/kubernetes/{name}": text for name, text in files.items()}
    return "".join(f"certificate {encoded(path)} {encoded(text)}\n" for path, text in paths.items())


@cache
def client_certificate() -> dict[str, Any]:
    """With which kubeadm lets kube-apiserver ask kubelets, as a fact."""
    pem = CertificateAuthority.named("kubernetes").issue("kube-apiserver-kubelet-client")
    return {"path": KUBELET_CLIENT, "not_before": {"now": -1}, "not_after": {"now": 1}, "pem": pem}
