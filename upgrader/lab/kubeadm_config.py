"""kubeadm's configuration for a lab: pure functions from a placement to YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from upgrader.lab import kubespray
from upgrader.lab.external_etcd import kubeadms_section
from upgrader.lab.hardening import component_settings
from upgrader.lab.kubelet_config import kubelet_configuration
from upgrader.lab.likeness import Likeness
from upgrader.lab.spec import Node, Placement

__all__ = ["Secrets", "init_config", "join_config", "join_registration", "patch_files"]

_API = "kubeadm.k8s.io/v1beta4"
# Checks that a lab node can't pass: it has no kernel and no memory of its own.
_IGNORED = ["SystemVerification", "Swap", "NumCPU", "Mem"]
_PATCHES = "/etc/lab/patches"


@dataclass(frozen=True, repr=False)
class Secrets:
    """The secrets for joining nodes: a bootstrap token, the key of the uploaded certificates, and the CA's public key
    hash.
    """

    token: str
    certificate_key: str
    ca_hash: str


def init_config(placement: Placement, secrets: Secrets, versions: dict[str, str]) -> str:
    """For `kubeadm init` on the first controller; `versions` has the image tags of etcd and coredns."""
    first = next(node for node in placement.nodes if node.role == "controller")
    sans = [placement.endpoint_name, placement.endpoint_address, "127.0.0.1"]
    for node in placement.nodes:
        sans += placement.node_addresses(node) if node.role == "controller" else ()
    more = component_settings() if placement.spec.hardened else {}
    if placement.spec.layout:
        more = kubespray.component_settings()
        sans += kubespray.MORE_SANS
    if likeness := Likeness.parse(placement.spec.like):
        more = _with_flags(more, likeness.flags)
    api_server = more.pop("apiServer", {})
    documents: list[dict[str, Any]] = [
        {
            "apiVersion": _API,
            "kind": "InitConfiguration",
            "bootstrapTokens": [{"token": secrets.token, "ttl": "1h0m0s", "usages": ["signing", "authentication"]}],
            "certificateKey": secrets.certificate_key,
            "localAPIEndpoint": {"advertiseAddress": first.address, "bindPort": placement.spec.port},
            "nodeRegistration": join_registration(placement, first),
            "patches": {"directory": _PATCHES},
        },
        {
            "apiVersion": _API,
            "kind": "ClusterConfiguration",
            "clusterName": placement.spec.name,
            "kubernetesVersion": placement.spec.kubernetes,
            "controlPlaneEndpoint": f"{placement.endpoint_name}:{placement.spec.port}",
            "networking": {
                "serviceSubnet": ",".join(placement.service_subnets),
                "podSubnet": ",".join(placement.pod_subnets),
            },
            "apiServer": {
                "certSANs": list(dict.fromkeys(sans)),
                "extraArgs": [
                    # Nodes have no DNS names; logs and exec go to their addresses.
                    {"name": "kubelet-preferred-address-types", "value": "InternalIP"},
                    # So that the chart's kube-apiserver can take over the port without an outage.
                    {"name": "permit-port-sharing", "value": "true"},
                    # So that the static pod ends its watches and connections in order, once its successor serves.
                    {"name": "goaway-chance", "value": "0.02"},
                    {"name": "shutdown-send-retry-after", "value": "true"},
                    {"name": "shutdown-watch-termination-grace-period", "value": "10s"},
                    *api_server.pop("extraArgs", ()),
                ],
                **api_server,
            },
            **more,
            "dns": {"imageTag": versions["coredns"]},
            "etcd": _etcd(placement, versions["etcd"]),
            **({"certificatesDir": kubespray.CERTIFICATES} if placement.spec.layout else {}),
        },
        kubelet_configuration(placement),
        {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clusterCIDR": ",".join(placement.pod_subnets),
            # These belong to the machine's kernel, not to the node.
            "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        },
    ]
    return yaml.safe_dump_all(documents, sort_keys=False)


def _with_flags(
    settings: Mapping[str, Mapping[str, Any]], copied: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, Any]]:
    """The components' settings, with the copied cluster's flags in place of the layout's of the same names."""
    components = {
        "kube-apiserver": "apiServer",
        "kube-controller-manager": "controllerManager",
        "kube-scheduler": "scheduler",
    }
    found = {section: dict(each) for section, each in settings.items()}
    for component, flags in copied.items():
        section = found.setdefault(components[component], {})
        kept = [each for each in section.get("extraArgs", ()) if each["name"] not in flags]
        section["extraArgs"] = [*kept, *({"name": name, "value": value} for name, value in flags.items())]
    return found


def _etcd(placement: Placement, version: str) -> dict[str, Any]:
    if placement.spec.external_etcd:
        return kubeadms_section(placement)
    if placement.spec.layout:
        return kubespray.etcd_section(placement)
    return {"local": {"dataDir": "/var/lib/etcd", "imageTag": version}}


def join_config(placement: Placement, node: Node, secrets: Secrets) -> str:
    """For `kubeadm join` on any other node."""
    document: dict[str, Any] = {
        "apiVersion": _API,
        "kind": "JoinConfiguration",
        "discovery": {
            "bootstrapToken": {
                "apiServerEndpoint": f"{placement.endpoint_name}:{placement.spec.port}",
                "token": secrets.token,
                "caCertHashes": [secrets.ca_hash],
            }
        },
        "nodeRegistration": join_registration(placement, node),
    }
    if placement.spec.layout:
        document["caCertPath"] = f"{kubespray.CERTIFICATES}/ca.crt"  # where each kubelet looks for it
    if node.role == "controller":
        document["patches"] = {"directory": _PATCHES}
        document["controlPlane"] = {
            "certificateKey": secrets.certificate_key,
            "localAPIEndpoint": {"advertiseAddress": node.address, "bindPort": placement.spec.port},
        }
    return yaml.safe_dump(document, sort_keys=False)


def patch_files() -> dict[str, tuple[str, int]]:
    """Files of a controller, path → (text, mode), with which kubeadm patches the static pods that it writes.

    By default kubeadm first checks after 10 s, and then every 10 s, whether a component has started. That suits slow
    disks, but would take half of a lab's start. The deadline stays kubeadm's four minutes.
    """
    probe = {"initialDelaySeconds": 1, "periodSeconds": 1, "failureThreshold": 240}
    components = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
    return {
        f"{_PATCHES}/{name}+strategic.yaml": (
            yaml.safe_dump({"spec": {"containers": [{"name": name, "startupProbe": probe}]}}),
            0o644,
        )
        for name in components
    }


def join_registration(placement: Placement, node: Node) -> dict[str, Any]:
    """`nodeRegistration` of a node: the settings for a lab's machines."""
    registration: dict[str, Any] = {
        "name": node.name,
        "criSocket": "unix:///run/containerd/containerd.sock",
        "imagePullPolicy": "Never",
        "ignorePreflightErrors": _IGNORED,
        "kubeletExtraArgs": [{"name": "node-ip", "value": ",".join(placement.node_addresses(node))}],
    }
    if likeness := Likeness.parse(placement.spec.like):
        registration["taints"] = [dict(taint) for taint in likeness.node(node).taints]
    elif not placement.spec.workers:
        registration["taints"] = []  # the controllers are the only place for workloads
    return registration
