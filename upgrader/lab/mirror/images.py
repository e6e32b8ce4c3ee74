"""Images from a mirror's registry: by a tag with a signature, and from there on by digests."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from upgrader.lab.build_cache import built
from upgrader.lab.mirror.address import Address
from upgrader.lab.mirror.cache import blob, make_durable, mirror_cache, write_durably
from upgrader.lab.mirror.download import Downloads, refused
from upgrader.lab.mirror.signatures import Authorities, Unverified, verify_image
from upgrader.lab.oci_archive import Image
from upgrader.lab.progress_port import LabProgress

__all__ = ["MirroredImages", "extract"]

_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_ACCEPT: Mapping[str, str] = {"Accept": ", ".join(_MANIFESTS)}


class MirroredImages:
    """Pulls images of `registry.k8s.io` that the release managers signed."""

    def __init__(
        self,
        registry: Address,
        architecture: str,
        authorities: Authorities,
        downloads: Downloads,
        progress: LabProgress,
    ) -> None:
        self._registry = registry
        self._architecture = architecture
        self._authorities = authorities
        self._downloads = downloads
        self._progress = progress

    def image(self, repository: str, tag: str) -> Image:
        """`registry.k8s.io/REPOSITORY:TAG` for this machine, from the cache or else from the mirror."""
        name = f"{repository.replace('/', '-')}-{tag}-{self._architecture}-{self._authorities.key}"
        folder = built(mirror_cache() / "images" / name, lambda target: self._pull(repository, tag, target))
        config, manifest = ((folder / file).read_bytes() for file in ("config.json", "manifest.json"))
        layers = tuple(self._blob(repository, layer["digest"]) for layer in _parsed(manifest)["layers"])
        return Image(
            f"registry.k8s.io/{repository}:{tag}",
            layers,
            architecture=self._architecture,
            stored=(config, manifest),
        )

    def _pull(self, repository: str, tag: str, target: Path) -> None:
        manifest = self._downloads.small(self._url(repository, f"manifests/{tag}"), _ACCEPT)
        self._require_signed(repository, "sha256:" + hashlib.sha256(manifest).hexdigest())
        parsed = _parsed(manifest)
        if "manifests" in parsed:
            manifest = self._exactly(repository, "manifests", self._of_this_machine(repository, tag, parsed))
            parsed = _parsed(manifest)
        try:
            config = self._exactly(repository, "blobs", parsed["config"]["digest"])
            layers = [str(layer["digest"]) for layer in parsed["layers"]]
        except (KeyError, TypeError) as error:
            raise refused(f"{self._url(repository, f'manifests/{tag}')} is not an image") from error
        for layer in layers:
            self._blob(repository, layer)
        target.mkdir()
        write_durably(target / "config.json", config)
        write_durably(target / "manifest.json", manifest)

    def _require_signed(self, repository: str, digest: str) -> None:
        """cosign keeps an image's signatures beside it, as the layers of an image under a tag made of its digest."""
        url = self._url(repository, f"manifests/{digest.replace(':', '-')}.sig")
        name = repository.rpartition("/")[2]
        names = (name, f"{name}-{self._architecture}")  # each architecture's image is promoted by itself as well
        why = "it has no signature"
        try:
            for layer in _parsed(self._downloads.small(url, _ACCEPT))["layers"]:
                payload = self._exactly(repository, "blobs", layer["digest"])
                try:
                    return verify_image(digest, names, payload, layer.get("annotations") or {}, self._authorities)
                except Unverified as error:
                    why = str(error)
        except (KeyError, TypeError, AttributeError) as error:  # a text or a number instead of a mapping
            raise refused(f"{url} has no signatures") from error
        raise refused(f"{url} does not verify: {why}")

    def _of_this_machine(self, repository: str, tag: str, index: Mapping[str, Any]) -> str:
        for entry in index["manifests"]:
            platform = entry.get("platform") or {}
            if (platform.get("os"), platform.get("architecture")) == ("linux", self._architecture):
                return str(entry["digest"])
        raise refused(f"its {repository}:{tag} is not for linux/{self._architecture}")

    def _exactly(self, repository: str, kind: str, digest: str) -> bytes:
        """A small document by its digest."""
        url = self._url(repository, f"{kind}/{digest}")
        content = self._downloads.small(url, _ACCEPT if kind == "manifests" else {})
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
            raise refused(f"{url} has another digest")
        return content

    def _blob(self, repository: str, digest: str) -> Path:
        sha256 = digest.removeprefix("sha256:")
        if digest == sha256 or not sha256.isalnum():
            raise refused(f"its {repository} has a layer without a SHA-256: {digest!r}")
        url = self._url(repository, f"blobs/{digest}")
        return blob(url, sha256, f"image {repository}, layer {sha256[:12]}", self._downloads, self._progress)

    def _url(self, repository: str, rest: str) -> str:
        return self._registry.registry(repository, rest)


def extract(image: Image, paths: Collection[str], target: Path) -> None:
    """Copy files of an image, by their paths in it, into the new folder `target`; the topmost layer's count."""
    target.mkdir()
    missing = {path.lstrip("/") for path in paths}
    for layer in reversed(image.layers):
        with tarfile.open(layer) as archive:
            for member in archive.getmembers():
                path = member.name.removeprefix("./").lstrip("/")
                if path in missing and (stream := archive.extractfile(member)):
                    file = target / Path(path).name
                    with file.open("wb") as copy:
                        while piece := stream.read(1 << 20):
                            copy.write(piece)
                        make_durable(copy)
                    file.chmod(0o755)
                    missing.remove(path)
    if missing:
        raise refused(f"its {image.name} has no {', '.join(sorted(missing))}")


def _parsed(document: bytes) -> Mapping[str, Any]:
    try:
        parsed = json.loads(document)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise refused("a manifest of its registry isn't a JSON object")
    return parsed
