"""Everything that is built once for a machine, and whether it is in the cache already."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upgrader.lab.binaries import Binaries, built_kubernetes, kubernetes
from upgrader.lab.build_cache import built, cache_root
from upgrader.lab.debian import node_files, node_root
from upgrader.lab.image_catalog import images, kubeadm_images, store
from upgrader.lab.oci_archive import Image
from upgrader.lab.private_registry import registry_program
from upgrader.lab.progress_port import LabProgress

__all__ = ["Parts", "prepare", "probably_built"]


@dataclass(frozen=True)
class Parts:
    """The parts of a node: overlay folders (topmost first), and a containerd store with some of the images."""

    lower: tuple[Path, ...]
    store: Path
    images: tuple[Image, ...]


def prepare(version: str, progress: LabProgress, *, registry: bool = False) -> Parts:
    """Build, or find in the cache, everything that a lab of that Kubernetes version needs.

    With `registry`, for its node as well; and the store has only what kubeadm needs, which can't log in.
    """
    programs = kubernetes(version, progress)
    root = node_root(progress)
    found = images(progress)
    lower = (node_files(), _node_programs(programs, Binaries(progress).etcd()), root)
    if registry:
        return Parts(
            (registry_program(progress), *lower), store(kubeadm_images(found, version), progress), tuple(found)
        )
    return Parts(lower, store(found, progress), tuple(found))


def probably_built(version: str) -> bool:
    """Whether the large parts are in the cache, so that little disk space is needed; builds nothing."""
    return version in built_kubernetes() and any((cache_root() / "containerd").glob("[0-9a-f]*"))


def _node_programs(programs: Path, etcd: Path) -> Path:
    """An overlay folder with kubelet, kubeadm, kubectl, etcd and its tools in /usr/bin, hard links into the cache."""
    sources = {"kubelet": programs / "kubernetes", "kubectl": programs / "kubernetes", "kubeadm": programs / "kubeadm"}
    sources |= {name: etcd / name for name in ("etcd", "etcdctl", "etcdutl")}

    def build(target: Path) -> None:
        folder = target / "usr" / "bin"
        folder.mkdir(parents=True)
        for name, source in sources.items():
            (folder / name).hardlink_to(source)

    return built(cache_root() / "node" / f"programs-with-etcd-{programs.name}-{etcd.name}", build)
