"""`upgrader certs show` and the checks of certificates, beside what kubeadm says and does on the controller."""

from __future__ import annotations

import json
import re
import ssl
from datetime import datetime

import pytest

from testkit.api_load import ApiLoad
from testkit.lab_cluster import OLD, LabCluster
from testkit.waiting import stretched
from upgrader.ports import Kind


def test_as_kubeadm_sees_them_and_without_an_api(cluster: LabCluster) -> None:
    """Each certificate that kubeadm knows ends when kubeadm says so; that takes no API, and shows no key."""
    told = json.loads(cluster.on_controller("sh", "-c", "kubeadm certs check-expiration -o json 2>/dev/null"))
    kubeconfig = cluster.folder / "kubeconfig"
    text = kubeconfig.read_text()
    kubeconfig.write_text(re.sub(r"server: .*", "server: https://127.0.0.1:1", text))
    try:
        ended = cluster.upgrader("certs", "show", "-o", "json")
    finally:
        kubeconfig.write_text(text)
    assert ended.exit_code == 0, ended
    assert "PRIVATE" not in ended.stdout
    shown = json.loads(ended.stdout)["certificates"]
    assert {_time(item["not_after"]) for item in shown if item["renewed_by"] != "kubelet"} == {
        _time(item["expirationDate"]) for kind in ("certificates", "certificateAuthorities") for item in told[kind]
    }
    assert [item["path"] for item in shown if item["renewed_by"] == "kubelet"] == [
        "/var/lib/kubelet/pki/kubelet-client-current.pem"
    ]
    assert {item["path"].rpartition("/")[2] for item in shown if item["authority"]} == {"ca.crt", "front-proxy-ca.crt"}


@pytest.mark.soak
def test_renewal_under_load(cluster: LabCluster) -> None:
    """A check says what kubeadm's own renewal leaves undone. `certs renew` renews all that kubeadm knows, has what is
    served and used be the new ones, and fails no request; then nothing is left to renew."""
    cluster.wait_until_settled(OLD)
    assert "certificates.not-in-use" not in cluster.findings()
    cluster.on_controller("kubeadm", "certs", "renew", "scheduler.conf")
    found = cluster.findings()["certificates.not-in-use"]
    assert "kube-scheduler" in found["title"] and "upgrader certs renew" in found["remedy"]
    before, manifests, served = _ends(cluster), cluster.manifests(), _served(cluster)

    with ApiLoad(cluster.folder / "kubeconfig") as load:
        ended = cluster.upgrader("certs", "renew", "--yes")
        seen = load.stop()
    assert ended.exit_code == 0, ended
    assert "was not renewed. If it is a copy" in ended.stderr
    assert (seen.failed, seen.lost_writes) == (0, 0), seen
    assert cluster.report()["availability"]["failed"] == 0

    after = _ends(cluster)
    assert after.keys() == before.keys() and len(after) > 9
    assert all(after[path] > before[path] for path in after), (before, after)
    now = _served(cluster)
    assert now.keys() == served.keys() and all(now[place] not in served.values() for place in now)
    assert "certificates.not-in-use" not in cluster.findings()
    assert cluster.manifests() == manifests, "Helm's releases are as they were"
    cluster.on_controller("sh", "-c", "! test -e /var/lib/upgrader/certificates/stage")  # it had the CAs' keys
    again = cluster.upgrader("certs", "renew", "--within", "30d", "--yes")
    assert again.exit_code == 0 and "Nothing to renew" in again.stderr, again
    cluster.wait_until_settled(OLD)


def _ends(cluster: LabCluster) -> dict[str, datetime]:
    """When each certificate ends that kubeadm renews."""
    shown = json.loads(cluster.upgrader("certs", "show", "-o", "json").stdout)["certificates"]
    return {item["path"]: _time(item["not_after"]) for item in shown if item["renewed_by"] == "kubeadm"}


def _served(cluster: LabCluster) -> dict[int, str]:
    """What kube-apiserver and etcd serve, to clients and to peers, by port."""
    addresses = cluster.kube.list(Kind("v1", "nodes", namespaced=False))[0]["status"]["addresses"]
    (address,) = (str(item["address"]) for item in addresses if item["type"] == "InternalIP")
    return {port: ssl.get_server_certificate((address, port), timeout=stretched(10)) for port in (6443, 2379, 2380)}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
