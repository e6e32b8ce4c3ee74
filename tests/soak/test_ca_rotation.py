"""`upgrader certs rotate-ca` with clients at work: to its end, and back from where the new CA is only trusted."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from testkit.api_load import ApiLoad, access_of
from testkit.lab_cluster import OLD, LabCluster, until
from testkit.labs import lent_or_new
from upgrader.ports import Kind

CONFIG_MAPS, PODS = Kind("v1", "configmaps"), Kind("v1", "pods")
PUBLISHED = (("kube-public", "cluster-info"), ("default", "kube-root-ca.crt"))
REQUESTS = Kind("certificates.k8s.io/v1", "certificatesigningrequests", namespaced=False)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabCluster]:
    """An adopted cluster of a controller and a worker, whose CA is another one afterwards."""
    with lent_or_new("soak-ca", tmp_path_factory.mktemp("lab"), "--workers", "1") as cluster:
        yield cluster


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


def test_to_its_end_under_load(cluster: LabCluster) -> None:
    """No request fails in any phase. The operator is told what to renew, and is refused before being locked out. In the
    end nothing knows the old CA: its clients are refused, the new one has issued everything, and tokens, aggregated
    APIs and the way to kubelets are as they were.
    """
    cluster.wait_until_settled(OLD)
    old, kubeconfig = _shown(cluster)["signs"], cluster.folder / "kubeconfig"
    _disturbs_nobody(cluster, "trust")
    refused = cluster.upgrader("certs", "rotate-ca", "sign", "--yes")
    assert refused.exit_code == 3 and "doesn't trust the new CA" in refused.stderr, refused
    _renewed(cluster, kubeconfig, "cluster")
    told = _disturbs_nobody(cluster, "sign")
    assert "give it client-certificate-data" in told

    now = _shown(cluster)
    new = now["new"]
    assert (now["stage"], now["signs"], now["old"]) == ("signed", new, old), now
    assert {item["issued_by"] for item in now["certificates"]} == {new}, now["certificates"]
    assert {item["node"] for item in now["certificates"]} == {"controller-1", "worker-1"}
    assert _issuer(cluster, "while-the-new-one-signs") == new
    _reaches_kubelets(cluster)
    refused = cluster.upgrader("certs", "rotate-ca", "finish", "--yes")
    assert refused.exit_code == 3 and "has a certificate of the old CA" in refused.stderr, refused
    former = cluster.folder / "kubeconfig.former"
    former.write_text(kubeconfig.read_text())
    _renewed(cluster, kubeconfig, "cluster", "user")
    _disturbs_nobody(cluster, "finish")

    now = _shown(cluster)
    assert (now["stage"], now["signs"], now["new"]) == ("none", new, ""), now
    assert all(item["trusts"] == [new] for item in now["files"]), now
    assert {_published(cluster, *name) for name in PUBLISHED} == {1}
    _renewed(cluster, former, "cluster")
    assert _status(former) == 401 and _status(kubeconfig) == 200
    token = cluster.on_controller("kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "create", "token", "default")
    assert token.count(".") == 2
    assert _issuer(cluster, "after-the-end") == new
    _reaches_kubelets(cluster)
    accepted = cluster.kube.get(CONFIG_MAPS, "extension-apiserver-authentication", "kube-system") or {}
    assert accepted["data"]["client-ca-file"].count("BEGIN CERTIFICATE") == 1
    left = "/var/lib/upgrader/certificates/*-ca* /etc/kubernetes/pki/signing-ca.crt"
    cluster.on_controller("sh", "-c", f"! ls -d {left}")
    ended = cluster.upgrader("certs", "renew", "--yes")
    assert ended.exit_code == 0, ended
    cluster.wait_until_settled(OLD)


def _renewed(cluster: LabCluster, kubeconfig: Path, *sections: str) -> None:
    """As the operator is told: its CAs ("cluster") and its certificate ("user") are those of admin.conf."""
    document = yaml.safe_load(kubeconfig.read_text())
    admin = yaml.safe_load(cluster.on_controller("cat", "/etc/kubernetes/admin.conf"))
    for section in sections:
        mine, theirs = document[f"{section}s"][0][section], admin[f"{section}s"][0][section]
        mine |= {key: value for key, value in theirs.items() if key.endswith("-data")}
    kubeconfig.write_text(yaml.safe_dump(document))


def _status(kubeconfig: Path) -> int:
    """What kube-apiserver answers to the client of a kubeconfig."""
    access = access_of(kubeconfig)
    connection = access.connect(10.0)
    connection.request("GET", "/api/v1/namespaces/default", headers=dict(access.headers))
    status = connection.getresponse().status
    connection.close()
    return status


def _reaches_kubelets(cluster: LabCluster) -> None:
    """kube-apiserver is a client of each node's kubelet."""
    pods = [
        pod["metadata"]["name"]
        for pod in cluster.kube.list(PODS, "kube-system")
        if pod["metadata"]["name"].startswith("kube-proxy-")
    ]
    assert len(pods) == 2
    kubectl = "kubectl --kubeconfig=/etc/kubernetes/admin.conf -n kube-system logs --tail=1"
    for name in pods:
        cluster.on_controller("sh", "-c", f"{kubectl} {name}")


def _disturbs_nobody(cluster: LabCluster, phase: str) -> str:
    """What the phase says."""
    with ApiLoad(cluster.folder / "kubeconfig") as load:
        ended = cluster.upgrader("certs", "rotate-ca", phase, "--yes", timeout_seconds=900)
        seen = load.stop()
    sys.stderr.write(f"{phase}: {ended.seconds:.0f} s, {seen}\n")
    assert ended.exit_code == 0, ended
    assert (seen.failed, seen.lost_writes) == (0, 0), seen
    assert cluster.report()["availability"]["failed"] == 0
    return ended.stderr


def _shown(cluster: LabCluster) -> Mapping[str, Any]:
    ended = cluster.upgrader("certs", "rotate-ca", "show", "-o", "json")
    assert ended.exit_code == 0, ended
    found: Mapping[str, Any] = json.loads(ended.stdout)
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
