"""A release, built twice: its largest artifact, and all of it by the workflow's own commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from release.python_packages import build_packages
from release.runner_image import runner_image
from release.sources import Sources
from testkit.command import REPOSITORY
from upgrader.lab.build_cache import cache_root
from upgrader.lab.oci_archive import digest, native_architecture
from upgrader.lab.progress_port import Silent

_JOBS = yaml.safe_load((REPOSITORY / ".github/workflows/release.yml").read_text())["jobs"]
_TOOLS = ("helm", "node", "bin")
"""What a cache may have: Helm, and Debian's Python that compiles."""


def test_the_same_sources_make_the_same_runner_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer is equal when it is built again, with nothing cached but the tools."""
    sources = Sources.of_this_checkout()
    build_packages(sources, tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    first = runner_image(wheel, sources, native_architecture(), Silent())
    cache = _cache_of_tools(tmp_path / "cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    again = runner_image(wheel, sources, native_architecture(), Silent())
    assert all(layer.is_relative_to(cache) for layer in again.layers)
    assert [digest(layer) for layer in again.layers] == [digest(layer) for layer in first.layers]


def test_a_release_is_the_same_in_any_folder(tmp_path: Path) -> None:
    """The workflow's build in two folders, the second with nothing cached but the tools, with another time zone and
    with files that nobody else may read; then its comparison: wheels, charts, images with their lists, and guard's
    agent for HAProxy are equal, file by file."""
    (build,) = (step["run"] for step in _JOBS["build"]["steps"] if step.get("name") == "Build")
    (compare,) = (step["run"] for step in _JOBS["compare"]["steps"] if "run" in step)
    _cache_of_tools(tmp_path / "cache")
    others = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "TZ": "Asia/Tokyo"}
    _build(build, tmp_path / "one", {}, umask=0o022)
    _build(build, tmp_path / "another", others, umask=0o077)
    for folder in ("one", "another"):
        (tmp_path / folder / "dist").rename(tmp_path / f"dist-{folder}")
    command = ["bash", "-eo", "pipefail", "-c", compare]
    compared = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert compared.returncode == 0, compared.stdout
    names = [line.split("  ")[1] for line in (tmp_path / "dist-one/SHA256SUMS").read_text().splitlines()]
    for part in ("charts/guard-", "haproxy-agent/", "images/guard-", "images/upgrader-runner-", "upgrader-", "wheels/"):
        assert [name for name in names if name.startswith(part)], part


def _cache_of_tools(folder: Path) -> Path:
    """A cache with nothing else."""
    cache = folder / "upgrader"
    cache.mkdir(parents=True)
    for tool in _TOOLS:
        os.symlink(cache_root() / tool, cache / tool)
    return cache


def _build(script: str, folder: Path, environment: dict[str, str], umask: int) -> None:
    """Run it in a new clone of what is committed, with a copy of this environment: that has other paths."""
    clone = ["git", "clone", "--quiet", str(REPOSITORY), str(folder)]
    subprocess.run(clone, umask=umask, check=True)
    shutil.copytree(sys.prefix, folder / ".venv", symlinks=True)
    (folder / ".venv/bin/.installed").touch()  # later than the lock of the clone
    own = {"REGISTRY": "ghcr.io/Example/Upgrader", "GIT_CONFIG_GLOBAL": str(folder.parent / "gitconfig")}
    done = subprocess.run(
        ["nice", "-n", "19", "bash", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": "", **own, **environment},
        umask=umask,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
