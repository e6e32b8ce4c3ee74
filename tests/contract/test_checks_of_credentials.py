"""Checks of rights, certificates and tokens, on a real API server."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from testkit.lab_cluster import until
from testkit.pki import KUBELET_CLIENT, CertificateAuthority
from tests.contract.checking import GROUP, Make, checked, findings, found, ids
from tests.unit.recover.host_facts_json import host_facts
from upgrader.adapters.kube import KubeAdapter
from upgrader.errors import ApiError
from upgrader.model.cluster import Host
from upgrader.onhost.sending.host_facts import Examined
from upgrader.ports import Kind
from upgrader.preflight.access_rights import check_access
from upgrader.preflight.all_checks import Check, run_checks
from upgrader.preflight.cluster_credentials import check_signing_requests, check_tokens
from upgrader.preflight.context import PODS
from upgrader.preflight.critical_pods import check_critical_pods
from upgrader.preflight.kubelet_access import check_kubelet_access
from upgrader.preflight.namespaces import check_namespaces
from upgrader.preflight.removed_apis import check_removed_apis
from upgrader.preflight.served_apis import check_served_apis

REQUESTS = Kind("certificates.k8s.io/v1", "certificatesigningrequests", namespaced=False)
BINDINGS = Kind("rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False)
ACCOUNTS = Kind("v1", "serviceaccounts")
SECRETS = Kind("v1", "secrets")
ROLES = Kind("rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False)
WORKLOADS = ("deployments", "daemonsets", "statefulsets", "replicasets")


def asked_for(user: str) -> str:
    """A request for a certificate, as an API server takes it."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, user)])
    signed = x509.CertificateSigningRequestBuilder().subject_name(name)
    pem = signed.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(pem.public_bytes(serialization.Encoding.PEM)).decode()


def test_certificate_that_nobody_issues(kube: KubeAdapter, made: Make) -> None:
    """A request to a signer that nobody is waits; ten minutes later it is told."""
    signer = f"{GROUP}/nobody"
    made(
        REQUESTS, {"metadata": {}, "spec": {"request": asked_for("x"), "signerName": signer, "usages": ["client auth"]}}
    )
    assert found(kube, check_signing_requests, signer) == []
    assert found(kube, check_signing_requests, signer, later=timedelta(minutes=11)) == ["signing-requests.pending"]


def test_token_that_never_expires(kube: KubeAdapter, made: Make) -> None:
    """One that a client has used: kube-apiserver itself marks its Secret."""
    account = made(ACCOUNTS, {"metadata": {}}, "default")
    before = [item.title for item in findings(kube, check_tokens)]
    meta = {"annotations": {"kubernetes.io/service-account.name": account}}
    name = made(SECRETS, {"metadata": meta, "type": "kubernetes.io/service-account-token"}, "default")
    until("a token", lambda: bool(_token(kube, name)), timeout_seconds=120)
    assert [item.title for item in findings(kube, check_tokens)] == before
    kube.raw("/api", token=_token(kube, name))
    until("its use to be noted", lambda: [i.title for i in findings(kube, check_tokens)] != before, timeout_seconds=120)
    assert ids(kube, check_tokens) == ["tokens.long-lived"]


def _token(kube: KubeAdapter, name: str) -> str:
    secret = kube.get(SECRETS, name, "default") or {}
    return base64.b64decode((secret.get("data") or {}).get("token", "")).decode()


def test_rights_of_kube_apiserver_at_kubelets(kube: KubeAdapter, made: Make) -> None:
    """Nobody may by default; the binding that kubeadm makes is enough, and so is the group system:masters."""
    user = f"upgrader-check-{uuid.uuid4().hex[:6]}"
    ca = CertificateAuthority.named("kubernetes")
    assert ids(kube, check_kubelet_access, examined=[controller(ca.issue(user))]) == ["kubelet-access.refused"]
    assert ids(kube, check_kubelet_access, examined=[controller(ca.issue(user, "system:masters"))]) == []
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kubelet-api-admin"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    made(BINDINGS, {"metadata": {}, "roleRef": role, "subjects": [subject]})

    def silent() -> bool:
        return ids(kube, check_kubelet_access, examined=[controller(ca.issue(user))]) == []

    until("the binding to be known", silent, timeout_seconds=120)
    nothing = Examined(Host("one", ""), host_facts({"certificates": []}))
    assert ids(kube, check_kubelet_access, examined=[nothing]) == ["kubelet-access.unread"]


def controller(pem: str) -> Examined:
    """A controller with this certificate for asking kubelets."""
    usual = {"not_before": {"now": -1}, "not_after": {"now": 1}}
    return Examined(Host("one", ""), host_facts({"certificates": [{"path": KUBELET_CLIENT, "pem": pem, **usual}]}))


@pytest.fixture
def stranger(kube: KubeAdapter, made: Make, lab_folder: Path, tmp_path: Path) -> Iterator[KubeAdapter]:
    """The API, with the credentials of somebody who may do nothing."""
    account = made(ACCOUNTS, {"metadata": {}}, "default")
    meta = {"annotations": {"kubernetes.io/service-account.name": account}}
    name = made(SECRETS, {"metadata": meta, "type": "kubernetes.io/service-account-token"}, "default")
    until("a token", lambda: bool(_token(kube, name)), timeout_seconds=120)
    config: dict[str, Any] = yaml.safe_load((lab_folder / "kubeconfig").read_text())
    for entry in config["users"]:
        entry["user"] = {"token": _token(kube, name)}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    adapter = KubeAdapter(file)
    yield adapter
    adapter.close()


def test_credentials_without_rights(kube: KubeAdapter, stranger: KubeAdapter) -> None:
    """The operator's own may do all; a stranger's may not, and each check says which right it lacks."""
    assert ids(kube, check_access) == []

    def of_stranger(check: Check, family: str) -> list[str]:
        return [item.id for item in run_checks(replace(checked(kube), kube=stranger), [(family, check)])]

    for check in (check_namespaces, check_tokens, check_served_apis):
        assert "family.unknown" not in ids(kube, check)
    assert of_stranger(check_access, "access") == ["access.missing"]
    assert of_stranger(check_namespaces, "namespaces") == ["namespaces.forbidden"]
    assert of_stranger(check_tokens, "tokens") == ["tokens.forbidden"]
    assert "apis.forbidden" in of_stranger(check_served_apis, "apis")
    assert "etcd.unknown" not in ids(kube, check_critical_pods)
    with pytest.raises(ApiError):
        stranger.list(SECRETS)


def test_credentials_that_may_list_and_no_more(kube: KubeAdapter, stranger: KubeAdapter, made: Make) -> None:
    """They read the same objects as the operator's own, and neither Secrets nor what is no object."""
    rule = {"apiGroups": ["*"], "resources": ["pods", "apiservices", *WORKLOADS], "verbs": ["get", "list"]}
    role = made(ROLES, {"metadata": {}, "rules": [rule]})
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts:default"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    made(BINDINGS, {"metadata": {}, "roleRef": reference, "subjects": [subject]})
    until("the binding to be known", lambda: stranger.list(PODS) is not None, timeout_seconds=120)
    checks: dict[str, Check] = {
        "apis.requests-unknown": check_served_apis,
        "etcd.unknown": check_critical_pods,
        "removed-apis.unread": check_removed_apis,
    }
    for id_, check in checks.items():
        assert id_ not in ids(kube, check)
        assert id_ in [item.id for item in run_checks(replace(checked(kube), kube=stranger), [("family", check)])]
