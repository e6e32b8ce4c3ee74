"""The pod-checkpointer's image, as a release has it: Debian's Python, the libraries, and three packages of ours."""

from __future__ import annotations

from pathlib import Path

from upgrader import __version__
from upgrader.lab.build_cache import content_hash, definitions
from upgrader.lab.debian import unpacked_layer
from upgrader.lab.oci_archive import Image, layer_of_files, native_architecture
from upgrader.lab.progress_port import LabProgress
from upgrader.lab.python_files import compiled, installed_packages

__all__ = ["checkpointer_image", "requirements_of_the_checkpointer"]


def requirements_of_the_checkpointer() -> Path:
    """The Python packages in it, with their hashes."""
    return definitions() / "images" / "pod-checkpointer" / "requirements.txt"


def checkpointer_image(progress: LabProgress, architecture: str = "") -> Image:
    """It, from the sources as they are now; for this machine's architecture, or for `amd64` or `arm64`."""
    architecture = architecture or native_architecture()
    sources = {name: Path(__file__).resolve().parents[1] / name for name in ("checkpointer", "daemons", "node")}
    key = content_hash(
        [requirements_of_the_checkpointer()], *(content_hash([source]) for source in sources.values()), architecture
    )
    folders = {f"upgrader/{name}": source for name, source in sources.items()}
    folders["site-packages"] = installed_packages(requirements_of_the_checkpointer(), architecture, progress)
    app = compiled(f"app-{key}", folders, "/app", progress)
    return Image(
        f"upgrader.lab/pod-checkpointer:{__version__}-{key}",
        (
            unpacked_layer("python", progress, architecture),
            layer_of_files(f"pod-checkpointer-compiled-{key}", {"/app": app}),
        ),
        entrypoint=("python3", "-m", "upgrader.checkpointer"),
        environment=("PATH=/usr/local/bin:/usr/bin:/bin", "PYTHONPATH=/app:/app/site-packages", "PYTHONUNBUFFERED=1"),
        working_dir="/app",
        architecture=architecture,
    )
