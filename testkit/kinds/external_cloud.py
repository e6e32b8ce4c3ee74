"""A cluster for an external cloud provider: flags of kubelet and kube-controller-manager, and a cloud controller
manager's part for Nodes, which a program on the controller has: it takes their taint away, and gives them an ID.
"""

from __future__ import annotations

from testkit.kinds.static_pods import change_static_pod, words_of
from testkit.lab_cluster import LabCluster, until
from upgrader.ports import Kind as ApiKind

__all__ = ["is_initialized_by_the_cloud", "use_an_external_cloud"]

_NODES = ApiKind("v1", "nodes", namespaced=False)
_NODE = "controller-1"
_FLAGS = {"cloud-provider": "external", "configure-cloud-routes": "false"}
_TAINT = "node.cloudprovider.kubernetes.io/uninitialized"
_NODE_IP = "alpha.kubernetes.io/provided-node-ip"
_KUBECTL = "kubectl --kubeconfig=/etc/kubernetes/admin.conf --request-timeout=5s"
_PROGRAM = f"""#!/bin/sh
# A Node that the cloud has is initialized: it gets its provider's ID, and loses the taint of kubelets.
while sleep 1; do
    taints=$({_KUBECTL} get node {_NODE} -o 'jsonpath={{.spec.taints[*].key}}') || continue
    case $taints in *{_TAINT}*)
        {_KUBECTL} patch node {_NODE} -p '{{"spec": {{"providerID": "lab://{_NODE}"}}}}' &&
            {_KUBECTL} taint node {_NODE} {_TAINT}-
    esac
done
"""
_UNIT = """[Unit]
Description=Initializes Nodes in place of a cloud controller manager
[Service]
ExecStart=/usr/local/sbin/lab-cloud
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
"""


def use_an_external_cloud(cluster: LabCluster) -> None:
    """The kubelet's flag as kubeadm's `kubeletExtraArgs` would set it; the Node stays."""
    cluster.on_controller(
        "set -e\n"
        "sed -i 's/=\"/=\"--cloud-provider=external /' /var/lib/kubelet/kubeadm-flags.env\n"
        f"cat >/usr/local/sbin/lab-cloud <<'END'\n{_PROGRAM}END\n"
        "chmod 755 /usr/local/sbin/lab-cloud\n"
        f"cat >/etc/systemd/system/lab-cloud.service <<'END'\n{_UNIT}END\n"
        "systemctl daemon-reload; systemctl enable --quiet --now lab-cloud; systemctl restart kubelet"
    )
    change_static_pod(cluster, "kube-controller-manager", _FLAGS)


def is_initialized_by_the_cloud(cluster: LabCluster) -> None:
    """The kubelet leaves addresses to the cloud, each kube-controller-manager has its flags, and a Node with the taint
    of new ones is soon without it.
    """
    until("the flags of an external cloud provider", lambda: _has_the_flags(cluster), timeout_seconds=120)
    cluster.on_controller(f"{_KUBECTL} taint --overwrite node {_NODE} {_TAINT}=true:NoSchedule")
    until("the Node to lose its taint", lambda: _is_initialized(cluster), timeout_seconds=60)


def _has_the_flags(cluster: LabCluster) -> bool:
    managers = words_of(cluster, "kube-controller-manager")
    wanted = {f"--{name}={value}" for name, value in _FLAGS.items()}
    node = cluster.kube.get(_NODES, _NODE) or {"metadata": {}}
    known = _NODE_IP in (node["metadata"].get("annotations") or {})
    return known and managers != [] and all(wanted <= words for words in managers)


def _is_initialized(cluster: LabCluster) -> bool:
    node = cluster.kube.get(_NODES, _NODE) or {"spec": {}}
    taints = {taint["key"] for taint in node["spec"].get("taints") or ()}
    return node["spec"].get("providerID") == f"lab://{_NODE}" and _TAINT not in taints
