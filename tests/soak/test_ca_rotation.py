"""`upgrader certs rotate-ca`: a new CA that is trusted beside the old one, and the way back, with clients at work."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from testkit.api_load import ApiLoad
from testkit.lab_cluster import OLD, LabCluster, until
from upgrader.ports import Kind

CONFIG_MAPS = Kind("v1", "configmaps")
PUBLISHED = (("kube-public", "cluster-info"), ("default", "kube-root-ca.crt"))
REQUESTS = Kind("certificates.k8s.io/v1", "certificatesigningrequests", namespaced=False)


def test_trusted_and_cancelled_under_load(cluster: LabCluster) -> None:
    """No request fails. Meanwhile everything on the node trusts both CAs, the old one still signs, for kubelets and
    users too, and a renewal is refused; afterwards all is as it was, and nothing is left of the new CA.
    """
    cluster.wait_until_settled(OLD)
    manifests, before = cluster.manifests(), _shown(cluster)
    assert before["new"] == "" and not before["trusted_everywhere"]
    _disturbs_nobody(cluster, "trust")

    now = _shown(cluster)
    assert now["trusted_everywhere"] and now["signs"] == before["signs"] and now["new_key_on"] == "controller-1"
    assert all(item["trusts"] == [now["signs"], now["new"]] for item in now["files"]), now
    assert {item["path"] for item in now["files"]} == {item["path"] for item in before["files"]}
    assert {_published(cluster, *name) for name in PUBLISHED} == {2}
    assert _issuer(cluster, "while-both-are-trusted") == before["signs"]
    refused = cluster.upgrader("certs", "renew", "--yes")
    assert refused.exit_code == 3 and "has several CAs" in refused.stderr, refused
    again = cluster.upgrader("certs", "rotate-ca", "trust", "--yes")
    assert again.exit_code == 0 and "Nothing to do" in again.stderr, again
    ended = cluster.upgrader("check", "--to", OLD, "-o", "json")
    found = [item["id"] for item in json.loads(ended.stdout)["findings"]]
    assert not [each for each in found if each.startswith(("certificates.", "keys.", "mounted-files."))], found

    _disturbs_nobody(cluster, "cancel")
    assert _shown(cluster) == before
    assert cluster.manifests() == manifests
    assert {_published(cluster, *name) for name in PUBLISHED} == {1}
    assert _issuer(cluster, "after-the-way-back") == before["signs"]
    left = "/var/lib/upgrader/certificates/new-ca* /etc/kubernetes/pki/signing-ca.crt"
    cluster.on_controller("sh", "-c", f"! ls -d {left}")
    cluster.wait_until_settled(OLD)


def _disturbs_nobody(cluster: LabCluster, phase: str) -> None:
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        ended = cluster.upgrader("certs", "rotate-ca", phase, "--yes", timeout_seconds=900)
        seen = load.stop()
    assert ended.exit_code == 0, ended
    assert (seen.failed, seen.lost_writes) == (0, 0), seen
    assert cluster.report()["availability"]["failed"] == 0


def _shown(cluster: LabCluster) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(cluster.upgrader("certs", "rotate-ca", "show", "-o", "json").stdout)
    return found


def _published(cluster: LabCluster, namespace: str, name: str) -> int:
    """How many CAs a ConfigMap has, as a file or in a kubeconfig."""
    data = (cluster.kube.get(CONFIG_MAPS, name, namespace) or {})["data"]
    text = (
        data.get("ca.crt")
        or base64.b64decode(data["kubeconfig"].partition("certificate-authority-data:")[2].split()[0]).decode()
    )
    return str(text).count("BEGIN CERTIFICATE")


def _issuer(cluster: LabCluster, name: str) -> str:
    """The fingerprint of the CA that signs what a client asks for, of those in the controller's ca.crt."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "somebody")])
    key = ec.generate_private_key(ec.SECP256R1())
    pem = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    text = base64.b64encode(pem.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {"request": text, "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}
    cluster.kube.create(REQUESTS, {"metadata": {"name": name}, "spec": spec})
    cluster.on_controller("kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "certificate", "approve", name)
    issued: list[x509.Certificate] = []

    def signed() -> bool:
        data = ((cluster.kube.get(REQUESTS, name) or {}).get("status") or {}).get("certificate")
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
