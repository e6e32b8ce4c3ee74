"""Where Kubernetes comes from, as the lab sees it: programs and images that are built here, or a release's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from upgrader.lab.oci_archive import Image

__all__ = ["Origin", "Programs"]


@dataclass(frozen=True)
class Programs:
    """Programs in the cache, by the names under which they run; `key` names their content among all others."""

    key: str
    files: Mapping[str, Path]


class Origin(Protocol):
    """Provides the parts of Kubernetes; each is in the cache after the first time."""

    def programs(self, version: str) -> Programs:
        """kubelet, kubeadm and kubectl of a version. All its images are there as well then."""

    def etcd(self) -> Programs:
        """etcd, etcdctl and etcdutl."""

    def images(self) -> list[Image]:
        """Those of each version whose programs are in the cache; etcd's, CoreDNS's and pause's."""

    def has(self, version: str) -> bool:
        """Whether the programs of a version are in the cache; makes nothing."""
