"""`lab up --flannel`: flannel connects the pods, by its own manifest, and the lab adds no routes.

Three differences from the manifest: one image has both programs, CNI plugins are in Debian's place, and rules are
nftables', like kube-proxy's in a lab.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

from upgrader.built_in_files import lab_folder
from upgrader.lab.binaries import FLANNEL, FLANNEL_CNI, Binaries
from upgrader.lab.debian import packages_layer
from upgrader.lab.oci_archive import Image, layer_of_files
from upgrader.lab.progress_port import LabProgress
from upgrader.lab.spec import Placement

__all__ = ["NAMESPACE", "flannel_image", "flannel_objects", "forget"]

NAMESPACE = "kube-flannel"
_NAME = "flannel"
_PLUGINS = "/usr/lib/cni"
_CONFLIST = "/etc/cni/net.d/10-flannel.conflist"
_LABELS = {"tier": "node", "app": "flannel"}
_HEALTH = 8081


def flannel_image(progress: LabProgress) -> Image:
    """flanneld, with the script that writes its CNI plugin and configuration to a node, and with nft and iptables."""
    binaries = Binaries(progress)
    daemon, plugin = binaries.flannel(), binaries.flannel_cni()
    files = {f"/opt/bin/{name}": daemon / name for name in ("flanneld", "install-conf")}
    layer = layer_of_files(f"flannel-{FLANNEL}-{FLANNEL_CNI}", {**files, "/flannel": plugin / "flannel"})
    base = packages_layer("flannel", lab_folder() / "images" / "flannel" / "packages.txt", progress)
    return Image(f"upgrader.lab/flannel:{FLANNEL}", (base, layer), entrypoint=("/opt/bin/flanneld",))


def flannel_objects(placement: Placement, image: str) -> str:
    """The manifest: YAML documents of flannel's namespace, RBAC, configuration and DaemonSet."""
    ours = {"k8s-app": "flannel"}
    meta = {"name": _NAME, "labels": ours}
    account = {"kind": "ServiceAccount", "name": _NAME, "namespace": NAMESPACE}
    rbac = "rbac.authorization.k8s.io"
    documents = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": NAMESPACE,
                "labels": {**ours, "pod-security.kubernetes.io/enforce": "privileged"},
            },
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": meta,
            "rules": [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
            ],
        },
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": _NAME},
            "subjects": [account],
        },
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**meta, "namespace": NAMESPACE}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kube-flannel-cfg", "namespace": NAMESPACE, "labels": {**_LABELS, **ours}},
            "data": {
                "cni-conf.json": json.dumps(_cni_conf(), indent=2),
                "net-conf.json": json.dumps(_net_conf(placement), indent=2),
            },
        },
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "kube-flannel-ds", "namespace": NAMESPACE, "labels": {**_LABELS, **ours}},
            "spec": {
                "selector": {"matchLabels": {"app": "flannel"}},
                "template": {"metadata": {"labels": _LABELS}, "spec": _pod(image)},
            },
        },
    ]
    return yaml.safe_dump_all(documents, sort_keys=False)


def forget() -> str:
    """Shell commands, joined by `;`, that remove flannel's state from a node; no effect if it never ran.

    With another pod network, `cni0` would keep its old address, and no pod could start.
    """
    links = "; ".join(f"ip link delete {link} 2>/dev/null || true" for link in ("cni0", "flannel.1"))
    return f"rm -rf {_CONFLIST} /run/flannel; {links}"


def _cni_conf() -> dict[str, Any]:
    delegate = {"hairpinMode": True, "isDefaultGateway": True}
    plugins = [
        {"type": "flannel", "delegate": delegate},
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ]
    return {"name": "cbr0", "cniVersion": "1.0.0", "plugins": plugins}


def _net_conf(placement: Placement) -> dict[str, Any]:
    ipv4, *ipv6 = placement.pod_subnets
    families = {"EnableIPv6": True, "IPv6Network": ipv6[0]} if ipv6 else {}
    return {"Network": ipv4, **families, "EnableNFTables": True, "Backend": {"Type": "vxlan"}}


def _pod(image: str) -> dict[str, Any]:
    linux = {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}
    config = {"name": "flannel-cfg", "mountPath": "/etc/kube-flannel/"}
    fields = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}
    return {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [linux]}}
        },
        "hostNetwork": True,
        "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
        "serviceAccountName": _NAME,
        "initContainers": [
            {
                "name": "install-cni-plugin",
                "image": image,
                "command": ["cp"],
                "args": ["-f", "/flannel", f"{_PLUGINS}/flannel"],
                "volumeMounts": [{"name": "cni-plugin", "mountPath": _PLUGINS}],
            },
            {
                "name": "install-cni",
                "image": image,
                "command": ["/opt/bin/install-conf"],
                "args": ["/etc/kube-flannel/cni-conf.json", _CONFLIST],
                "volumeMounts": [{"name": "cni", "mountPath": "/etc/cni/net.d"}, config],
            },
        ],
        "containers": [
            {
                "name": "kube-flannel",
                "image": image,
                "command": ["/opt/bin/flanneld"],
                "args": ["--ip-masq", "--kube-subnet-mgr", f"--healthz-port={_HEALTH}"],
                "ports": [{"name": "healthz", "containerPort": _HEALTH, "protocol": "TCP"}],
                "livenessProbe": {
                    "httpGet": {"path": "/healthz", "port": "healthz"},
                    "initialDelaySeconds": 10,
                    "periodSeconds": 30,
                },
                "readinessProbe": {
                    "httpGet": {"path": "/readyz", "port": "healthz"},
                    "initialDelaySeconds": 5,
                    "periodSeconds": 10,
                },
                "resources": {"requests": {"cpu": "100m", "memory": "50Mi"}},
                "securityContext": {"privileged": False, "capabilities": {"add": ["NET_ADMIN", "NET_RAW"]}},
                "env": [
                    *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
                    {"name": "EVENT_QUEUE_DEPTH", "value": "5000"},
                    {"name": "CONT_WHEN_CACHE_NOT_READY", "value": "false"},
                ],
                "volumeMounts": [
                    {"name": "run", "mountPath": "/run/flannel"},
                    config,
                    {"name": "xtables-lock", "mountPath": "/run/xtables.lock"},
                ],
            }
        ],
        "volumes": [
            {"name": "run", "hostPath": {"path": "/run/flannel"}},
            {"name": "cni-plugin", "hostPath": {"path": _PLUGINS}},
            {"name": "cni", "hostPath": {"path": "/etc/cni/net.d"}},
            {"name": "flannel-cfg", "configMap": {"name": "kube-flannel-cfg"}},
            {"name": "xtables-lock", "hostPath": {"path": "/run/xtables.lock", "type": "FileOrCreate"}},
        ],
    }
