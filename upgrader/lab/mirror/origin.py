"""Kubernetes' own release, from its hosts or from a mirror of them: one of the lab's origins."""

from __future__ import annotations

from pathlib import Path

from upgrader.lab.binaries import COREDNS, ETCD, PAUSE, link_kubectl, oldest_first
from upgrader.lab.build_cache import built
from upgrader.lab.mirror.address import Address
from upgrader.lab.mirror.cache import mirror_cache
from upgrader.lab.mirror.download import Downloads
from upgrader.lab.mirror.images import MirroredImages, extract
from upgrader.lab.mirror.programs import VERSION_OF, require_version, verified_program
from upgrader.lab.mirror.signatures import Authorities
from upgrader.lab.oci_archive import Image, native_architecture
from upgrader.lab.origin import Programs
from upgrader.lab.progress_port import LabProgress

__all__ = ["Mirror"]

_COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
_ETCD = ("etcd", "etcdctl", "etcdutl")


class Mirror:
    """`Origin` with Kubernetes' own release, and etcd, CoreDNS and pause as registry.k8s.io has them.

    Cached files were verified when they were downloaded: only missing ones are requested. If a server lacks something,
    that is an error (Unavailable); nothing is built instead.
    """

    def __init__(
        self,
        mirror: Address,
        registry: Address,
        authorities: Authorities,
        progress: LabProgress,
        downloads: Downloads | None = None,
    ) -> None:
        self._mirror = mirror
        self._authorities = authorities
        self._progress = progress
        self._downloads = downloads or Downloads()
        self._architecture = native_architecture()
        self._images = MirroredImages(registry, self._architecture, authorities, self._downloads, progress)

    def programs(self, version: str) -> Programs:
        self.images_of(version)  # first: a version whose programs are there is complete

        def build(target: Path) -> None:
            target.mkdir()
            for name in VERSION_OF:
                found = verified_program(
                    self._mirror,
                    version,
                    self._architecture,
                    name,
                    self._authorities,
                    self._downloads,
                    self._progress,
                )
                found.chmod(0o755)
                (target / name).hardlink_to(found)
                require_version(target / name, version)

        folder = built(mirror_cache() / "programs" / f"{version}-{self._suffix}", build)
        link_kubectl(version, folder / "kubectl")
        return Programs(f"mirror-{folder.name}", {name: folder / name for name in VERSION_OF})

    def etcd(self) -> Programs:
        image = self._images.image("etcd", _etcd_tag())
        folder = built(
            mirror_cache() / "etcd" / f"{ETCD}-{self._suffix}",
            lambda target: extract(image, [f"/usr/local/bin/{name}" for name in _ETCD], target),
        )
        return Programs(folder.name, {name: folder / name for name in _ETCD})

    def images(self) -> list[Image]:
        return [*self.shared_images(), *(image for version in self.versions() for image in self.images_of(version))]

    def has(self, version: str) -> bool:
        return version in self.versions()

    def versions(self) -> tuple[str, ...]:
        """Every version whose programs and images are in the cache, oldest first."""
        found = (mirror_cache() / "programs").glob(f"v*-{self._suffix}")
        return oldest_first(folder.name.partition("-")[0] for folder in found)

    def shared_images(self) -> list[Image]:
        """Those of etcd, CoreDNS and pause."""
        shared = (("etcd", _etcd_tag()), ("coredns/coredns", COREDNS), ("pause", PAUSE))
        return [self._images.image(repository, tag) for repository, tag in shared]

    def images_of(self, version: str) -> list[Image]:
        """Those of Kubernetes' components."""
        return [self._images.image(component, version) for component in _COMPONENTS]

    @property
    def _suffix(self) -> str:
        """The cache key: files verified with other CAs, or for other architectures, are separate."""
        return f"{self._architecture}-{self._authorities.key}"


def _etcd_tag() -> str:
    return f"{ETCD.removeprefix('v')}-0"
