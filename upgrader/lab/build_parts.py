"""Everything that is built once for a machine, and whether it is in the cache already."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from upgrader.lab.build_cache import built, cache_root
from upgrader.lab.containerd import containerd_programs
from upgrader.lab.daemon_images import checkpointer_image
from upgrader.lab.debian import base_layer, node_files, node_root
from upgrader.lab.flannel import flannel_image
from upgrader.lab.haproxy_agent import AGENT_PACKAGES, agent_folder
from upgrader.lab.image_catalog import images, kubeadm_images, store
from upgrader.lab.oci_archive import Image
from upgrader.lab.origin import Origin, Programs
from upgrader.lab.private_registry import registry_program
from upgrader.lab.progress_port import LabProgress
from upgrader.lab.spec import LabSpec

__all__ = ["Parts", "prepare", "probably_prepared"]


@dataclass(frozen=True)
class Parts:
    """The parts of a node: overlay folders (topmost first), and a containerd store with some of the images."""

    lower: tuple[Path, ...]
    store: Path
    images: tuple[Image, ...]


def prepare(spec: LabSpec, origin: Origin, progress: LabProgress) -> Parts:
    """Make, or find in the cache, everything that this lab needs.

    With a registry, also what the registry's node needs; then the store has only kubeadm's own images, because kubeadm
    can't log in. Another containerd than Debian's reads the same store.
    """
    packages = (*(("keepalived",) if spec.keepalived else ()), *(AGENT_PACKAGES if spec.ingress else ()))
    # Debian's packages are unpacked while Kubernetes is downloaded. If that fails, what was begun is completed first:
    # it is in the cache then, and no process is left.
    with ThreadPoolExecutor() as pool:
        root = pool.submit(node_root, progress, spec.debian, packages)
        others = (pool.submit(base_layer, progress), pool.submit(checkpointer_image, progress))
        programs, etcd = origin.programs(spec.kubernetes), origin.etcd()
    for other in others:
        other.result()
    found = images(origin, progress)
    lower: tuple[Path, ...] = (node_files(), _node_programs(programs, etcd), root.result())
    if spec.containerd:
        lower = (containerd_programs(spec.containerd, progress), *lower)
    if spec.registry:
        lower = (registry_program(progress), *lower)
    if spec.ingress:
        lower = (agent_folder(), *lower)
    stored = kubeadm_images(found, spec.kubernetes) if spec.registry else found
    # Not in the store, which all labs share: it is sent to the nodes that need it.
    more = (flannel_image(progress),) if spec.flannel else ()
    return Parts(lower, store(stored, progress, spec.debian), (*found, *more))


def probably_prepared(version: str, origin: Origin) -> bool:
    """Whether the large parts are in the cache, so that little disk space is needed; creates nothing."""
    return origin.has(version) and any((cache_root() / "containerd").glob("[0-9a-f]*"))


def _node_programs(programs: Programs, etcd: Programs) -> Path:
    """An overlay folder with kubelet, kubeadm, kubectl, etcd and its tools in /usr/bin, hard links into the cache."""

    def build(target: Path) -> None:
        folder = target / "usr" / "bin"
        folder.mkdir(parents=True)
        for name, source in {**programs.files, **etcd.files}.items():
            (folder / name).hardlink_to(source)

    return built(cache_root() / "node" / f"programs-with-etcd-{programs.key}-{etcd.key}", build)
