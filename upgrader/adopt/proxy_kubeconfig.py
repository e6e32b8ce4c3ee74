"""kube-proxy's kubeconfig in its ConfigMap, which the chart writes anew with the server in it. Pure."""

from __future__ import annotations

from upgrader.errors import Blocked
from upgrader.model.go_yaml import first_document

__all__ = ["proxy_server"]

_CHARTS = frozenset({"certificate-authority", "server"})


def proxy_server(kubeconfig: str) -> str:
    """Where kube-proxy reaches the API. Raises Blocked where the chart's kubeconfig would lack something."""
    if not kubeconfig:
        raise _other("has no kubeconfig.conf, so kube-proxy uses another file or the Service `kubernetes`")
    clusters = (first_document(kubeconfig) or {}).get("clusters") or []
    if len(clusters) > 1:
        raise _other(f"has {len(clusters)} clusters in kubeconfig.conf; the chart's has one")
    cluster = clusters[0].get("cluster") or {} if clusters else {}
    if not cluster.get("server"):
        raise _other("has no server in kubeconfig.conf")
    if lost := sorted(cluster.keys() - _CHARTS):
        raise _other(f"has {', '.join(f'`{key}`' for key in lost)} in kubeconfig.conf, but the chart's would not")
    return str(cluster["server"])


def _other(what: str) -> Blocked:
    return Blocked(
        f"ConfigMap kube-system/kube-proxy {what}; nothing was changed",
        remedy="Set `kubeProxy.enabled: false` in values/kubernetes.yaml: adoption and upgrades then leave kube-proxy "
        "unchanged. Or reset it to kubeadm's defaults: kubeadm init phase addon kube-proxy, on a controller.",
    )
