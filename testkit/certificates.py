"""Certificates for tests."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """A certificate authority; `stem`.pem is its certificate. `above`: the one that issues it, if it is no root."""

    def __init__(self, stem: Path, above: Authority | None = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("test authority" if above is None else "test authority below")
        issuer, key = (self._name, self._key) if above is None else (above._name, above._key)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        builder = _builder(self._name, issuer, self._key).add_extension(constraints, critical=True)
        _write(stem, builder.sign(key, hashes.SHA256()), self._key)

    def issue(
        self,
        stem: Path,
        subject: str,
        *,
        hours: tuple[float, float] = (-1, 1),
        hosts: Sequence[str] = (),
        addresses: Sequence[str] = (),
    ) -> None:
        """Write a certificate and its key for a name, from and until so many hours from now.

        It is valid for 127.0.0.1, for `addresses`, and for the names of `hosts`.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        own = (x509.IPAddress(ipaddress.ip_address(each)) for each in ("127.0.0.1", *addresses))
        names = x509.SubjectAlternativeName([*own, *map(x509.DNSName, hosts)])
        builder = _builder(_name(subject), self._name, key, hours).add_extension(names, critical=False)
        _write(stem, builder.sign(self._key, hashes.SHA256()), key)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    hours: tuple[float, float] = (-1, 1),
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return certificate(subject, issuer, key, now + timedelta(hours=hours[0]), now + timedelta(hours=hours[1]))


def certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, begins: datetime, ends: datetime
) -> x509.CertificateBuilder:
    """A certificate to be signed, with no more than names, key and validity."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
    )


def _write(stem: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    for suffix, content in ((".pem", certificate.public_bytes(serialization.Encoding.PEM)), (".key", pem)):
        path = stem.with_name(stem.name + suffix)
        path.unlink(missing_ok=True)  # a new inode, as a rotation makes
        path.write_bytes(content)
