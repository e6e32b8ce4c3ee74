"""The wheel with all that `upgrader` brings, its sources, and a folder of wheels to install from without a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from release.sources import Sources

__all__ = ["build_packages", "download_dependencies"]


def build_packages(sources: Sources, folder: Path) -> None:
    """`upgrader-VERSION-py3-none-any.whl` and `upgrader-VERSION.tar.gz`.

    hatchling is in the lock file: nothing is fetched, and every entry has the same time.
    """
    environment = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    command = [sources.tool("hatchling"), "build", "-t", "sdist", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=sources.root, env=environment, stdout=subprocess.DEVNULL, check=True)


def download_dependencies(sources: Sources, folder: Path) -> None:
    """The locked packages, each with its checked hash, for the Python that runs this."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--require-hashes"]
    lock = str(sources.root / "requirements.lock")
    subprocess.run([*command, "--only-binary=:all:", "-d", str(folder), "-r", lock], check=True)
