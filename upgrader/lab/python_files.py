"""Python packages as images contain them: for the image's Python (Debian 12: 3.11), with their bytecode."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from upgrader.errors import LabError
from upgrader.lab.build_cache import built, cache_root, content_hash
from upgrader.lab.debian import node_root, private_namespace
from upgrader.lab.progress_port import LabProgress

__all__ = ["compiled", "forget_programs", "installed_packages"]

_PLATFORMS = {"amd64": "x86_64", "arm64": "aarch64"}
"""An image's architecture → its name in Python's packages."""


def installed_packages(requirements: Path, architecture: str, progress: LabProgress) -> Path:
    """A cached folder with the packages of a list, each with a checked hash, unpacked; without their programs."""
    machine = _PLATFORMS[architecture]
    platforms = [f"--platform={kind}_{machine}" for kind in ("manylinux2014", "manylinux_2_17", "manylinux_2_28")]

    def build(target: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--require-hashes"]
        command += ["--implementation=cp", "--python-version=3.11", "--only-binary=:all:", *platforms]
        with progress.task(f"Python packages of {requirements.parent.name} for {architecture}", seconds=15):
            subprocess.run([*command, "--target", str(target), "-r", str(requirements)], check=True)
        forget_programs(target)

    key = content_hash([requirements, Path(__file__)], architecture)
    return built(cache_root() / "images" / f"wheels-{key}", build)


def forget_programs(packages: Path) -> None:
    """Remove the programs that pip has written beside packages, and their lines in RECORD.

    Their first line has the path of the Python that ran pip: it doesn't exist in an image, and reveals this machine's
    folders.
    """
    if (packages / "bin").is_dir():
        shutil.rmtree(packages / "bin")
    for record in packages.glob("*.dist-info/RECORD"):
        lines = record.read_text().splitlines(keepends=True)
        record.write_text("".join(line for line in lines if not line.startswith("../../bin/")))


def compiled(key: str, folders: Mapping[str, Path], inside: str, progress: LabProgress) -> Path:
    """A cached folder with Python sources and their bytecode, compiled by Debian's Python, which images contain.

    `folders` are path → source; the result is at `inside` in the image. A container's root is read-only: without
    bytecode, every start would compile everything, including the start after a power cut. The bytecode contains no
    times, is not checked against its source, and is the same for all architectures.
    """

    def build(target: Path) -> None:
        for path, source in folders.items():
            shutil.copytree(source, target / path, ignore=shutil.ignore_patterns("__pycache__"))
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "ROOT": str(node_root(progress)),
            "SOURCES": str(target),
            "INSIDE": inside,
            "PYTHONHASHSEED": "0",  # the order of some constants
        }
        done = subprocess.run(
            private_namespace(["sh", "-euc", _COMPILE]), env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise LabError(f"{', '.join(folders)} can't be compiled: {done.stdout.strip()[-1000:]}{done.stderr}")

    return built(cache_root() / "images" / key, build)


_COMPILE = """
mount --bind "$SOURCES" "$ROOT/mnt"
chroot "$ROOT" python3 -m compileall -q -s /mnt -p "$INSIDE" --invalidation-mode unchecked-hash /mnt
"""
