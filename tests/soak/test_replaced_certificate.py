"""A certificate that another program puts in place of the one that kube-apiserver has read."""

from __future__ import annotations

from testkit.lab_cluster import OLD, LabCluster


def test_certificate_that_was_replaced(cluster: LabCluster) -> None:
    """`mv` puts another file in its place, which kube-apiserver doesn't see: a check says so until it is rolled out."""
    cluster.wait_until_settled(OLD)
    assert "mounted-files.replaced" not in cluster.findings()
    path = "/etc/kubernetes/pki/apiserver.crt"
    cluster.on_controller("sh", "-c", f"cp -p {path} {path}.new && mv {path}.new {path}")
    found = cluster.findings()["mounted-files.replaced"]
    assert "kube-apiserver" in found["title"] and path in found["title"], found
    kubectl = "kubectl --kubeconfig=/etc/kubernetes/admin.conf -n kube-system rollout"
    restart = f"{kubectl} restart deployment kube-apiserver && {kubectl} status deployment kube-apiserver --timeout=3m"
    cluster.on_controller("sh", "-c", restart)
    cluster.wait_until_settled(OLD)
    assert "mounted-files.replaced" not in cluster.findings()
