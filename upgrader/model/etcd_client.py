"""How kube-apiserver connects to etcd."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from upgrader.contract.flags import values

__all__ = ["EtcdClient", "etcd_servers"]


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


def etcd_servers(words: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """The URLs of each etcd that a kube-apiserver's flags name: that of all objects, then those of single resources.

    Of each, one server has to answer. () where no etcd is named.
    """
    flags = values(words)
    named = [",".join(flags.get("etcd-servers", ())).split(",")]
    overrides = ",".join(flags.get("etcd-servers-overrides", ())).split(",")
    named += [override.partition("#")[2].split(";") for override in overrides]
    groups = (tuple(url.strip() for url in group if url.strip()) for group in named)
    return tuple(group for group in groups if group)
