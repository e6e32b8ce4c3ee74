"""The TLS settings of a kubeconfig's certificates, and what is said of those that can't be used."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from testkit.certificates import Authority
from tests.unit.config.test_kubeconfig import kubeconfig
from upgrader.config.client_tls import client_tls
from upgrader.config.kubeconfig import read_kubeconfig
from upgrader.errors import ConfigError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Has a CA, and the certificates of `me` and `other` with their keys."""
    authority = Authority(tmp_path / "ca")
    for name in ("me", "other"):
        authority.issue(tmp_path / name, name)
    return tmp_path


def loaded(folder: Path, user: dict[str, Any], **cluster: str) -> None:
    """Use them, with the cluster's own CA unless there is another."""
    given = kubeconfig(folder, user, **{"certificate-authority": "ca.pem", **cluster})
    client_tls(read_kubeconfig(given), ["http/1.1"])


def why(folder: Path, user: dict[str, Any], **cluster: str) -> str:
    """The error where they can't be used, of one line."""
    with pytest.raises(ConfigError) as caught:
        loaded(folder, user, **cluster)
    assert "\n" not in caught.value.message and "_ssl.c" not in caught.value.message and caught.value.remedy
    return caught.value.message


def data(*paths: Path) -> str:
    """As kubeconfigs have it inline."""
    return base64.b64encode(b"".join(path.read_bytes() for path in paths)).decode()


def test_a_pair_in_any_form_is_used(folder: Path) -> None:
    """In two files, in one, inline, or half of each, as the kubelet's and kubeadm's kubeconfigs have them."""
    both = folder / "both.pem"
    both.write_bytes((folder / "me.pem").read_bytes() + (folder / "me.key").read_bytes())
    key = {"client-key-data": data(folder / "me.key")}
    loaded(folder, {"client-certificate": "me.pem", "client-key": "me.key"})
    loaded(folder, {"client-certificate": "both.pem", "client-key": "both.pem"})
    loaded(folder, {"client-certificate-data": data(folder / "me.pem"), **key})
    loaded(folder, {"client-certificate": "me.pem", **key})


def test_a_key_of_another_certificate_is_told_from_a_damaged_one(folder: Path) -> None:
    """Also where it is of another kind (RSA, ECDSA), of which OpenSSL says that there is no certificate."""
    of_rsa = rsa.generate_private_key(65537, 2048)
    form = serialization.PrivateFormat.PKCS8
    pem = of_rsa.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    (folder / "rsa.key").write_bytes(pem)
    for key in ("other.key", "rsa.key"):
        text = why(folder, {"client-certificate": "me.pem", "client-key": key})
        assert "don't belong together" in text and "me.pem" in text and key in text
    inline = {"client-certificate-data": data(folder / "me.pem"), "client-key-data": data(folder / "other.key")}
    assert "its client-certificate-data and client-key-data don't belong together" in why(folder, inline)


def test_what_is_half_written_or_missing_is_said(folder: Path) -> None:
    """A file that is read while it is written, a certificate without a key, and text that is no base64."""
    (folder / "half.key").write_bytes((folder / "me.key").read_bytes()[:100])
    half = why(folder, {"client-certificate": "me.pem", "client-key": "half.key"})
    assert "half.key) can't be used: one of them isn't complete, or not in PEM format" in half
    assert "client-key (not set) can't be used" in why(folder, {"client-certificate": "me.pem"})
    broken = {"client-certificate-data": "&", "client-key-data": data(folder / "me.key")}
    assert "client-key-data can't be used: client-certificate-data: " in why(folder, broken)


def test_an_authority_that_can_not_be_used_is_said(folder: Path) -> None:
    """With its file; it is never replaced by this machine's own."""
    user = {"token": "t"}
    (folder / "half.pem").write_bytes((folder / "ca.pem").read_bytes()[:100])
    assert "half.pem) can't be used: it isn't complete" in why(folder, user, **{"certificate-authority": "half.pem"})
    text = why(folder, user, **{"certificate-authority": "me.key"})
    assert "me.key) can't be used: no certificate or crl found" in text
