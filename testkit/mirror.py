"""A mirror of Kubernetes' release for tests: its content, signed by its own CA, and a server for it.

Signatures are as cosign makes them for upstream: the identity and its provider are upstream's, the CA is not.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from testkit.certificates import certificate
from testkit.http_server import Handler, HttpServer, http_server
from upgrader.lab.mirror.signatures import IMAGES, RELEASES, Signer
from upgrader.lab.oci_archive import Image, digest_of, documents

__all__ = ["MirrorFiles", "Signing", "served", "signature_image", "signature_parts"]

_ISSUER = "1.3.6.1.4.1.57264.1.8"
_OCI = "application/vnd.oci.image"


class Signing:
    """A CA that issues certificates to signers for ten minutes, long ago; `roots` is its own, in PEM."""

    def __init__(self, *, hours_ago: float = 24 * 365, ca: bool = True) -> None:
        self._key = ec.generate_private_key(ec.SECP384R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test signers' CA")])
        self._at = datetime.now(UTC) - timedelta(hours=hours_ago)
        begun = self._at - timedelta(days=365)
        builder = certificate(self._name, self._name, self._key, begun, begun + timedelta(days=3650))
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        self.roots = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def sign(
        self,
        content: bytes | Path,
        signer: Signer = RELEASES,
        *,
        usage: ObjectIdentifier = ExtendedKeyUsageOID.CODE_SIGNING,
        at: datetime | None = None,
    ) -> tuple[bytes, bytes]:
        """The signature (base64) of bytes or a file, and the certificate (PEM) of the key that made it."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = signer.issuer.encode()
        names = x509.SubjectAlternativeName([x509.RFC822Name(signer.identity)])
        told = x509.UnrecognizedExtension(ObjectIdentifier(_ISSUER), bytes([12, len(issuer)]) + issuer)
        begun = at or self._at
        signed = (
            certificate(x509.Name([]), self._name, key, begun, begun + timedelta(minutes=10))
            .add_extension(names, critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(told, critical=False)
            .sign(self._key, hashes.SHA384())
        )
        data = content if isinstance(content, bytes) else content.read_bytes()
        signature = base64.b64encode(key.sign(data, ec.ECDSA(hashes.SHA256())))
        return signature, signed.public_bytes(serialization.Encoding.PEM)


@dataclass
class MirrorFiles:
    """The content of a mirror: path → bytes, or a file. Tests change it to what no mirror should have."""

    signing: Signing
    files: dict[str, bytes | Path] = field(default_factory=dict)

    def add_program(self, version: str, architecture: str, name: str, content: bytes | Path) -> str:
        """A program as dl.k8s.io has it; returns its path."""
        path = f"/release/{version}/bin/linux/{architecture}/{name}"
        data = content if isinstance(content, bytes) else content.read_bytes()
        signature, certificate = self.signing.sign(data)
        self.files[path] = content
        self.files[f"{path}.sha256"] = hashlib.sha256(data).hexdigest().encode()
        self.files[f"{path}.sig"] = signature
        self.files[f"{path}.cert"] = base64.b64encode(certificate)  # as cosign writes it
        return path

    def add_image(self, image: Image, signer: Signer = IMAGES) -> str:
        """An image for one architecture in an index, which is signed; returns the index's digest."""
        repository, _, tag = image.name.partition("/")[2].rpartition(":")
        config, manifest = documents(image)
        self._add(repository, "blobs", config)
        for layer in image.layers:
            self._add(repository, "blobs", layer.read_bytes())
        entry = {
            "mediaType": f"{_OCI}.manifest.v1+json",
            "digest": self._add(repository, "manifests", manifest),
            "size": len(manifest),
            "platform": {"os": "linux", "architecture": image.architecture},
        }
        index = {"schemaVersion": 2, "mediaType": f"{_OCI}.index.v1+json", "manifests": [entry]}
        content = json.dumps(index).encode()
        digest = self._add(repository, "manifests", content)
        self.files[f"/v2/{repository}/manifests/{tag}"] = content
        payload, document = signature_parts(digest, repository, self.signing, signer)
        self._add(repository, "blobs", payload)
        self.files[f"/v2/{repository}/manifests/{digest.replace(':', '-')}.sig"] = document
        return digest

    def _add(self, repository: str, kind: str, content: bytes) -> str:
        digest = digest_of(content)
        self.files[f"/v2/{repository}/{kind}/{digest}"] = content
        return digest


def signature_parts(digest: str, repository: str, signing: Signing, signer: Signer = IMAGES) -> tuple[bytes, bytes]:
    """The signed payload of an image, and the manifest beside it that has the signature."""
    critical = {
        "identity": {"docker-reference": f"registry.k8s.io/{repository}"},
        "image": {"docker-manifest-digest": digest},
        "type": "cosign container image signature",
    }
    payload = json.dumps({"critical": critical, "optional": None}).encode()
    signature, certificate = signing.sign(payload, signer)
    layer = {
        "mediaType": "application/vnd.dev.cosign.simplesigning.v1+json",
        "digest": digest_of(payload),
        "size": len(payload),
        "annotations": {
            "dev.cosignproject.cosign/signature": signature.decode(),
            "dev.sigstore.cosign/certificate": certificate.decode(),
        },
    }
    config = {"mediaType": f"{_OCI}.config.v1+json", "digest": digest_of(_CONFIG), "size": len(_CONFIG)}
    manifest = {"schemaVersion": 2, "mediaType": f"{_OCI}.manifest.v1+json", "config": config, "layers": [layer]}
    return payload, json.dumps(manifest).encode()


_CONFIG = b"{}"


def signature_image(image: Image, signing: Signing, folder: Path) -> Image:
    """cosign's signature of an image, as an image beside it in its registry; its parts are put into `folder`."""
    repository = image.name.partition("/")[2].rpartition(":")[0]
    digest = digest_of(documents(image)[1])
    payload, manifest = signature_parts(digest, repository, signing)
    file = folder / digest.removeprefix("sha256:")
    file.write_bytes(payload)
    name = f"{image.name.rpartition(':')[0]}:{digest.replace(':', '-')}.sig"
    return replace(image, name=name, layers=(file,), stored=(_CONFIG, manifest))


@contextmanager
def served(files: Mapping[str, bytes | Path], tls: ssl.SSLContext | None = None) -> Iterator[HttpServer]:
    """Serve a mirror's files on 127.0.0.1 while the context is open; what isn't there is 404."""

    def answer(request: Handler) -> None:
        content = files.get(request.path.partition("?")[0])
        if content is None:
            request.reply(404)
        elif isinstance(content, bytes):
            request.reply(200, content)
        else:
            request.send_response(200)
            request.send_header("Content-Length", str(content.stat().st_size))
            request.end_headers()
            with content.open("rb") as stream:
                shutil.copyfileobj(stream, request.wfile, 1 << 20)

    with http_server(answer, tls) as server:
        yield server
