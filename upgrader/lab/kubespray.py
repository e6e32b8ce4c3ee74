"""`lab up --layout kubespray`: where Kubespray keeps things on a controller, and the flags that it sets. Pure.

Certificates are in /etc/kubernetes/ssl, to which /etc/kubernetes/pki leads; kube-apiserver's is for ::1, too. etcd is
a service of the controllers, with its data where kubeadm has it; its certificates are named after each controller, in a
folder that only its user `etcd` may use, and linked under the first controller's name, as kubeadm has one configuration
for all. Admission, audit and kube-scheduler are configured as in its hardening guide: a folder of them is mounted above
the certificates. The kubelet's files are `kubespray_kubelet.py`'s.

https://github.com/kubernetes-sigs/kubespray/tree/master/roles/kubernetes/control-plane
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from upgrader.lab.spec import Node, Placement

__all__ = [
    "CERTIFICATES",
    "ETCD_FOLDER",
    "ETCD_USER",
    "IGNORED_BY_SCHEDULER",
    "MORE_SANS",
    "component_settings",
    "controller_files",
    "etcd_section",
]

CERTIFICATES = "/etc/kubernetes/ssl"
"""kubeadm's `certificatesDir`."""
ETCD_FOLDER = "/etc/ssl/etcd/ssl"
ETCD_USER = 994
"""The owner of that folder; no such account is needed."""
MORE_SANS = ("localhost", "::1")
"""In kube-apiserver's certificate, beside the controllers' names and addresses."""
IGNORED_BY_SCHEDULER = ("kube-api-burst", "kube-api-qps", "profiling")
"""Flags that kube-scheduler ignores where it has a configuration file, as here."""

_KUBERNETES = "/etc/kubernetes"
_CONTROLS = f"{_KUBERNETES}/admission-controls"
_POLICY = f"{_KUBERNETES}/audit-policy/apiserver-audit-policy.yaml"
_SCHEDULER = f"{_KUBERNETES}/kubescheduler-config.yaml"
_API_SERVER = {
    "admission-control-config-file": f"{_KUBERNETES}/admission-controls.yaml",
    "audit-log-path": "/var/log/audit/kube-apiserver-audit.log",
    "audit-policy-file": _POLICY,
    "bind-address": "::",
    "enable-admission-plugins": "NodeRestriction,EventRateLimit",
    "enable-aggregator-routing": "False",
    "endpoint-reconciler-type": "lease",
    "etcd-compaction-interval": "5m0s",
    "event-ttl": "1h0m0s",
    "profiling": "False",
    "request-timeout": "1m0s",
    "service-account-lookup": "True",
    "service-node-port-range": "30000-32767",
    "storage-backend": "etcd3",
}
_MANAGER = {
    "bind-address": "::",
    "configure-cloud-routes": "false",
    "leader-elect-lease-duration": "15s",
    "leader-elect-renew-deadline": "10s",
    "profiling": "False",
    "terminated-pod-gc-threshold": "12500",
}
_VOLUMES = (
    ("audit-policy", _POLICY.rpartition("/")[0], _POLICY.rpartition("/")[0], True),
    ("audit-logs", "/var/log/kubernetes/audit", "/var/log/audit", False),
    ("admission-control-configs", _CONTROLS, _KUBERNETES, False),
)


def component_settings() -> dict[str, dict[str, Any]]:
    """For kubeadm's ClusterConfiguration: component → its extraArgs and extraVolumes."""
    return {
        "apiServer": {
            "extraArgs": _args(_API_SERVER),
            "extraVolumes": [
                {"name": name, "hostPath": path, "mountPath": at, "readOnly": only, "pathType": "DirectoryOrCreate"}
                for name, path, at, only in _VOLUMES
            ],
        },
        "controllerManager": {"extraArgs": _args(_MANAGER)},
        "scheduler": {
            "extraArgs": _args({"bind-address": "::", "config": _SCHEDULER, "profiling": "False"}),
            "extraVolumes": [
                {"name": "kubescheduler-config", "hostPath": _SCHEDULER, "mountPath": _SCHEDULER, "readOnly": True}
            ],
        },
    }


def etcd_section(placement: Placement) -> dict[str, Any]:
    """The field `etcd` of kubeadm's ClusterConfiguration."""
    first = _controllers(placement)[0].name
    return {
        "external": {
            "endpoints": [f"https://{node.address}:2379" for node in _controllers(placement)],
            "caFile": f"{ETCD_FOLDER}/ca.pem",
            "certFile": f"{ETCD_FOLDER}/node-{first}.pem",
            "keyFile": f"{ETCD_FOLDER}/node-{first}-key.pem",
        }
    }


def controller_files(placement: Placement, node: Node, keys: Path) -> dict[str, tuple[str, int]]:
    """Files of a controller: path → (text, mode)."""
    own = {
        f"{ETCD_FOLDER}/{kind}-{node.name}{part}.pem": ((keys / f"{kind}-{node.name}{end}").read_text(), 0o640)
        for kind in ("member", "node")
        for part, end in (("", ".crt"), ("-key", ".key"))
    }
    documents = {
        "/etc/etcd/lab.yml": _etcd(placement, node),
        f"{_CONTROLS}/admission-controls.yaml": {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "AdmissionConfiguration",
            "plugins": [{"name": "EventRateLimit", "path": f"{_KUBERNETES}/eventratelimit.yaml"}],
        },
        f"{_CONTROLS}/eventratelimit.yaml": {
            "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1",
            "kind": "Configuration",
            "limits": [{"type": "Server", "qps": 500, "burst": 5000}],
        },
        _POLICY: {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]},
        _SCHEDULER: {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": f"{_KUBERNETES}/scheduler.conf"},
            "leaderElection": {"leaseDuration": "15s", "renewDeadline": "10s"},
        },
    }
    return {
        f"{ETCD_FOLDER}/ca.pem": ((keys / "etcd-ca.crt").read_text(), 0o640),
        **own,
        **{path: (yaml.safe_dump(document, sort_keys=False), 0o644) for path, document in documents.items()},
        "/etc/tmpfiles.d/kubespray.conf": (_tmpfiles(placement, node), 0o644),
    }


def _tmpfiles(placement: Placement, node: Node) -> str:
    """What isn't a file with text, made at each boot: links, and the folder's owner."""
    lines = [f"L {_KUBERNETES}/pki - - - - {CERTIFICATES}", f"z {ETCD_FOLDER} 0700 {ETCD_USER} 0"]
    for other in _controllers(placement):
        if other != node:
            for end in (".pem", "-key.pem"):
                own = f"{ETCD_FOLDER}/node-{node.name}{end}"
                lines.append(f"L {ETCD_FOLDER}/node-{other.name}{end} - - - - {own}")
    return "\n".join(lines) + "\n"


def _etcd(placement: Placement, node: Node) -> dict[str, Any]:
    client, peer = f"https://{node.address}:2379", f"https://{node.address}:2380"
    tls = {
        "cert-file": f"{ETCD_FOLDER}/member-{node.name}.pem",
        "key-file": f"{ETCD_FOLDER}/member-{node.name}-key.pem",
        "client-cert-auth": True,
        "trusted-ca-file": f"{ETCD_FOLDER}/ca.pem",
    }
    return {
        "name": node.name,
        "data-dir": "/var/lib/etcd",
        "listen-client-urls": f"{client},https://127.0.0.1:2379",
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": ",".join(f"{each.name}=https://{each.address}:2380" for each in _controllers(placement)),
        "client-transport-security": tls,
        "peer-transport-security": tls,
    }


def _controllers(placement: Placement) -> list[Node]:
    return [node for node in placement.nodes if node.role == "controller"]


def _args(flags: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in flags.items()]
