"""What a fleet needs of a release, made from this checkout for this machine's architecture."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from release.charts import pack_charts
from release.python_packages import build_packages, download_dependencies
from release.runner_image import NAME, runner_image
from release.sources import Sources
from upgrader import __version__
from upgrader.adapters.helm import find_helm
from upgrader.lab.oci_archive import native_architecture, write_platforms
from upgrader.lab.progress_port import Silent

__all__ = ["FleetRelease", "fleet_release"]


@dataclass(frozen=True)
class FleetRelease:
    """One wheel, installed in an environment of its own and in the runner's image; and the chart `fleet`."""

    program: Path
    """`upgrader` of that environment."""
    chart: Path
    image: Path
    """The OCI archive."""
    name: str
    """The image's name in it."""
    digest: str


def fleet_release(folder: Path) -> FleetRelease:
    """Make it in the empty `folder`; needs root, for Debian's packages."""
    sources, environment = Sources.of_this_checkout(), folder / "environment"
    build_packages(sources, folder)
    download_dependencies(sources, folder / "wheels")
    pack_charts(sources, folder / "charts")
    (wheel,) = folder.glob("*.whl")
    image = runner_image(wheel, sources, native_architecture(), Silent())
    archive = folder / "image.tar"
    digest = write_platforms([image], archive)
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    pip = [str(environment / "bin/pip"), "install", "--quiet", "--no-index", f"--find-links={folder / 'wheels'}"]
    subprocess.run([*pip, str(wheel)], check=True)
    (environment / "bin/helm").symlink_to(find_helm().resolve())
    chart = folder / f"charts/fleet-{__version__}.tgz"
    return FleetRelease(environment / "bin/upgrader", chart, archive, f"{NAME}:{__version__}", digest)
