"""How etcd stores a Secret on a controller with kubeadm's own etcd."""

from __future__ import annotations

from testkit.lab_cluster import LabCluster
from upgrader.ports import Kind as ApiKind

__all__ = ["stored_secret"]

_SECRETS = ApiKind("v1", "secrets")
_ETCDCTL = (
    "etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt "
    "--cert=/etc/kubernetes/pki/etcd/healthcheck-client.crt --key=/etc/kubernetes/pki/etcd/healthcheck-client.key"
)


def stored_secret(cluster: LabCluster, count: int) -> str:
    """The first bytes of a new Secret, which can be read through the API."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kinds"}, "stringData": {"word": "readable"}}
    cluster.kube.delete(_SECRETS, "kinds", "default")
    cluster.kube.create(_SECRETS, secret, "default")
    assert cluster.kube.get(_SECRETS, "kinds", "default") is not None
    return cluster.on_controller(
        "sh", "-c", f"{_ETCDCTL} get --print-value-only /registry/secrets/default/kinds | head -c {count}"
    )
