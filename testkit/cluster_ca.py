"""What tests read from a lab while `upgrader certs rotate-ca` replaces its CA, and what an operator does meanwhile."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from testkit.lab_cluster import LabCluster, until
from upgrader.ports import Kind

__all__ = ["certificates_published", "operator_renewed", "signing_ca", "trust_shown"]

_CONFIG_MAPS = Kind("v1", "configmaps")
_REQUESTS = Kind("certificates.k8s.io/v1", "certificatesigningrequests", namespaced=False)
_COUNTED = "BEGIN CERTIFICATE"


def trust_shown(cluster: LabCluster) -> Mapping[str, Any]:
    """What `certs rotate-ca show` says, as JSON."""
    ended = cluster.upgrader("certs", "rotate-ca", "show", "-o", "json")
    assert ended.exit_code == 0, ended
    found: Mapping[str, Any] = json.loads(ended.stdout)
    return found


def operator_renewed(cluster: LabCluster, kubeconfig: Path, *sections: str) -> None:
    """As the operator is told: the CAs ("cluster") and certificate ("user") of the kubeconfig become those of
    admin.conf.
    """
    document = yaml.safe_load(kubeconfig.read_text())
    admin = yaml.safe_load(cluster.on_controller("cat", "/etc/kubernetes/admin.conf"))
    for section in sections:
        mine, theirs = document[f"{section}s"][0][section], admin[f"{section}s"][0][section]
        mine |= {key: value for key, value in theirs.items() if key.endswith("-data")}
    kubeconfig.write_text(yaml.safe_dump(document))


def certificates_published(cluster: LabCluster, namespace: str, name: str) -> int:
    """How many CAs a ConfigMap has, as a file (`ca.crt`, `client-ca-file`) or in a kubeconfig."""
    data = (cluster.kube.get(_CONFIG_MAPS, name, namespace) or {})["data"]
    if "kubeconfig" in data:
        encoded = data["kubeconfig"].partition("certificate-authority-data:")[2].split()[0]
        return base64.b64decode(encoded).decode().count(_COUNTED)
    return str(data.get("ca.crt") or data["client-ca-file"]).count(_COUNTED)


def signing_ca(cluster: LabCluster, name: str) -> str:
    """The fingerprint of the CA in the first controller's ca.crt that signs a client's request.

    `name`: of the request, a new one each time.
    """
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody")])
    key = ec.generate_private_key(ec.SECP256R1())
    pem = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    text = base64.b64encode(pem.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {"request": text, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}
    cluster.kube.create(_REQUESTS, {"metadata": {"name": name}, "spec": spec})
    cluster.on_controller("kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "certificate", "approve", name)
    issued: list[x509.Certificate] = []

    def signed() -> bool:
        data = ((cluster.kube.get(_REQUESTS, name) or {}).get("status") or {}).get("certificate")
        if data:
            issued.append(x509.load_pem_x509_certificate(base64.b64decode(data)))
        return bool(data)

    until("a signed certificate", signed, timeout_seconds=60)
    for ca in x509.load_pem_x509_certificates(cluster.on_controller("cat", "/etc/kubernetes/pki/ca.crt").encode()):
        try:
            issued[0].verify_directly_issued_by(ca)
        except (InvalidSignature, ValueError, TypeError):
            continue
        return ca.fingerprint(hashes.SHA256()).hex()
    raise AssertionError("no CA of the controller signed it")
