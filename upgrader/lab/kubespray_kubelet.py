"""`lab up --layout kubespray`: the kubelet of each node reads a configuration and flags of its own. Pure.

The ones that kubeadm writes beside them are not read.

https://github.com/kubernetes-sigs/kubespray/tree/master/roles/kubernetes/node
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from upgrader.lab.kubespray import CERTIFICATES

__all__ = ["KUBELETS_FILE", "kubelet_files"]

_FOLDER = "/etc/kubernetes"
KUBELETS_FILE = f"{_FOLDER}/kubelet-config.yaml"
_ENVIRONMENT = f"{_FOLDER}/kubelet.env"
_UNIT = f"""\
[Service]
EnvironmentFile=-{_ENVIRONMENT}
ExecStart=
ExecStart=/usr/bin/kubelet $KUBE_LOG_LEVEL $KUBELET_ADDRESS $KUBELET_HOSTNAME $KUBELET_ARGS
"""


def kubelet_files(configuration: Mapping[str, Any], registration: Mapping[str, Any]) -> dict[str, tuple[str, int]]:
    """Files of a node: path → (text, mode). `registration`: kubeadm's `nodeRegistration`, which this kubelet doesn't
    read.
    """
    flags = {each["name"]: each["value"] for each in registration["kubeletExtraArgs"]}
    more = {
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{CERTIFICATES}/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": registration["criSocket"],
        "rotateCertificates": True,
        "staticPodPath": f"{_FOLDER}/manifests",
    }
    if taints := registration.get("taints"):
        more["registerWithTaints"] = taints
    text = yaml.safe_dump({**configuration, **more}, sort_keys=False)
    environment = {
        "KUBE_LOG_LEVEL": "--v=2",
        "KUBELET_ADDRESS": f"--node-ip={flags['node-ip']}",
        "KUBELET_HOSTNAME": f"--hostname-override={registration['name']}",
        "KUBELET_ARGS": f"--bootstrap-kubeconfig={_FOLDER}/bootstrap-kubelet.conf --config={KUBELETS_FILE} "
        f"--kubeconfig={_FOLDER}/kubelet.conf",
    }
    return {
        KUBELETS_FILE: (text.replace("failCgroupV1: false", "failCgroupV1: False"), 0o640),  # as Ansible writes it
        _ENVIRONMENT: ("".join(f'{name}="{value}"\n' for name, value in environment.items()), 0o640),
        # In place of the one of kubeadm's package, which Kubespray doesn't install.
        "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf": (_UNIT, 0o644),
    }
