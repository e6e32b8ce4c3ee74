"""How kube-apiserver connects to etcd."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EtcdClient"]


@dataclass(frozen=True)
class EtcdClient:
    """etcd's addresses as a controller sees them, and paths on the controller: of the CA, a client's certificate and
    key.

    Paths are "" without TLS.
    """

    servers: tuple[str, ...]
    ca: str = ""
    certificate: str = ""
    key: str = ""
