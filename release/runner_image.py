"""The image for CI runners: `upgrader`, Helm, Ansible, ssh and git on Debian's Python, for a plain user."""

from __future__ import annotations

import configparser
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from release.sources import Sources
from upgrader import __version__
from upgrader.lab.binaries import HELM, Binaries
from upgrader.lab.build_cache import built, cache_root, content_hash
from upgrader.lab.debian import unpacked_layer
from upgrader.lab.oci_archive import Image, compressed, layer_of_files
from upgrader.lab.progress_port import LabProgress
from upgrader.lab.python_files import compiled, forget_programs, installed_packages

__all__ = ["NAME", "runner_image"]

NAME = "upgrader-runner"
_PACKAGES = "/usr/local/lib/python3.11/dist-packages"
"""Where Debian's Python finds what is not Debian's."""
_SCRIPT = """#!/usr/bin/python3
import sys
from {module} import {name}
sys.exit({name}())
"""


def runner_image(wheel: Path, sources: Sources, architecture: str, progress: LabProgress) -> Image:
    """It, for `amd64` or `arm64`, with `upgrader` from its wheel.

    It has no entrypoint, as GitLab and GitHub start a shell of their own in it.
    """
    needed = installed_packages(sources.root / "requirements.lock", architecture, progress)
    helm = Binaries(progress).helm_for(architecture)
    layers = (
        unpacked_layer("runner", progress, architecture),
        layer_of_files(f"{helm.parent.name}-{HELM}-{architecture}", {"/usr/local/bin/helm": helm / "helm"}),
        _python_layer(needed, progress),
        _python_layer(_unpacked(wheel), progress),
    )
    return Image(
        f"{NAME}:{__version__}",
        tuple(compressed(layer) for layer in layers),
        command=("upgrader", "--help"),
        environment=(
            "PATH=/usr/local/bin:/usr/bin:/bin",
            "LANG=C.UTF-8",  # Ansible wants it
            "PYTHONUNBUFFERED=1",
        ),
        working_dir="/home/upgrader",
        user="1000",
        architecture=architecture,
    )


def _unpacked(wheel: Path) -> Path:
    """A cached folder with what is in the wheel."""

    def build(target: Path) -> None:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--no-deps", "--no-index"]
        subprocess.run([*command, "--target", str(target), str(wheel)], check=True)
        forget_programs(target)

    return built(cache_root() / "images" / f"wheel-{_sha256(wheel)}", build)


def _python_layer(packages: Path, progress: LabProgress) -> Path:
    """A layer with Python packages and their programs.

    Programs are written anew. pip's notes, which name folders of this machine and which only its `uninstall` needs,
    are left out.
    """
    key = content_hash([Path(__file__)], packages.name)

    def build(target: Path) -> None:
        shutil.copytree(packages, target / "packages", ignore=shutil.ignore_patterns("RECORD", "direct_url.json"))
        (target / "bin").mkdir()
        for file in sorted(packages.glob("*.dist-info/entry_points.txt")):
            declared = configparser.ConfigParser(delimiters=("=",))
            declared.read_string(file.read_text())
            for program, where in declared.items("console_scripts") if "console_scripts" in declared else ():
                module, _, name = where.partition(":")
                (target / "bin" / program).write_text(_SCRIPT.format(module=module, name=name))
                (target / "bin" / program).chmod(0o755)

    plain = built(cache_root() / "images" / f"runner-files-{key}", build)
    sources = compiled(f"runner-compiled-{key}", {".": plain / "packages"}, _PACKAGES, progress)
    programs = {f"/usr/local/bin/{path.name}": path for path in (plain / "bin").iterdir()}
    return layer_of_files(f"runner-layer-{key}", {_PACKAGES: sources, **programs})


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()[:12]
