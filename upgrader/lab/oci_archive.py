"""Container images, written as OCI archives without any registry or builder.

Layers are plain tar files; those of a lab aren't compressed, as they stay on this machine. They are shared: all Debian
images have one base layer, all components of one Kubernetes version one layer with their common program.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import shutil
import tarfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from upgrader.lab.build_cache import built, cache_root, content_hash

__all__ = [
    "Blob",
    "Image",
    "compressed",
    "digest",
    "digest_of",
    "documents",
    "layer_of_files",
    "layer_of_links",
    "native_architecture",
    "write_archive",
    "write_artifact",
    "write_platforms",
]


_OCI = "application/vnd.oci.image"
_GZIP = ".gz"


def native_architecture() -> str:
    """This machine's architecture, as images name it: `amd64` or `arm64`."""
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


@dataclass(frozen=True)
class Image:
    """One image: its full name with tag, its layers (tar files, lowest first), what it runs, and on what machines.

    A container's `args` replace `command`, its `command` replaces `entrypoint`. `user` is a user ID or a name in the
    image's /etc/passwd; empty: root. `stop_signal` is what a runtime ends it with; empty: SIGTERM. `stored` are the
    configuration and the manifest of an image from a registry, which keeps its digest: they aren't made from the other
    fields then.
    """

    name: str
    layers: tuple[Path, ...]
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: tuple[str, ...] = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",)
    working_dir: str = "/"
    user: str = ""
    stop_signal: str = ""
    architecture: str = field(default_factory=native_architecture)
    stored: tuple[bytes, bytes] | None = None


@dataclass(frozen=True)
class Blob:
    """A part of an artifact, and its media type."""

    kind: str
    data: bytes


def layer_of_files(key: str, files: Mapping[str, Path]) -> Path:
    """A cached layer that has each file (or folder) at the given path; `key` must name its content uniquely."""

    def build(target: Path) -> None:
        with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
            for inside, source in sorted(files.items()):
                _add_parents(archive, inside)
                archive.add(source, inside.lstrip("/"), filter=_plain)

    return built(cache_root() / "images" / key, build)


def layer_of_links(links: Mapping[str, str]) -> Path:
    """A cached layer of symbolic links: path → target."""
    text = json.dumps(dict(links), sort_keys=True)

    def build(target: Path) -> None:
        with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
            for path, points_to in sorted(links.items()):
                _add_parents(archive, path)
                entry = tarfile.TarInfo(path.lstrip("/"))
                entry.type, entry.linkname = tarfile.SYMTYPE, points_to
                archive.addfile(entry)

    return built(cache_root() / "images" / f"links-{content_hash([], text)}", build)


def compressed(layer: Path) -> Path:
    """The same layer as in registries: gzip, without a time."""

    def build(target: Path) -> None:
        with (
            layer.open("rb") as source,
            target.open("wb") as file,
            gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6) as packed,
        ):
            shutil.copyfileobj(source, packed, 1 << 20)

    return built(layer.with_name(f"{layer.name}{_GZIP}"), build)


def digest(layer: Path) -> str:
    """`sha256:…` of a layer, computed once."""

    def build(target: Path) -> None:
        with layer.open("rb") as stream:
            target.write_text("sha256:" + hashlib.file_digest(stream, "sha256").hexdigest())

    return built(layer.with_name(f"{layer.name}.sha256"), build).read_text()


def digest_of(content: bytes) -> str:
    """`sha256:…` of a small document."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def documents(image: Image) -> tuple[bytes, bytes]:
    """An image's configuration and manifest, as they are stored."""
    if image.stored:
        return image.stored
    layers = [_descriptor(_kind(layer), digest(layer), layer.stat().st_size) for layer in image.layers]
    config = _json(_config(image))
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": _descriptor("config.v1+json", digest_of(config), len(config)),
        "layers": layers,
    }
    return config, _json(manifest)


def write_archive(images: Sequence[Image], target: Path, *, without: Collection[Path] = ()) -> None:
    """Write an OCI archive with all the images; a shared layer is in it once.

    Layers in `without` are only referenced, for a containerd that has them already.
    """
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
        manifests = _add_blobs(archive, images, without)
        entries = [
            {**manifest, "annotations": {"io.containerd.image.name": image.name}}
            for image, manifest in zip(images, manifests, strict=True)
        ]
        _add_layout(archive, entries)


def write_platforms(images: Sequence[Image], target: Path) -> str:
    """Write an OCI archive with one image, for the architecture of each of `images`; returns its digest, which is the
    same on any machine.
    """
    (name,) = {image.name for image in images}
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
        entries = [
            {**manifest, "platform": {"architecture": image.architecture, "os": "linux"}}
            for image, manifest in zip(images, _add_blobs(archive, images), strict=True)
        ]
        index = _json({"schemaVersion": 2, "mediaType": f"{_OCI}.index.v1+json", "manifests": entries})
        _add_bytes(archive, _blob(digest_of(index)), index)
        names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
        _add_layout(archive, [{**_descriptor("index.v1+json", digest_of(index), len(index)), "annotations": names}])
    return digest_of(index)


def write_artifact(name: str, config: Blob, content: Blob, target: Path) -> str:
    """Write an OCI archive with something other than an image, such as a chart; `name` is `NAME:TAG`. Returns its
    digest.
    """
    described = [
        {"mediaType": each.kind, "digest": digest_of(each.data), "size": len(each.data)} for each in (config, content)
    ]
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_OCI}.manifest.v1+json",
        "config": described[0],
        "layers": described[1:],
    }
    document = _json(manifest)
    with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as archive:
        for data in (config.data, content.data, document):
            _add_bytes(archive, _blob(digest_of(data)), data)
        names = {"org.opencontainers.image.ref.name": name.rpartition(":")[2]}
        _add_layout(
            archive, [{**_descriptor("manifest.v1+json", digest_of(document), len(document)), "annotations": names}]
        )
    return digest_of(document)


def _add_blobs(
    archive: tarfile.TarFile, images: Sequence[Image], without: Collection[Path] = ()
) -> list[dict[str, object]]:
    """Add the parts of the images, each blob once; returns the descriptors of their manifests."""
    written: set[str] = set()
    manifests = []
    for image in images:
        for layer in image.layers:
            path = _blob(digest(layer))
            if path not in written and layer not in without:
                archive.add(layer, path, filter=_plain)
                written.add(path)
        config, manifest = documents(image)
        for document in (config, manifest):
            if _blob(digest_of(document)) not in written:
                _add_bytes(archive, _blob(digest_of(document)), document)
                written.add(_blob(digest_of(document)))
        described = _descriptor("manifest.v1+json", digest_of(manifest), len(manifest))
        # Not every media type of a registry is OCI's: Docker's are almost the same.
        manifests.append({**described, "mediaType": json.loads(manifest).get("mediaType", described["mediaType"])})
    return manifests


def _add_layout(archive: tarfile.TarFile, entries: Sequence[Mapping[str, object]]) -> None:
    _add_bytes(archive, "index.json", json.dumps({"schemaVersion": 2, "manifests": list(entries)}).encode())
    _add_bytes(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')


def _kind(layer: Path) -> str:
    return "layer.v1.tar+gzip" if layer.name.endswith(_GZIP) else "layer.v1.tar"


def _content(layer: Path) -> Path:
    """The tar file of a layer, whose digest is in an image's configuration."""
    return layer.with_name(layer.name.removesuffix(_GZIP))


def _blob(digest_text: str) -> str:
    return f"blobs/sha256/{digest_text.removeprefix('sha256:')}"


def _descriptor(kind: str, digest_text: str, size: int) -> dict[str, object]:
    return {"mediaType": f"{_OCI}.{kind}", "digest": digest_text, "size": size}


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _config(image: Image) -> dict[str, object]:
    settings: dict[str, object] = {"Env": list(image.environment), "WorkingDir": image.working_dir}
    if image.entrypoint:
        settings["Entrypoint"] = list(image.entrypoint)
    if image.command:
        settings["Cmd"] = list(image.command)
    if image.user:
        settings["User"] = image.user
    if image.stop_signal:
        settings["StopSignal"] = image.stop_signal
    return {
        "architecture": image.architecture,
        "os": "linux",
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [digest(_content(layer)) for layer in image.layers]},
        "history": [{"created_by": "upgrader"} for _ in image.layers],
    }


def _add_parents(archive: tarfile.TarFile, path: str) -> None:
    parts = path.strip("/").split("/")[:-1]
    present = set(archive.getnames())
    for depth in range(1, len(parts) + 1):
        name = "/".join(parts[:depth])
        if name not in present:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """The same bytes on every machine: without owners, times, and modes from a umask."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
    return entry


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))
