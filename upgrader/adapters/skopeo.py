"""Copies images from and to registries with skopeo, which has this user's logins, mirrors and policies."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

from upgrader.errors import UsageError
from upgrader.model.image_name import digest_in, full_name

__all__ = ["copy_image", "push_archive"]

_SECONDS = 900.0
_CONTAINERD = "io.containerd.image.name"


def copy_image(image: str, archive: Path) -> None:
    """Write an image, of this machine's architecture, as an OCI archive that containerd imports under its full name.

    Raises UsageError where skopeo is missing or fails.
    """
    if shutil.which("skopeo") is None:
        raise UsageError(
            f"no given archive contains {image}, and skopeo, which copies images from registries, is not installed",
            remedy="Install skopeo; or give a folder with archives: --archives DIR (docker save, ctr images export).",
        )
    with TemporaryDirectory(dir=archive.parent) as folder:
        layout = Path(folder) / "oci"
        _skopeo(image, "copy", "--quiet", "--preserve-digests", f"docker://{full_name(image)}", f"oci:{layout}")
        _name(layout / "index.json", image)
        if digest := digest_in(image):
            _add_index(layout, image, digest)
        with tarfile.open(archive, "w", format=tarfile.USTAR_FORMAT) as tar:
            for path in sorted(layout.rglob("*")):
                if path.is_file():
                    tar.add(path, str(path.relative_to(layout)))


def _add_index(layout: Path, image: str, digest: str) -> None:
    """Add the index for all architectures, where the digest is its: it proves that what was copied is this image."""
    path = layout / "blobs" / digest.replace(":", "/")
    if not path.exists():
        content = _skopeo(image, "inspect", "--raw", f"docker://{full_name(image)}")
        if f"sha256:{hashlib.sha256(content).hexdigest()}" != digest:
            raise UsageError(f"skopeo could not copy {image}: its index in the registry has a different digest")
        path.write_bytes(content)


def push_archive(archive: Path, image: str) -> str:
    """Push an OCI archive, for all its architectures, as `HOST/REPOSITORY:TAG`; returns its digest (`sha256:…`).

    TLS is required, but at a registry of this machine. Raises UsageError where skopeo is missing or fails.
    """
    if shutil.which("skopeo") is None:
        raise UsageError(
            f"skopeo is needed to push {archive.name}, but it is not installed",
            remedy="Install skopeo; or push the archive with any tool that takes OCI archives, and set the digest.",
        )
    plain = ("--dest-tls-verify=false",) if _of_this_machine(image.partition("/")[0]) else ()
    with TemporaryDirectory() as folder:
        # An absolute path: skopeo reads what follows a colon as a tag.
        options = ("--quiet", "--all", "--preserve-digests", f"--digestfile={folder}/digest", *plain)
        _skopeo(image, "copy", *options, f"oci-archive:{archive.absolute()}", f"docker://{image}")
        return (Path(folder) / "digest").read_text().strip()


def _of_this_machine(host: str) -> bool:
    name = host.rpartition(":")[0] or host
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return name == "localhost"


def _skopeo(image: str, *arguments: str) -> bytes:
    try:
        done = subprocess.run(["skopeo", *arguments], capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"skopeo could not copy {image}: {error}") from error
    if done.returncode:
        raise UsageError(
            f"skopeo could not copy {image}: {done.stderr.decode(errors='replace').strip()[-1000:]}",
            remedy="Log in with `skopeo login`, or check the image's name and the registry.",
        )
    return done.stdout


def _name(index: Path, image: str) -> None:
    content = json.loads(index.read_text())
    for item in content["manifests"]:
        item["annotations"] = {_CONTAINERD: full_name(image)}
    index.write_text(json.dumps(content))
