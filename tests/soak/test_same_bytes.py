"""The largest artifact of a release, built twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from release.python_packages import build_packages
from release.runner_image import runner_image
from release.sources import Sources
from upgrader.lab.build_cache import cache_root
from upgrader.lab.oci_archive import digest, native_architecture
from upgrader.lab.progress_port import Silent


def test_the_same_sources_make_the_same_runner_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every layer is equal when it is built again, with nothing cached but the tools: Helm, and Debian's Python that
    compiles."""
    sources = Sources.of_this_checkout()
    build_packages(sources, tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    first = runner_image(wheel, sources, native_architecture(), Silent())
    cache = tmp_path / "cache" / "upgrader"
    cache.mkdir(parents=True)
    for tool in ("helm", "node", "bin"):
        os.symlink(cache_root() / tool, cache / tool)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    again = runner_image(wheel, sources, native_architecture(), Silent())
    assert all(layer.is_relative_to(cache) for layer in again.layers)
    assert [digest(layer) for layer in again.layers] == [digest(layer) for layer in first.layers]
