"""A certificate authority of our own, the certificate that it signs, and when what is replaced: pure.

No webhook call may fail while an authority changes. So a successor is trusted first: it is in `trusted`, which is
injected into the webhook configurations, and signs nothing. Once all of them have it, it becomes the authority and
signs a new certificate. The former one stays trusted until it ends, for a replica that shows the old certificate still.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Bundle", "Pair", "Wanted", "renewed"]

_AUTHORITY_LIFE = timedelta(days=3650)
_USES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)
_SKEW = timedelta(minutes=5)
"""Clocks of API servers may be behind ours by so much."""


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, PEM."""

    certificate: bytes
    key: bytes

    @property
    def parsed(self) -> x509.Certificate:
        """Raises ValueError."""
        return x509.load_pem_x509_certificate(self.certificate)


@dataclass(frozen=True)
class Wanted:
    """What the certificate is for: the Service's DNS names, an organization, and for how long."""

    names: tuple[str, ...]
    organization: str = "upgrader"
    life: timedelta = timedelta(days=365)


@dataclass(frozen=True)
class Bundle:
    """All that is kept in the Secret."""

    authority: Pair
    """Has signed `leaf`."""
    leaf: Pair
    successor: Pair | None = None
    former: tuple[bytes, ...] = ()

    @property
    def trusted(self) -> bytes:
        """What the webhook configurations trust: authority, successor, former ones; PEM."""
        return b"".join(
            (self.authority.certificate, self.successor.certificate if self.successor else b"", *self.former)
        )


def renewed(bundle: Bundle | None, wanted: Wanted, now: datetime, *, injected: bool) -> Bundle:
    """What to have now: the same where nothing is due.

    `injected`: whether all webhook configurations have had `bundle.trusted` for a while. A certificate is replaced when
    two thirds of its life are over.
    """
    if bundle is None or _ends(bundle.authority) <= now:
        authority = _authority(wanted, now)
        return Bundle(authority, _leaf(authority, wanted, now))
    former = tuple(each for each in bundle.former if x509.load_pem_x509_certificate(each).not_valid_after_utc > now)
    bundle = bundle if former == bundle.former else replace(bundle, former=former)
    if bundle.successor is not None and injected:
        authority = bundle.successor
        return Bundle(authority, _leaf(authority, wanted, now), former=(bundle.authority.certificate, *former))
    if bundle.successor is None and _due(bundle.authority, now):
        bundle = replace(bundle, successor=_authority(wanted, now))
    if _due(bundle.leaf, now) or _names(bundle.leaf) != set(wanted.names):
        return replace(bundle, leaf=_leaf(bundle.authority, wanted, now))
    return bundle


def _due(pair: Pair, now: datetime) -> bool:
    found = pair.parsed
    begins, ends = found.not_valid_before_utc, found.not_valid_after_utc
    return now >= begins + (ends - begins) * 2 / 3


def _ends(pair: Pair) -> datetime:
    return pair.parsed.not_valid_after_utc


def _names(pair: Pair) -> set[str]:
    found = pair.parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))}


def _authority(wanted: Wanted, now: datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # Its time is in its name: a verifier looks for an issuer by name, and must not take one for the other.
    name = _name(wanted.organization, f"guard's webhooks, since {now:%Y-%m-%dT%H:%M:%SZ}")
    usage = {use: use in ("key_cert_sign", "crl_sign") for use in _USES}
    signed = (
        _builder(name, name, key, now, _AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(signed, key)


def _leaf(authority: Pair, wanted: Wanted, now: datetime) -> Pair:
    issuer = authority.parsed
    signer = serialization.load_pem_private_key(authority.key, password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey), "we made it"
    key = ec.generate_private_key(ec.SECP256R1())
    # Never longer than its authority, which is replaced when a third of ten years is left.
    life = min(wanted.life, issuer.not_valid_after_utc - now)
    signed = (
        _builder(_name(wanted.organization, "guard"), issuer.subject, key, now, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(_general_names(wanted.names)), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        .sign(signer, hashes.SHA256())
    )
    return _pair(signed, key)


def _general_names(names: Sequence[str]) -> list[x509.GeneralName]:
    found: list[x509.GeneralName] = []
    for name in names:
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found


def _name(organization: str, common: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
            x509.NameAttribute(NameOID.COMMON_NAME, common),
        ]
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
    )


def _pair(signed: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair(signed.public_bytes(serialization.Encoding.PEM), pem)
