"""Whose signature counts, and of what."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.x509.oid import ExtendedKeyUsageOID

from testkit.mirror import Signing, signature_parts
from upgrader.errors import UsageError
from upgrader.lab.mirror.signatures import (
    IMAGES,
    RELEASES,
    Authorities,
    Signer,
    Unverified,
    read_authorities,
    verify,
    verify_image,
)

CONTENT = b"a program"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
DIGEST = "sha256:" + "1" * 64


@pytest.fixture
def signing() -> Signing:
    return Signing()


def trusting(signing: Signing, folder: Path) -> Authorities:
    """Those of a file with the CA's certificate."""
    (folder / "roots.pem").write_bytes(signing.roots)
    return read_authorities(folder / "roots.pem")


def test_signed_long_ago(signing: Signing, tmp_path: Path) -> None:
    """Certificates of signers are valid for minutes: what counts is that the CA was valid when it issued one."""
    verify(SHA256, *signing.sign(CONTENT), trusting(signing, tmp_path), RELEASES)


def test_other_bytes(signing: Signing, tmp_path: Path) -> None:
    """A signature is that of one content."""
    other = hashlib.sha256(b"another").hexdigest()
    with pytest.raises(Unverified, match=f"not for a file with the SHA-256 {other}"):
        verify(other, *signing.sign(CONTENT), trusting(signing, tmp_path), RELEASES)


@pytest.mark.parametrize(
    ("signer", "why"),
    [
        (Signer("mallory@example.com", RELEASES.issuer), "signed by mallory@example.com, not by krel-staging@"),
        (IMAGES, "signed by krel-trust@"),
        (Signer(RELEASES.identity, "https://example.com"), "not identified by https://accounts.google.com"),
        (Signer(RELEASES.identity, RELEASES.issuer + ".example.com"), "not identified by https://accounts.google.com"),
    ],
)
def test_other_signers(signing: Signing, tmp_path: Path, signer: Signer, why: str) -> None:
    """Anybody gets a certificate of Sigstore's: what counts is to whom it was issued, and who vouched for that."""
    with pytest.raises(Unverified, match=why):
        verify(SHA256, *signing.sign(CONTENT, signer), trusting(signing, tmp_path), RELEASES)


def test_another_ca_of_the_same_name(signing: Signing, tmp_path: Path) -> None:
    """A CA is its key, and not its name."""
    with pytest.raises(Unverified, match=r"which is not in .*roots\.pem"):
        verify(SHA256, *Signing().sign(CONTENT), trusting(signing, tmp_path), RELEASES)


def test_no_ca(tmp_path: Path) -> None:
    """A certificate of a signer in the file doesn't make it a CA."""
    signing = Signing(ca=False)
    with pytest.raises(Unverified, match="is not a CA"):
        verify(SHA256, *signing.sign(CONTENT), trusting(signing, tmp_path), RELEASES)


def test_ca_that_was_not_valid(signing: Signing, tmp_path: Path) -> None:
    """A certificate dated before its CA was is not one of that CA's time."""
    early = signing.sign(CONTENT, at=datetime.now(UTC) - timedelta(days=3000))
    with pytest.raises(Unverified, match="was not valid when it issued the certificate"):
        verify(SHA256, *early, trusting(signing, tmp_path), RELEASES)


def test_certificate_of_a_server(signing: Signing, tmp_path: Path) -> None:
    """What the CA issues for other purposes signs nothing."""
    server = signing.sign(CONTENT, usage=ExtendedKeyUsageOID.SERVER_AUTH)
    with pytest.raises(Unverified, match="not for signing code"):
        verify(SHA256, *server, trusting(signing, tmp_path), RELEASES)


@pytest.mark.parametrize("which", ["signature", "certificate"])
@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"\xff\xfe"])
def test_damaged_files(signing: Signing, tmp_path: Path, which: str, content: bytes) -> None:
    """Whatever is in place of a signature or a certificate, it is no signature."""
    signature, certificate = signing.sign(CONTENT)
    parts = (content, certificate) if which == "signature" else (signature, content)
    with pytest.raises(Unverified):
        verify(SHA256, *parts, trusting(signing, tmp_path), RELEASES)


def image_signature(signing: Signing, digest: str, repository: str) -> tuple[bytes, Mapping[str, Any]]:
    """A payload, and the annotations with its signature."""
    payload, manifest = signature_parts(digest, repository, signing)
    return payload, json.loads(manifest)["layers"][0]["annotations"]


def test_signed_image(signing: Signing, tmp_path: Path) -> None:
    """By its digest and its name, wherever its repository was when it was signed."""
    for repository in ("kube-proxy", "kubernetes/kube-proxy-amd64"):
        signed = image_signature(signing, DIGEST, repository)
        verify_image(DIGEST, ("kube-proxy", "kube-proxy-amd64"), *signed, trusting(signing, tmp_path))


@pytest.mark.parametrize(
    ("digest", "repository", "why"),
    [
        ("sha256:" + "2" * 64, "kube-proxy", "another image, sha256:22"),
        (DIGEST, "kube-scheduler", "an image kube-scheduler"),
        (DIGEST, "kube-proxy-that-is-another", "an image kube-proxy-that"),
    ],
)
def test_signature_of_another_image(signing: Signing, tmp_path: Path, digest: str, repository: str, why: str) -> None:
    """A genuine signature doesn't make of one image another."""
    signed = image_signature(signing, digest, repository)
    with pytest.raises(Unverified, match=why):
        verify_image(DIGEST, ("kube-proxy", "kube-proxy-amd64"), *signed, trusting(signing, tmp_path))


def test_signature_of_something_else(signing: Signing, tmp_path: Path) -> None:
    """What the same identity signs that is no image's digest doesn't count as one."""
    signature, certificate = signing.sign(b"{}", IMAGES)
    annotations = {
        "dev.cosignproject.cosign/signature": signature.decode(),
        "dev.sigstore.cosign/certificate": certificate.decode(),
    }
    with pytest.raises(Unverified, match="isn't an image's digest"):
        verify_image(DIGEST, ("pause",), b"{}", annotations, trusting(signing, tmp_path))
    with pytest.raises(Unverified):
        verify_image(DIGEST, ("pause",), b"{}", {}, trusting(signing, tmp_path))


def test_default_ca() -> None:
    """Without a file it is Sigstore's public instance, by the fingerprint that its own list has."""
    found = read_authorities(None)
    assert [each.subject.rfc4514_string() for each in found.certificates] == ["CN=sigstore-intermediate,O=sigstore.dev"]
    assert found.key == "15d795348226"  # begins its SHA-256


def test_sets_of_cas(signing: Signing, tmp_path: Path) -> None:
    """Another set has another key, in whichever order it is written."""
    other = Signing()
    for name, content in (("a", signing.roots), ("b", signing.roots + other.roots), ("c", other.roots + signing.roots)):
        (tmp_path / name).write_bytes(content)
    one, both, turned = (read_authorities(tmp_path / name).key for name in "abc")
    assert one != both == turned


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
def test_file_without_a_ca(tmp_path: Path, content: bytes | None) -> None:
    """Named, and refused before anything is asked for."""
    if content is not None:
        (tmp_path / "roots.pem").write_bytes(content)
    with pytest.raises(UsageError, match=r"--mirror-roots .*roots\.pem can't be used"):
        read_authorities(tmp_path / "roots.pem")
