"""The folder of static pods is deleted on the only controller. More diagnoses: tests/e2e/test_diagnosis.py."""

from __future__ import annotations

from testkit.doctor import Doctor, broken, examining, ids
from testkit.lab_cluster import LabCluster, until
from upgrader.onhost.sending.host_facts import EtcdServer


def test_manifests_deleted(cluster: LabCluster) -> None:
    """Without the folder of static pods the kubelet stops etcd: the folder is the cause, not etcd or the API."""
    folder = "/etc/kubernetes/manifests"
    breaks = f"cp -a {folder} /run/kept && rm -r {folder}"
    fixes = f"mkdir -p -m 700 {folder} && cp -a /run/kept/. {folder} && rm -r /run/kept"

    def etcd_gone(doctor: Doctor) -> bool:
        facts = doctor.examine().controllers[0].facts
        return facts is not None and not isinstance(facts.etcd.server, EtcdServer)

    with examining(cluster) as doctor:
        with broken(doctor, breaks, fixes):
            until("the kubelet to end etcd", lambda: etcd_gone(doctor), timeout_seconds=120)
            seen = doctor.examine()
        # Before it starts a static pod the kubelet asks the API, which hangs for minutes without etcd.
        cluster.crash_and_boot()
        cluster.wait_after_boot()
    assert seen.findings[0].id == "manifests.missing"
    assert "etcd" in seen.findings[0].title + seen.findings[0].diagnosis
    assert "etcd.down" not in ids(seen)
    assert "kubeadm init phase etcd local" in seen.findings[0].remedy
