"""The Debian parts of the lab, made by mmdebstrap and cached by their list of packages: node root and image base."""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from upgrader.errors import LabError
from upgrader.lab.build_cache import built, cache_root, content_hash, definitions
from upgrader.lab.progress_port import LabProgress

__all__ = ["base_layer", "node_files", "node_root", "package_files", "package_version", "private_namespace"]

_RELEASE = "bookworm"


def private_namespace(command: list[str]) -> list[str]:
    """`command` with private mounts and processes: if it is killed, it leaves neither behind."""
    return [
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
        *command,
    ]


def node_root(progress: LabProgress) -> Path:
    """The root file system that all nodes share, read-only."""
    packages = definitions() / "node" / "packages.txt"

    def build(target: Path) -> None:
        with progress.task("Debian root of the nodes", seconds=45):
            _mmdebstrap("minbase", _names(packages), target)
            for folder in ("containerd", "kubelet", "etcd"):
                (target / "var/lib" / folder).mkdir(exist_ok=True)  # mount points

    return built(cache_root() / "node" / f"{_RELEASE}-{content_hash([packages])}", build)


def node_files() -> Path:
    """The lab's own files on top of that root (units, scripts), owned by root regardless of the source tree's owner."""
    source = definitions() / "node" / "files"

    def build(target: Path) -> None:
        shutil.copytree(source, target, symlinks=True)
        for path in [target, *target.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        subprocess.run(["chown", "-hR", "0:0", str(target)], check=True)

    return built(cache_root() / "node" / f"files-{content_hash([source])}", build)


def package_files(package: str, paths: Sequence[str], progress: LabProgress) -> Path:
    """A folder with some files of a Debian package, for a few nodes that need more than the root has."""

    def build(target: Path) -> None:
        with progress.task(f"Debian package {package}", seconds=6):
            extracted = target.with_suffix(".extracted")
            _mmdebstrap("extract", [package], extracted)
            for path in paths:
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(extracted / path, target / path)

    return built(cache_root() / "node" / f"{package}-{_RELEASE}-{content_hash([], *paths)}", build)


def base_layer(progress: LabProgress) -> Path:
    """The image layer, a tar file, under every image of the lab that is not static."""
    packages = definitions() / "images" / "base" / "packages.txt"

    def build(target: Path) -> None:
        with progress.task("Debian base of the images", seconds=30):
            with_suffix = target.with_suffix(".tar")
            _mmdebstrap("essential", _names(packages), with_suffix)
            with_suffix.rename(target)

    return built(cache_root() / "images" / f"base-{_RELEASE}-{content_hash([packages])}", build)


def package_version(layer: Path, package: str) -> str:
    """The upstream version of a Debian package in a layer, as `2.6.12` for `2.6.12-1+deb12u2`."""
    with tarfile.open(layer) as archive:
        for member in archive:
            if member.name.lstrip("./") == "var/lib/dpkg/status":
                stream = archive.extractfile(member)
                status = stream.read().decode() if stream else ""
                match = re.search(rf"^Package: {package}\n(?:.+\n)*?Version: (?:\d+:)?([^-\n]+)", status, re.MULTILINE)
                if match:
                    return match[1]
    raise LabError(f"{layer} does not have the Debian package {package}", remedy=f"remove {layer} and build again")


def _names(packages: Path) -> list[str]:
    return [name for line in packages.read_text().splitlines() if (name := line.partition("#")[0].strip())]


def _mmdebstrap(variant: str, names: Sequence[str], target: Path) -> None:
    command = ["mmdebstrap", f"--variant={variant}", f"--include={','.join(names)}", "--quiet", _RELEASE, str(target)]
    done = subprocess.run(private_namespace(command), capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise LabError(f"mmdebstrap failed: {last}", remedy="check that a Debian mirror is reachable from this machine")
