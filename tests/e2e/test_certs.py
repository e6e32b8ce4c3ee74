"""`upgrader certs show` and the checks of certificates, beside what kubeadm says and does on the controller."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from testkit.lab_cluster import OLD, LabCluster, until


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


def test_renewal_that_nobody_has_read(cluster: LabCluster) -> None:
    """A check says so once kubeadm has renewed the scheduler's certificate, and is silent again once it is restarted
    as the remedy has it; nothing of the cluster is down afterwards."""
    cluster.wait_until_settled(OLD)
    assert "certificates.not-in-use" not in _findings(cluster)
    cluster.on_controller("kubeadm", "certs", "renew", "scheduler.conf")
    found = _findings(cluster)["certificates.not-in-use"]
    assert "kube-scheduler" in found["title"] and "crictl ps --quiet --name '^kube-scheduler$'" in found["remedy"]
    cluster.on_controller("sh", "-c", "kill $(pidof kube-scheduler)")  # what `crictl stop` does; the lab has none
    until("a new container", lambda: "certificates.not-in-use" not in _findings(cluster), timeout_seconds=60)
    cluster.wait_until_settled(OLD)


def _findings(cluster: LabCluster) -> dict[str, Any]:
    ended = cluster.upgrader("check", "--to", OLD, "-o", "json")
    return {item["id"]: item for item in json.loads(ended.stdout)["findings"]}


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
