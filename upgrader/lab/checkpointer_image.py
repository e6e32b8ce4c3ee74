"""The pod-checkpointer's image, as a release has it: Debian's Python, the libraries, and two packages of ours."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from upgrader import __version__
from upgrader.errors import LabError
from upgrader.lab.build_cache import built, cache_root, content_hash, definitions
from upgrader.lab.debian import node_root, private_namespace, python_layer
from upgrader.lab.oci_archive import Image, layer_of_files, native_architecture
from upgrader.lab.progress_port import LabProgress

__all__ = ["checkpointer_image", "requirements_of_the_checkpointer"]

_PLATFORMS = {"amd64": "x86_64", "arm64": "aarch64"}
"""An image's architecture → as Python's packages name it."""


def requirements_of_the_checkpointer() -> Path:
    """The Python packages in it, with their hashes."""
    return definitions() / "images" / "pod-checkpointer" / "requirements.txt"


def checkpointer_image(progress: LabProgress, architecture: str = "") -> Image:
    """It, from the sources as they are now; for this machine's architecture, or for `amd64` or `arm64`."""
    architecture = architecture or native_architecture()
    sources = {name: Path(__file__).resolve().parents[1] / name for name in ("checkpointer", "node")}
    key = content_hash(
        [requirements_of_the_checkpointer()], *(content_hash([source]) for source in sources.values()), architecture
    )
    folders = {f"upgrader/{name}": source for name, source in sources.items()}
    folders["site-packages"] = _wheels(architecture, progress)
    app = _compiled(f"app-{key}", folders, progress)
    return Image(
        f"upgrader.lab/pod-checkpointer:{__version__}-{key}",
        (python_layer(progress, architecture), layer_of_files(f"pod-checkpointer-compiled-{key}", {"/app": app})),
        entrypoint=("python3", "-m", "upgrader.checkpointer"),
        environment=("PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONPATH=/app:/app/site-packages", "PYTHONUNBUFFERED=1"),
        working_dir="/app",
        architecture=architecture,
    )


def _wheels(architecture: str, progress: LabProgress) -> Path:
    """The packages of the requirements for the image's Python (Debian 12: 3.11), unpacked."""
    requirements, machine = requirements_of_the_checkpointer(), _PLATFORMS[architecture]
    platforms = [f"--platform={kind}_{machine}" for kind in ("manylinux2014", "manylinux_2_17", "manylinux_2_28")]

    def build(target: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--require-hashes"]
        command += ["--implementation=cp", "--python-version=3.11", "--only-binary=:all:", *platforms]
        with progress.task(f"Python packages of the pod-checkpointer for {architecture}", seconds=15):
            subprocess.run([*command, "--target", str(target), "-r", str(requirements)], check=True)

    return built(cache_root() / "images" / f"wheels-{content_hash([requirements], architecture)}", build)


def _compiled(key: str, folders: Mapping[str, Path], progress: LabProgress) -> Path:
    """Python sources with their bytecode, made by Debian's Python, which is the image's.

    A container's root is read-only: without bytecode, every start would compile everything, also the start after a
    power cut. The bytecode contains no times, is not checked against its source, and is the same for all architectures.
    """

    def build(target: Path) -> None:
        for inside, source in folders.items():
            shutil.copytree(source, target / inside, ignore=shutil.ignore_patterns("__pycache__"))
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "ROOT": str(node_root(progress)), "APP": str(target)}
        done = subprocess.run(
            private_namespace(["sh", "-euc", _COMPILE]), env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise LabError(f"the pod-checkpointer could not be compiled: {done.stdout.strip()[-1000:]}{done.stderr}")

    return built(cache_root() / "images" / key, build)


_COMPILE = """
mount --bind "$APP" "$ROOT/mnt"
chroot "$ROOT" python3 -m compileall -q -s /mnt -p /app --invalidation-mode unchecked-hash /mnt
"""
