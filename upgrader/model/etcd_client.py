"""How kube-apiserver asks etcd."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EtcdClient"]


@dataclass(frozen=True)
class EtcdClient:
    """The addresses of etcd, as seen from a controller, and paths there: of the CA, of a client's certificate and key.

    Paths are "" where there is no TLS.
    """

    servers: tuple[str, ...]
    ca: str = ""
    certificate: str = ""
    key: str = ""
