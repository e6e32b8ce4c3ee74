"""An API server on 127.0.0.1 with a CA of its own, and a kubeconfig for it, for the tests that ask for one."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from testkit.ansible_forks import AnsibleForks
from tests.unit.gates.availability.server import TOKEN, ApiServer, Listener
from upgrader.model.redaction.known_secrets import KNOWN


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _certificates(folder: Path) -> None:
    """A CA, and a certificate for 127.0.0.1 and `kubernetes`."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    base = (
        x509.CertificateBuilder()
        .issuer_name(name)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
    authority = (
        base.subject_name(name)
        .serial_number(1)
        .public_key(authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("kubernetes")])
    certificate = (
        base.subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "server")]))
        .serial_number(2)
        .public_key(key.public_key())
        .add_extension(names, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    (folder / "ca.crt").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    (folder / "server.pem").write_bytes(_pem(key) + certificate.public_bytes(serialization.Encoding.PEM))


@pytest.fixture(params=[True])
def api(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[ApiServer]:
    """The server, and a kubeconfig for it in `tmp_path`. Parametrised indirectly with False, it speaks no HTTP/2."""
    _certificates(tmp_path)
    listener = Listener(tmp_path, tmp_path / "kubeconfig", http2=request.param)
    cluster = {"server": f"https://127.0.0.1:{listener.state.port}", "certificate-authority": "ca.crt"}
    config = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": TOKEN}}],
    }
    listener.state.kubeconfig.write_text(json.dumps(config))
    yield listener.state
    listener.close()


@pytest.fixture(autouse=True)
def _secrets_of_other_tests() -> Iterator[None]:
    """What one test taught this process to mask is forgotten in the next."""
    forms, pattern = set(KNOWN._forms), KNOWN._pattern
    yield
    KNOWN._forms, KNOWN._pattern = forms, pattern


@pytest.fixture(autouse=True, scope="session")
def _no_fsync() -> Iterator[None]:
    """No test loses its power, and a disk takes milliseconds for each of ten thousand calls: tests of what is durable
    have an `os.fsync` of their own.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def _ansible_is_imported_once() -> Iterator[None]:
    """And not for each inventory, which takes half a second of a processor: tests of the test kit compare the two."""
    forks = AnsibleForks()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("upgrader.config.inventory.subprocess", forks)
        yield
    forks.close()
