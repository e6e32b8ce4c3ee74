"""`lab up --external-etcd`: etcd as a service on its own node, and the files with which controllers use it. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from upgrader.lab.spec import Placement

__all__ = ["CERTIFICATES", "client_files", "etcd_files", "kubeadms_section"]

_FOLDER = "/etc/etcd"
_PORT = 2379
CERTIFICATES = {"etcd-server": "server", "etcd-client": "kube-apiserver-etcd-client"}
"""Name of the key's file → common name; both are issued by etcd's own CA."""
_CONTROLLERS = {
    "etcd-ca.crt": "/etc/kubernetes/pki/etcd/ca.crt",
    "etcd-client.crt": "/etc/kubernetes/pki/apiserver-etcd-client.crt",
    "etcd-client.key": "/etc/kubernetes/pki/apiserver-etcd-client.key",
}
"""The three files that kubeadm's guide copies to the controllers."""


def kubeadms_section(placement: Placement) -> dict[str, Any]:
    """The field `etcd` of kubeadm's ClusterConfiguration."""
    ca, certificate, key = _CONTROLLERS.values()
    return {"external": {"endpoints": [_url(placement)], "caFile": ca, "certFile": certificate, "keyFile": key}}


def etcd_files(placement: Placement, keys: Path) -> dict[str, tuple[str, int]]:
    """Files of etcd's node: path → (text, mode)."""
    url, peer = _url(placement), f"https://{_address(placement)}:2380"
    tls = {
        "cert-file": f"{_FOLDER}/server.crt",
        "key-file": f"{_FOLDER}/server.key",
        "client-cert-auth": True,
        "trusted-ca-file": f"{_FOLDER}/ca.crt",
    }
    config = {
        "name": "etcd-1",
        "data-dir": "/var/lib/etcd/data",
        "listen-client-urls": f"{url},https://127.0.0.1:{_PORT}",
        "advertise-client-urls": url,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"etcd-1={peer}",
        "client-transport-security": tls,
        "peer-transport-security": tls,
    }
    return {
        f"{_FOLDER}/lab.yml": (yaml.safe_dump(config, sort_keys=False), 0o644),
        f"{_FOLDER}/ca.crt": ((keys / "etcd-ca.crt").read_text(), 0o644),
        f"{_FOLDER}/server.crt": ((keys / "etcd-server.crt").read_text(), 0o644),
        f"{_FOLDER}/server.key": ((keys / "etcd-server.key").read_text(), 0o600),
    }


def client_files(keys: Path) -> dict[str, tuple[str, int]]:
    """Files of each controller: path → (text, mode)."""
    return {
        path: ((keys / name).read_text(), 0o600 if path.endswith(".key") else 0o644)
        for name, path in _CONTROLLERS.items()
    }


def _address(placement: Placement) -> str:
    return next(node.address for node in placement.nodes if node.role == "etcd")


def _url(placement: Placement) -> str:
    return f"https://{_address(placement)}:{_PORT}"
