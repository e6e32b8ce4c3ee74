"""A cluster without kubeadm's kube-proxy, and with a CoreDNS that isn't ours: Services are the work of another static
pod, and nothing upgrades either.

Its program is kube-proxy's at the version of the start, as no other one is in a lab; Cilium or kube-router would be in
its place. kubeadm does without by `kubeadm init --skip-phases=addon/kube-proxy`.
"""

from __future__ import annotations

from typing import Any

import yaml

from testkit.lab_cluster import LabCluster, until
from upgrader.lab.lifecycle import Lab
from upgrader.ports import Kind as ApiKind

__all__ = ["another_serves_services", "give_services_to_another", "service_proxy_pod"]

_FOLDER = "/etc/service-proxy"
_MANIFEST = "/etc/kubernetes/manifests/service-proxy.yaml"
_HELMS = "meta.helm.sh/release-name"
_DEPLOYMENTS = ApiKind("apps/v1", "deployments")
_DAEMONSETS = ApiKind("apps/v1", "daemonsets")
_CONFIG_MAPS = ApiKind("v1", "configmaps")
_SERVICES = ApiKind("v1", "services")
_SLICES = ApiKind("discovery.k8s.io/v1", "endpointslices")
_KUBECTL = "kubectl --kubeconfig=/etc/kubernetes/admin.conf -n kube-system"
_KUBEADMS = (
    "daemonset/kube-proxy configmap/kube-proxy serviceaccount/kube-proxy role/kube-proxy rolebinding/kube-proxy "
    "clusterrolebinding/kubeadm:node-proxier"
)
_NAME = "kinds-served"


def service_proxy_pod(image: str) -> str:
    """The manifest of a static pod with that image of kube-proxy."""
    volumes = {"service-proxy": _FOLDER, "modules": "/lib/modules"}
    container = {
        "name": "service-proxy",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["kube-proxy", f"--config={_FOLDER}/config.yaml"],
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": name, "mountPath": path, "readOnly": True} for name, path in volumes.items()],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "service-proxy", "namespace": "kube-system", "labels": {"k8s-app": "service-proxy"}},
        "spec": {
            "hostNetwork": True,
            "priorityClassName": "system-node-critical",
            "containers": [container],
            "volumes": [
                {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}
                for name, path in volumes.items()
            ],
        },
    }
    return yaml.safe_dump(pod, sort_keys=False)


def give_services_to_another(cluster: LabCluster) -> None:
    """On the only controller; the values of `adopt` say that kube-proxy and CoreDNS aren't the chart's."""
    found, settings = (
        cluster.kube.get(_DAEMONSETS, "kube-proxy", "kube-system"),
        cluster.kube.get(_CONFIG_MAPS, "kube-proxy", "kube-system"),
    )
    assert found is not None and settings is not None
    image = found["spec"]["template"]["spec"]["containers"][0]["image"]
    config: dict[str, Any] = yaml.safe_load(settings["data"]["config.conf"])
    config["clientConnection"] = {"kubeconfig": f"{_FOLDER}/kubeconfig"}
    config["hostnameOverride"] = "controller-1"
    # The user system:kube-proxy has the right to it in each cluster.
    cluster.on_controller(
        f"set -eu; umask 077; mkdir -p {_FOLDER}\n"
        f"{_KUBECTL} get configmap kubeadm-config -o 'jsonpath={{.data.ClusterConfiguration}}' "
        ">/run/kubeadm-user.yaml\n"
        "kubeadm kubeconfig user --client-name=system:kube-proxy --config=/run/kubeadm-user.yaml "
        f">{_FOLDER}/kubeconfig\n"
        f"cat >{_FOLDER}/config.yaml <<'END'\n{yaml.safe_dump(config)}END\n"
        f"{_KUBECTL} delete --ignore-not-found --wait {_KUBEADMS}\n"
        f"cat >/root/service-proxy.yaml <<'END'\n{service_proxy_pod(image)}END\n"
        f"mv /root/service-proxy.yaml {_MANIFEST}"
    )
    cluster.change_values("kubernetes", {"kubeProxy": {"enabled": False}, "coredns": {"enabled": False}})
    until("the control plane to be Ready", lambda: not cluster.unready(), timeout_seconds=120)


def another_serves_services(cluster: LabCluster) -> None:
    """There is no DaemonSet kube-proxy, CoreDNS isn't Helm's, and a new Service leads to its endpoint."""
    assert cluster.kube.get(_DAEMONSETS, "kube-proxy", "kube-system") is None
    dns = cluster.kube.get(_DEPLOYMENTS, "coredns", "kube-system")
    assert dns is not None and _HELMS not in (dns["metadata"].get("annotations") or {}), dns
    placement = Lab.find(cluster.name).placement
    _forget(cluster)
    spec = {"ports": [{"name": "https", "port": 443, "targetPort": placement.spec.port}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": _NAME}, "spec": spec}
    address = cluster.kube.create(_SERVICES, service, "default")["spec"]["clusterIP"]
    cluster.kube.create(_SLICES, _slice(placement.node("controller-1").address, placement.spec.port), "default")
    asked = f"curl -sk --max-time 5 -o /dev/null -w '%{{http_code}}' https://{address}/readyz || true"
    until("a new Service to lead to its endpoint", lambda: cluster.on_controller(asked) == "200", timeout_seconds=60)
    _forget(cluster)


def _slice(address: str, port: int) -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": _NAME, "labels": {"kubernetes.io/service-name": _NAME}},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
    }


def _forget(cluster: LabCluster) -> None:
    cluster.kube.delete(_SLICES, _NAME, "default")
    cluster.kube.delete(_SERVICES, _NAME, "default")
