"""Kubernetes, etcd, CoreDNS and pause as this machine builds them from Go modules."""

from __future__ import annotations

from upgrader.lab.binaries import COREDNS, PAUSE, Binaries, built_kubernetes, kubernetes
from upgrader.lab.debian import base_layer
from upgrader.lab.image_catalog import etcd_image
from upgrader.lab.oci_archive import Image, layer_of_files, layer_of_links
from upgrader.lab.origin import Programs
from upgrader.lab.progress_port import LabProgress

__all__ = ["BuiltHere"]

_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")


class BuiltHere:
    """`Origin` that needs Go modules and Debian packages only, and half an hour at first."""

    def __init__(self, progress: LabProgress) -> None:
        self._progress = progress

    def programs(self, version: str) -> Programs:
        built = kubernetes(version, self._progress)
        one = built / "kubernetes"
        return Programs(built.name, {"kubelet": one, "kubeadm": built / "kubeadm", "kubectl": one})

    def etcd(self) -> Programs:
        folder = Binaries(self._progress).etcd()
        return Programs(folder.name, {name: folder / name for name in ("etcd", "etcdctl", "etcdutl")})

    def images(self) -> list[Image]:
        return [*self.shared_images(), *(image for version in self.versions() for image in self.images_of(version))]

    def has(self, version: str) -> bool:
        return version in self.versions()

    def versions(self) -> tuple[str, ...]:
        """Every version that was built, oldest first."""
        return built_kubernetes()

    def shared_images(self) -> list[Image]:
        """Those of etcd, CoreDNS and pause."""
        binaries = Binaries(self._progress)
        coredns, pause = binaries.coredns(), binaries.pause()
        return [
            etcd_image(self._progress),
            Image(
                f"registry.k8s.io/coredns/coredns:{COREDNS}",
                (layer_of_files(f"coredns-{COREDNS}", {"/coredns": coredns / "coredns"}),),
                entrypoint=("/coredns",),
            ),
            Image(
                f"registry.k8s.io/pause:{PAUSE}",
                (layer_of_files(f"pause-{pause.name}", {"/pause": pause / "pause"}),),
                entrypoint=("/pause",),
            ),
        ]

    def images_of(self, version: str) -> list[Image]:
        """Those of Kubernetes' components."""
        base = base_layer(self._progress)
        program = kubernetes(version, self._progress) / "kubernetes"
        layer = layer_of_files(f"kubernetes-{program.parent.name}", {"/usr/local/bin/kubernetes": program})
        return [
            Image(
                f"registry.k8s.io/{component}:{version}",
                (
                    *((base,) if component == "kube-proxy" else ()),
                    layer,
                    layer_of_links({f"/usr/local/bin/{component}": "kubernetes"}),
                ),
            )
            for component in _COMPONENTS
        ]
