"""Static pods with everything that kubeadm v1.36 writes into them, and what other tools have it write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from testkit.fakes.hosts import FakeHosts
from tests.unit.adopt.kubeadm_cluster import facts
from upgrader.adopt.facts import KubeadmFacts, StaticPod, flags_of
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult

__all__ = ["FLAGS", "controller_with_modes", "kubeadm_facts", "kubeadm_pod", "volume"]

PKI = "/etc/kubernetes/pki"
_PORTS = {"kube-apiserver": 6443, "kube-controller-manager": 10257, "kube-scheduler": 10259}
_CPU = {"kube-apiserver": "250m", "kube-controller-manager": "200m", "kube-scheduler": "100m"}


def _flags(pki: str, address: str) -> dict[str, dict[str, str]]:
    manager, scheduler = "/etc/kubernetes/controller-manager.conf", "/etc/kubernetes/scheduler.conf"
    return {
        "kube-apiserver": {
            "advertise-address": address,
            "allow-privileged": "true",
            "authorization-mode": "Node,RBAC",
            "client-ca-file": f"{pki}/ca.crt",
            "enable-admission-plugins": "NodeRestriction",
            "enable-bootstrap-token-auth": "true",
            "etcd-cafile": f"{pki}/etcd/ca.crt",
            "etcd-certfile": f"{pki}/apiserver-etcd-client.crt",
            "etcd-keyfile": f"{pki}/apiserver-etcd-client.key",
            "etcd-servers": "https://127.0.0.1:2379",
            "kubelet-client-certificate": f"{pki}/apiserver-kubelet-client.crt",
            "kubelet-client-key": f"{pki}/apiserver-kubelet-client.key",
            "kubelet-preferred-address-types": "InternalIP,ExternalIP,Hostname",
            "proxy-client-cert-file": f"{pki}/front-proxy-client.crt",
            "proxy-client-key-file": f"{pki}/front-proxy-client.key",
            "requestheader-allowed-names": "front-proxy-client",
            "requestheader-client-ca-file": f"{pki}/front-proxy-ca.crt",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-username-headers": "X-Remote-User",
            "secure-port": "6443",
            "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
            "service-account-key-file": f"{pki}/sa.pub",
            "service-account-signing-key-file": f"{pki}/sa.key",
            "service-cluster-ip-range": "10.96.0.0/12",
            "tls-cert-file": f"{pki}/apiserver.crt",
            "tls-private-key-file": f"{pki}/apiserver.key",
        },
        "kube-controller-manager": {
            "allocate-node-cidrs": "true",
            "authentication-kubeconfig": manager,
            "authorization-kubeconfig": manager,
            "bind-address": "127.0.0.1",
            "client-ca-file": f"{pki}/ca.crt",
            "cluster-cidr": "10.244.0.0/16",
            "cluster-name": "kubernetes",
            "cluster-signing-cert-file": f"{pki}/ca.crt",
            "cluster-signing-key-file": f"{pki}/ca.key",
            "controllers": "*,bootstrapsigner,tokencleaner",
            "kubeconfig": manager,
            "leader-elect": "true",
            "requestheader-client-ca-file": f"{pki}/front-proxy-ca.crt",
            "root-ca-file": f"{pki}/ca.crt",
            "service-account-private-key-file": f"{pki}/sa.key",
            "service-cluster-ip-range": "10.96.0.0/12",
            "use-service-account-credentials": "true",
        },
        "kube-scheduler": {
            "authentication-kubeconfig": scheduler,
            "authorization-kubeconfig": scheduler,
            "bind-address": "127.0.0.1",
            "kubeconfig": scheduler,
            "leader-elect": "true",
        },
    }


FLAGS = _flags(PKI, "10.0.0.1")

Volume = tuple[dict[str, Any], dict[str, Any]]
"""A volume and its mount."""


def volume(name: str, path: str, kind: str = "DirectoryOrCreate", *, at: str = "", writable: bool = False) -> Volume:
    """As kubeadm writes an entry of `extraVolumes`."""
    mount = {"mountPath": at or path, "name": name, **({} if writable else {"readOnly": True})}
    return {"name": name, "hostPath": {"path": path, "type": kind}}, mount


def kubeadm_pod(
    component: str,
    flags: Mapping[str, str] | None = None,
    *volumes: Volume,
    pki: str = PKI,
    address: str = "10.0.0.1",
    spec: Mapping[str, Any] | None = None,
    container: Mapping[str, Any] | None = None,
    words: Sequence[str] = (),
) -> StaticPod:
    """kubeadm's manifest of a component, with further flags and volumes, fields of the pod and of its container."""
    every = {**_flags(pki, address)[component], **(flags or {})}
    own = [volume("kubeconfig", every["kubeconfig"], "FileOrCreate")] if "kubeconfig" in every else []
    if component != "kube-scheduler":
        own += [
            volume("ca-certs", "/etc/ssl/certs"),
            volume("etc-ca-certificates", "/etc/ca-certificates"),
            volume("k8s-certs", pki),
            volume("usr-local-share-ca-certificates", "/usr/local/share/ca-certificates"),
            volume("usr-share-ca-certificates", "/usr/share/ca-certificates"),
        ]
    probe = {"httpGet": {"host": "127.0.0.1", "path": "/livez", "port": _PORTS[component], "scheme": "HTTPS"}}
    named = {name: (one, mount) for one, mount in [*own, *volumes] for name in [one["name"]]}
    main = {
        "command": [component, *(f"--{name}={value}" for name, value in every.items()), *words],
        "image": f"registry.k8s.io/{component}:v1.36.3",
        "imagePullPolicy": "IfNotPresent",
        "livenessProbe": {**probe, "failureThreshold": 8, "timeoutSeconds": 15},
        "name": component,
        "ports": [{"containerPort": _PORTS[component], "name": "probe-port", "protocol": "TCP"}],
        "readinessProbe": {**probe, "periodSeconds": 1},
        "resources": {"requests": {"cpu": _CPU[component]}},
        "startupProbe": {**probe, "failureThreshold": 24},
        "volumeMounts": [mount for _, mount in named.values()],
        **(container or {}),
    }
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "labels": {"component": component, "tier": "control-plane"},
            "name": component,
            "namespace": "kube-system",
        },
        "spec": {
            "containers": [main],
            "hostNetwork": True,
            "priority": 2000001000,
            "priorityClassName": "system-node-critical",
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [one for one, _ in named.values()],
            **(spec or {}),
        },
        "status": {},
    }
    return StaticPod(component, yaml.safe_dump(manifest).encode(), flags_of(main), main["image"])


def kubeadm_facts(*changed: StaticPod, pki: str = PKI) -> KubeadmFacts:
    """A cluster of one controller with these static pods, and kubeadm's own otherwise."""
    pods = {name: kubeadm_pod(name, pki=pki) for name in FLAGS} | {pod.component: pod for pod in changed}
    return replace(facts(pods), configuration={"kubernetesVersion": "v1.36.3", "certificatesDir": pki})


def controller_with_modes(modes: Mapping[str, str], name: str = "") -> FakeHosts:
    """With what `stat` says of files and folders: path → mode (as hexadecimal), user and group. They are those of the
    controller with this name, or of all. Other files of `FakeHosts.files` are root's, and everybody may read them.
    """
    hosts = FakeHosts()

    def look(host: Host, _: Sequence[str], asked: bytes) -> CommandResult:
        found = {path: "81a4 0 0" for at, path in hosts.files if at == host.name}
        found |= modes if name in ("", host.name) else {}
        paths = asked.decode().splitlines()
        return CommandResult(0, "".join(f"{found[path]} {path}\n" for path in paths if path in found), "")

    hosts.commands["sh"] = look
    return hosts
