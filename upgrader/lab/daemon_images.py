"""Images of the programs that run in a cluster, as a release has them: Debian's Python, libraries, our own packages."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from upgrader import __version__
from upgrader.built_in_files import lab_folder
from upgrader.lab.build_cache import content_hash, own_sources
from upgrader.lab.debian import unpacked_layer
from upgrader.lab.oci_archive import Image, layer_of_files, native_architecture
from upgrader.lab.progress_port import LabProgress
from upgrader.lab.python_files import compiled, installed_packages

__all__ = ["checkpointer_image", "guard_image", "requirements_of"]


def requirements_of(name: str) -> Path:
    """The Python packages in an image, with their hashes."""
    return lab_folder() / "images" / name / "requirements.txt"


def checkpointer_image(progress: LabProgress, architecture: str = "") -> Image:
    """The image, from the present sources; for this machine's architecture, or for `amd64` or `arm64`."""
    return _image(
        "pod-checkpointer",
        ("in_cluster/checkpointer", "in_cluster/shared", "contract", "onhost/node"),
        progress,
        architecture,
    )


def guard_image(progress: LabProgress, architecture: str = "") -> Image:
    """As `checkpointer_image`."""
    return _image("guard", ("in_cluster/guard", "in_cluster/shared", "contract"), progress, architecture)


def _image(name: str, packages: Sequence[str], progress: LabProgress, architecture: str) -> Image:
    """`packages`: the one that is run, then its dependencies."""
    architecture = architecture or native_architecture()
    sources = {package: own_sources(package) for package in packages}
    installed = installed_packages(requirements_of(name), architecture, progress)
    key = content_hash([], *(content_hash([source]) for source in sources.values()), installed.name)
    folders = {f"upgrader/{package}": source for package, source in sources.items()}
    folders["site-packages"] = installed
    app = compiled(f"app-{key}", folders, "/app", progress)
    return Image(
        f"upgrader.lab/{name}:{__version__}-{key}",
        (
            unpacked_layer("python", progress, architecture),
            layer_of_files(f"{name}-compiled-{key}", {"/app": app}),
        ),
        entrypoint=("python3", "-m", f"upgrader.{packages[0].replace('/', '.')}"),
        environment=("PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONPATH=/app:/app/site-packages", "PYTHONUNBUFFERED=1"),
        working_dir="/app",
        architecture=architecture,
    )
