"""A kubeadm cluster on fakes."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from upgrader.adopt.facts import ControllerFacts, KubeadmFacts, StaticPod, flags_of
from upgrader.model.cluster import Host

FLAGS = {
    "kube-apiserver": [
        "--advertise-address=10.0.0.1",
        "--secure-port=6443",
        "--permit-port-sharing=true",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        "--service-cluster-ip-range=10.96.0.0/12",
        "--etcd-servers=https://127.0.0.1:2379",
    ],
    "kube-controller-manager": ["--bind-address=127.0.0.1", "--cluster-cidr=10.0.0.0/16", "--cluster-name=prod"],
    "kube-scheduler": ["--bind-address=127.0.0.1"],
}


def static_pod(component: str, *more: str, **container: Any) -> StaticPod:
    """A static pod as kubeadm writes it, with further flags."""
    spec = {
        "name": component,
        "image": f"registry.k8s.io/{component}:v1.36.3",
        "command": [component, *FLAGS[component], *more],
        **container,
    }
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": component}, "spec": {"containers": [spec]}}
    return StaticPod(component, yaml.safe_dump(manifest).encode(), flags_of(spec), spec["image"])


def facts(*controllers: dict[str, StaticPod]) -> KubeadmFacts:
    """Facts with these controllers' static pods (by default one controller with kubeadm's own)."""
    workload = {"spec": {"replicas": 2, "template": {"spec": {"containers": [{"image": "registry.k8s.io/x:v1.36.3"}]}}}}
    pods = controllers or ({name: static_pod(name) for name in FLAGS},)
    return KubeadmFacts(
        configuration={"kubernetesVersion": "v1.36.3", "certificatesDir": "/etc/kubernetes/pki"},
        proxy_config="mode: nftables\n",
        proxy_kubeconfig="clusters: [{cluster: {server: 'https://api:6443'}}]\n",
        corefile=".:53 {\n    health\n    ready\n}\n",
        dns_address="10.96.0.10",
        dns_deployment=workload,
        proxy_daemonset=workload,
        controllers=tuple(
            ControllerFacts(Host(f"controller-{number}", f"10.0.0.{number}"), active, {})
            for number, active in enumerate(pods, 1)
        ),
    )


def certificate(names: Iterable[str]) -> bytes:
    """A certificate with these alternative names; none at all without names."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), 1, now, now + timedelta(days=1))
    alternatives = [
        x509.IPAddress(ipaddress.ip_address(name)) if name[0].isdigit() or ":" in name else x509.DNSName(name)
        for name in names
    ]
    if alternatives:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def table(sockets: Iterable[tuple[str, int]], state: str = "0A") -> str:
    """/proc/net/tcp and tcp6 with these sockets."""
    lines = ["  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"]
    for number, (address, port) in enumerate(sockets):
        packed = ipaddress.ip_address(address).packed
        words = "".join(f"{struct.unpack('<I', packed[i : i + 4])[0]:08X}" for i in range(0, len(packed), 4))
        lines.append(f"   {number}: {words}:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 0 0 0 1")
    return "\n".join(lines)
