"""Verifies the signatures of Kubernetes' release managers: cosign's keyless signatures, without a network.

What is verified: the signature is for these bytes, by the key of the certificate; the certificate was issued by a
trusted CA, to the release managers' identity, as their identity provider confirmed; the CA was valid then. What isn't
verified: that the transparency log (Rekor) has the signature, and that it was made in the ten minutes for which the
certificate was valid.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

from upgrader.errors import UsageError

__all__ = ["IMAGES", "RELEASES", "Authorities", "Signer", "Unverified", "read_authorities", "verify", "verify_image"]

_ISSUER_IN_DER = ObjectIdentifier("1.3.6.1.4.1.57264.1.8")
_ISSUER_AS_TEXT = ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_UTF8_STRING = 12
_SIGNATURE = "dev.cosignproject.cosign/signature"
_CERTIFICATE = "dev.sigstore.cosign/certificate"


class Unverified(Exception):
    """The signature isn't valid; the text says why."""


@dataclass(frozen=True)
class Signer:
    """The identity of a trusted signer: an e-mail address, and the identity provider that confirmed it."""

    identity: str
    issuer: str


RELEASES = Signer("krel-staging@k8s-releng-prod.iam.gserviceaccount.com", "https://accounts.google.com")
"""Signs binaries."""
IMAGES = Signer("krel-trust@k8s-releng-prod.iam.gserviceaccount.com", "https://accounts.google.com")
"""Signs images when they are promoted to registry.k8s.io."""


@dataclass(frozen=True)
class Authorities:
    """The CAs that are trusted to issue certificates to signers; `key` names this set among others."""

    certificates: tuple[x509.Certificate, ...]
    name: str

    @property
    def key(self) -> str:
        every = sorted(each.public_bytes(serialization.Encoding.DER) for each in self.certificates)
        return hashlib.sha256(b"".join(every)).hexdigest()[:12]


def read_authorities(file: Path | None) -> Authorities:
    """Those of a PEM file; without one, Sigstore's public instance."""
    try:
        content = file.read_bytes() if file else (files(__package__) / "sigstore.pem").read_bytes()
        found = x509.load_pem_x509_certificates(content)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it has no certificate in PEM"
        raise UsageError(f"--mirror-roots {file} can't be used: {why}") from error
    return Authorities(tuple(found), str(file) if file else "Sigstore's public instance")


def verify(sha256: str, signature: bytes, certificate: bytes, authorities: Authorities, signer: Signer) -> None:
    """Raise Unverified unless `signer` signed the bytes with that SHA-256 (hexadecimal).

    `signature` is base64, `certificate` is PEM, or that in base64, as cosign writes it.
    """
    found = _certificate(certificate)
    _require_issued(found, authorities)
    _require_signer(found, signer)
    key = found.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise Unverified("the certificate's key is not an ECDSA key")
    try:
        raw = base64.b64decode(signature.strip(), validate=True)
        key.verify(raw, bytes.fromhex(sha256), ec.ECDSA(Prehashed(hashes.SHA256())))
    except binascii.Error as error:
        raise Unverified("the signature is not base64") from error
    except InvalidSignature as error:
        raise Unverified(f"the signature is not for a file with the SHA-256 {sha256}") from error


def verify_image(
    digest: str, names: Collection[str], payload: bytes, annotations: Mapping[str, str], authorities: Authorities
) -> None:
    """Raise Unverified unless the payload of an image's signature is signed, and refers to this digest of this image.

    `names` are the allowed last parts of its repository: a signature doesn't bind an image to the whole name, nor to a
    tag.
    """
    sha256 = hashlib.sha256(payload).hexdigest()
    signature, certificate = (annotations.get(key, "").encode() for key in (_SIGNATURE, _CERTIFICATE))
    verify(sha256, signature, certificate, authorities, IMAGES)
    try:
        signed: Mapping[str, Any] = json.loads(payload)["critical"]
        means = (signed["type"], signed["image"]["docker-manifest-digest"])
        of_image = str(signed["identity"]["docker-reference"]).rpartition("/")[2]
    except (ValueError, KeyError, TypeError) as error:
        raise Unverified("the signed payload isn't an image's digest") from error
    if means != ("cosign container image signature", digest):
        raise Unverified(f"the signature is for another image, {means[1]}")
    if of_image not in names:
        raise Unverified(f"the signature is for an image {of_image}")


def _certificate(content: bytes) -> x509.Certificate:
    try:
        if not content.lstrip().startswith(b"-----"):
            content = base64.b64decode(content.strip(), validate=True)
        return x509.load_pem_x509_certificate(content)
    except ValueError as error:
        raise Unverified("its certificate can't be read") from error


def _require_issued(found: x509.Certificate, authorities: Authorities) -> None:
    for authority in authorities.certificates:
        try:
            found.verify_directly_issued_by(authority)
        except (InvalidSignature, ValueError, TypeError):
            continue
        if not _is_ca(authority):
            raise Unverified(f"{authority.subject.rfc4514_string()} in {authorities.name} is not a CA")
        if not authority.not_valid_before_utc <= found.not_valid_before_utc <= authority.not_valid_after_utc:
            raise Unverified(
                f"the CA {authority.subject.rfc4514_string()} was not valid when it issued the certificate"
            )
        return
    issuer = found.issuer.rfc4514_string()
    raise Unverified(f"its certificate is from the CA {issuer!r}, which is not in {authorities.name}")


def _is_ca(authority: x509.Certificate) -> bool:
    try:
        constraints = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (x509.ExtensionNotFound, ValueError):
        return False
    return constraints.ca


def _require_signer(found: x509.Certificate, signer: Signer) -> None:
    try:
        usages = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        names = list(found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    except (x509.ExtensionNotFound, ValueError) as error:
        raise Unverified("its certificate says neither who signed nor that it is for signing") from error
    if ExtendedKeyUsageOID.CODE_SIGNING not in usages:
        raise Unverified("its certificate is not for signing code")
    if names != [x509.RFC822Name(signer.identity)]:
        told = ", ".join(str(name.value) for name in names)
        raise Unverified(f"it is signed by {told or 'an unknown identity'}, not by {signer.identity}")
    expected = signer.issuer.encode()
    told_by = {
        extension.value.value
        for extension in found.extensions
        if extension.oid in (_ISSUER_IN_DER, _ISSUER_AS_TEXT)
        and isinstance(extension.value, x509.UnrecognizedExtension)
    }
    if not told_by or told_by - {expected, bytes([_UTF8_STRING, len(expected)]) + expected}:
        raise Unverified(f"its signer was not identified by {signer.issuer}")
