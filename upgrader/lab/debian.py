"""The Debian parts of the lab, made by mmdebstrap and cached by their list of packages: node root and image base."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from upgrader.built_in_files import lab_folder
from upgrader.errors import LabError
from upgrader.lab.build_cache import built, cache_root, content_hash
from upgrader.lab.progress_port import LabProgress
from upgrader.lab.spec import DEBIAN

__all__ = [
    "base_layer",
    "node_files",
    "node_root",
    "package_files",
    "package_version",
    "packages_layer",
    "private_namespace",
    "unpacked_layer",
]

_RELEASE = DEBIAN[12]
"""The Debian release of images, and of single packages."""
_MERGED_USR = "/usr/share/mmdebstrap/hooks/merged-usr"
_LIST_PACKAGES = """
for deb in "$1"/var/cache/apt/archives/*.deb; do
  dpkg-deb --show --showformat \
    'Package: ${Package}\nStatus: install ok unpacked\nVersion: ${Version}\nArchitecture: ${Architecture}\n\n' "$deb"
done > "$1"/var/lib/dpkg/status
"""
"""dpkg's own list, from which scanners read an image's packages; packages that are only unpacked aren't in it."""
_FORGET = 'rm -f "$1"/etc/resolv.conf "$1"/etc/hostname'
"""This machine's files, which mmdebstrap copies: they differ on each machine, and reveal something about it."""


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


def node_root(progress: LabProgress, debian: int = 12, more: Sequence[str] = ()) -> Path:
    """The root file system, of a release of Debian, that all nodes of a lab share, read-only; `more` are packages."""
    packages = lab_folder() / "node" / "packages.txt"

    def build(target: Path) -> None:
        with progress.task(f"Debian {debian} root of the nodes", seconds=45):
            _mmdebstrap("minbase", [*_lines(packages), *more], target, release=DEBIAN[debian])
            for folder in ("containerd", "kubelet", "etcd"):
                (target / "var/lib" / folder).mkdir(exist_ok=True)  # mount points

    return built(cache_root() / "node" / f"{DEBIAN[debian]}-{content_hash([packages], *more)}", build)


def node_files() -> Path:
    """The lab's own files on top of that root (units, scripts), owned by root regardless of the source tree's owner."""
    source, links = lab_folder() / "node" / "files", lab_folder() / "node" / "links.txt"

    def build(target: Path) -> None:
        shutil.copytree(source, target)
        for path in [target, *target.rglob("*")]:
            path.chmod(0o755 if path.is_dir() or path.parent in _programs(target) else 0o644)
        for name, points_to in map(str.split, _lines(links)):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).symlink_to(points_to)
        subprocess.run(["chown", "-hR", "0:0", str(target)], check=True)

    return built(cache_root() / "node" / f"files-{content_hash([source, links])}", build)


def package_files(package: str, paths: Sequence[str], progress: LabProgress) -> Path:
    """A folder with some files of a Debian package, for the few nodes that need more than the root."""

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
    return packages_layer("base", lab_folder() / "images" / "base" / "packages.txt", progress)


def packages_layer(name: str, packages: Path, progress: LabProgress) -> Path:
    """An image layer, a tar file, with the essential packages and those of a list; it is the lowest layer."""

    def build(target: Path) -> None:
        with progress.task(f"Debian {name} of the images", seconds=30):
            with_suffix = target.with_suffix(".tar")
            _mmdebstrap("essential", _lines(packages), with_suffix)
            with_suffix.rename(target)

    return built(cache_root() / "images" / f"{name}-{_RELEASE}-{content_hash([packages])}", build)


def unpacked_layer(name: str, progress: LabProgress, architecture: str) -> Path:
    """An image layer, a tar file, with the packages of `images/NAME/packages.txt`; none of their scripts runs.

    So it can be made for any architecture on any other, and the same packages make the same bytes. Further
    configuration is in `images/NAME/configure`, a script of /bin/sh; with it, the folders of /usr are merged as in an
    installed Debian.
    """
    packages, configure = (lab_folder() / "images" / name / file for file in ("packages.txt", "configure"))
    options = [f"--architectures={architecture}", f"--extract-hook={_LIST_PACKAGES}", f"--customize-hook={_FORGET}"]
    if configure.exists():
        options += [f"--hook-dir={_MERGED_USR}", f'--extract-hook=LC_ALL=C sh {shlex.quote(str(configure))} "$1"']

    def build(target: Path) -> None:
        with progress.task(f"Debian's {name} for {architecture}", seconds=20):
            with_suffix = target.with_suffix(".tar")
            _mmdebstrap("extract", _lines(packages), with_suffix, *options)
            with_suffix.rename(target)

    key = content_hash([file for file in (packages, configure) if file.exists()], architecture, _LIST_PACKAGES, _FORGET)
    return built(cache_root() / "images" / f"{name}-{_RELEASE}-{architecture}-{key}", build)


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


def _lines(path: Path) -> list[str]:
    """The packages of a list, without comments."""
    return [text for line in path.read_text().splitlines() if (text := line.partition("#")[0].strip())]


def _programs(root: Path) -> tuple[Path, ...]:
    """Folders whose files are executable; a wheel doesn't keep modes."""
    return tuple(root / folder for folder in ("usr/bin", "usr/local/bin", "usr/local/sbin"))


def _mmdebstrap(variant: str, names: Sequence[str], target: Path, *options: str, release: str = _RELEASE) -> None:
    include = f"--include={','.join(names)}"
    command = ["mmdebstrap", f"--variant={variant}", include, "--quiet", *options, release, str(target)]
    # The time of every newer file, so that the same packages make the same bytes.
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0"}
    done = subprocess.run(private_namespace(command), env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        last = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:])
        raise LabError(f"mmdebstrap failed: {last}", remedy="check that a Debian mirror is reachable from this machine")
