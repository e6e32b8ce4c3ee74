"""The source of Kubernetes for the lab: programs and images that are built here, or those of a release."""

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
        """kubelet, kubeadm and kubectl of a version. Then all its images exist as well."""

    def etcd(self) -> Programs:
        """etcd, etcdctl and etcdutl."""

    def images(self) -> list[Image]:
        """The images of each version whose programs are in the cache; etcd's, CoreDNS's and pause's."""

    def has(self, version: str) -> bool:
        """Whether the programs of a version are in the cache; creates nothing."""
