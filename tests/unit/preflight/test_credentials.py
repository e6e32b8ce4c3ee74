"""Keys and certificates of the controllers, what they may do, and what others wait for or keep for ever."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from testkit.pki import KUBELET_CLIENT, CertificateAuthority, client_certificate
from tests.unit.preflight.conftest import CONTROLLER, FLAGS, World
from upgrader.gates.kubernetes_kinds import SECRETS
from upgrader.ports import Kind, KubeObject
from upgrader.preflight.cluster_credentials import check_signing_requests, check_tokens
from upgrader.preflight.controller_keys import check_keys
from upgrader.preflight.kubelet_access import check_kubelet_access

PKI = "/etc/kubernetes/pki"
REQUESTS = Kind("certificates.k8s.io/v1", "certificatesigningrequests", namespaced=False)
KUBELET_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"


def files(**pems: str) -> list[dict[str, Any]]:
    """Certificates by name below the PKI folder; `__` stands for a slash, `_` for a dash."""
    usual = {"not_before": {"now": -1}, "not_after": {"now": 1}}
    names = {name: name.replace("__", "/").replace("_", "-") for name in pems}
    return [{"path": f"{PKI}/{names[name]}.crt", "pem": pem, **usual} for name, pem in pems.items()]


def test_controllers_with_the_same_keys(world: World) -> None:
    """A CA that was renewed on one of them with its old key is the same CA."""
    ca, keys = CertificateAuthority.named("kubernetes"), {f"{PKI}/sa.pub": "11", f"{PKI}/sa.key": "22"}
    for name in (CONTROLLER, "controller-2"):
        world.controller(name, certificates=files(ca=ca.pem), identity={"machine_id": "", "keys": keys})
    assert world.find(check_keys) == {}


@pytest.mark.parametrize(
    ("file", "effect"),
    [("ca", "kubelets"), ("front_proxy_ca", "Aggregated APIs"), ("etcd__ca", "connect to etcd on other controllers")],
)
def test_ca_that_differs(world: World, file: str, effect: str) -> None:
    """An error that names the file, who has which, and what goes wrong."""
    for name in (CONTROLLER, "controller-2"):
        world.controller(name, certificates=files(**{file: CertificateAuthority.named("the same name").pem}))
    found = world.find(check_keys)["keys.differ"]
    assert found.severity == "error" and effect in found.diagnosis
    assert f"{file.replace('__', '/').replace('_', '-')}.crt is not the same" in found.title
    assert "controller-1" in found.title and "controller-2" in found.title


def test_keys_of_tokens_that_differ(world: World) -> None:
    """Digests are compared, of which the finding shows a part."""
    for name, digest in ((CONTROLLER, "a" * 64), ("controller-2", "b" * 64)):
        world.controller(name, identity={"machine_id": "", "keys": {f"{PKI}/sa.key": digest}})
    found = world.find(check_keys)["keys.differ"]
    assert "Tokens" in found.diagnosis and "a" * 12 in found.title and "a" * 13 not in found.title


def test_certificate_of_a_ca_that_was_made_anew(world: World) -> None:
    """The names match, the signature doesn't; a certificate by a CA of another name may be a part of a chain."""
    old, new = CertificateAuthority.named("etcd-ca"), CertificateAuthority.named("etcd-ca")
    world.controller(certificates=files(etcd__ca=new.pem, apiserver_etcd_client=new.issue("x")))
    assert world.find(check_keys) == {}
    other = CertificateAuthority.named("company").issue("y")
    world.controller(
        certificates=files(etcd__ca=new.pem, apiserver_etcd_client=old.issue("x"), etcd__server=other, ca=old.pem)
    )
    found = world.find(check_keys)["keys.other-issuer"]
    assert found.title == f"controller-1: {PKI}/apiserver-etcd-client.crt was not issued by {PKI}/etcd/ca.crt"


def test_kube_apiserver_that_kubelets_refuse(world: World) -> None:
    """The binding that replaced a certificate's group is missing: named with user, rights and the command."""
    assert world.find(check_kubelet_access) == {}
    world.kube.users["kube-apiserver-kubelet-client"] = {("get", "nodes/proxy")}
    found = world.find(check_kubelet_access)["kubelet-access.refused"]
    assert found.title == "kube-apiserver on controller-1 is not allowed to create nodes/proxy"
    assert "--user=kube-apiserver-kubelet-client" in found.remedy


def test_certificate_that_a_flag_names(world: World) -> None:
    """Without it on the controller nothing is known of its rights, which is said."""
    flags = (*FLAGS, "--kubelet-client-certificate=/elsewhere/kubelet.crt")
    world.pod("kube-apiserver-abc", {"app": "kube-apiserver"}, flags=flags)
    assert world.find(check_kubelet_access)["kubelet-access.unread"].severity == "info"


def test_certificate_that_a_flag_names_by_its_path_without_links(world: World) -> None:
    """As on Kubespray's controllers, whose /etc/kubernetes/pki leads to the folder in the flags."""
    real = "/etc/kubernetes/ssl/apiserver-kubelet-client.crt"
    world.pod("kube-apiserver-abc", {"app": "kube-apiserver"}, flags=(*FLAGS, f"--kubelet-client-certificate={real}"))
    world.controller(certificates=[{**client_certificate(), "real": real}])
    assert world.find(check_kubelet_access) == {}


def test_controllers_with_the_same_user_are_asked_for_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups count, too: with system:masters, whoever it is may do all."""
    ca = CertificateAuthority.named("kubernetes")
    for name, group in ((CONTROLLER, "a"), ("controller-2", "a"), ("controller-3", "system:masters")):
        pem = ca.issue("x", group)
        usual = {"not_before": {"now": -1}, "not_after": {"now": 1}}
        world.controller(name, certificates=[{"path": KUBELET_CLIENT, "pem": pem, **usual}])
    asked: list[list[str]] = []
    create = world.kube.create

    def noted(kind: Kind, review: KubeObject) -> KubeObject:
        asked.append(review["spec"]["groups"])
        return create(kind, review)

    monkeypatch.setattr(world.kube, "create", noted)
    assert world.find(check_kubelet_access) == {}
    assert asked == [["a", "system:authenticated"]] * 2 + [["system:masters", "system:authenticated"]] * 2


def request(world: World, minutes: float, signer: str = KUBELET_CLIENT_SIGNER, **status: Any) -> None:
    """A request that was made so long ago."""
    created = (world.clock.now() - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    meta = {"name": f"csr-{minutes}-{signer[-3:]}", "creationTimestamp": created}
    spec = {"signerName": signer, "username": f"system:node:{signer[-3:]}"}
    world.kube.put(REQUESTS, {"metadata": meta, "spec": spec, "status": status})


def test_certificates_that_nobody_issues(world: World) -> None:
    """Ten minutes are enough for kube-controller-manager; what was denied, has failed or is issued waits for nobody."""
    request(world, 9)
    for number, ended in enumerate(("Denied", "Failed")):
        request(world, 100 + number, conditions=[{"type": ended}])
    request(world, 200, conditions=[{"type": "Approved"}], certificate="x")
    assert world.find(check_signing_requests) == {}
    request(world, 11, conditions=[{"type": "Approved"}])
    found = world.find(check_signing_requests)["signing-requests.pending"]
    assert found.severity == "warning" and "pending: system:node:let" in found.title


def test_certificates_of_others_that_nobody_issues(world: World) -> None:
    """Kubelets' serving certificates are approved by nobody by default: that is told, no more."""
    request(world, 60, "kubernetes.io/kubelet-serving")
    assert world.find(check_signing_requests)["signing-requests.pending"].severity == "info"


def test_tokens_that_never_expire(world: World) -> None:
    """Those in use are counted by their label; a Secret that nobody uses is no finding."""
    world.kube.put(SECRETS, {"metadata": {"name": "old", "namespace": "shop", "labels": {}}})
    assert world.find(check_tokens) == {}
    labels = {"kubernetes.io/legacy-token-last-used": "2026-11-01"}
    world.kube.put(SECRETS, {"metadata": {"name": "used", "namespace": "shop", "labels": labels}})
    found = world.find(check_tokens)["tokens.long-lived"]
    assert (found.severity, found.title) == ("info", "1 ServiceAccount token that never expires is in use")
