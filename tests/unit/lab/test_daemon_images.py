"""What goes into the images of the pod-checkpointer and of guard."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import upgrader
from upgrader.lab import daemon_images as module
from upgrader.lab.progress_port import Silent


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sources in a folder of their own; nothing is built, what would be is written down."""
    for name in ("contract", "in_cluster", "onhost", "recover"):
        shutil.copytree(Path(upgrader.__file__).parent / name, tmp_path / "upgrader" / name)
    monkeypatch.setattr(module, "own_sources", lambda package: tmp_path / "upgrader" / package)
    monkeypatch.setattr(module, "unpacked_layer", lambda name, progress, architecture: Path(f"{name}-{architecture}"))
    monkeypatch.setattr(module, "installed_packages", lambda requirements, architecture, progress: Path("wheels"))
    monkeypatch.setattr(module, "layer_of_files", lambda key, files: Path(key))
    monkeypatch.setattr(module, "compiled", lambda key, folders, inside, progress: Path(*sorted(folders)))
    return tmp_path / "upgrader"


@pytest.mark.parametrize(
    ("changed", "rebuilt"),
    [
        ("in_cluster/checkpointer/loop.py", True),
        ("onhost/node/generation_choice.py", True),
        ("in_cluster/shared/json_logs.py", True),
        ("recover/pipeline.py", False),
        ("in_cluster/guard/guard_errors.py", False),
    ],
)
def test_the_image_is_built_again_when_what_is_in_it_changes(sources: Path, changed: str, rebuilt: bool) -> None:
    """Its tag and its layer's key follow the sources of the checkpointer and of what it stands on, and no others."""
    before = module.checkpointer_image(Silent())
    (sources / changed).write_text("")
    after = module.checkpointer_image(Silent())
    assert (before.name != after.name) is rebuilt
    assert (before.layers != after.layers) is rebuilt


def test_the_image_is_built_again_when_its_libraries_change(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when only the way changes in which they are put into it."""
    before = module.checkpointer_image(Silent())
    monkeypatch.setattr(module, "installed_packages", lambda requirements, architecture, progress: Path("other-wheels"))
    assert module.checkpointer_image(Silent()).layers != before.layers


def test_the_image_holds_three_packages_of_ours(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpointer, what daemons share and the node library, beside the libraries of its requirements."""
    monkeypatch.setattr(module, "layer_of_files", lambda key, files: files["/app"])
    held = "upgrader/contract/upgrader/in_cluster/checkpointer/upgrader/in_cluster/shared/upgrader/onhost/node"
    assert module.checkpointer_image(Silent()).layers[1] == Path(f"site-packages/{held}")


def test_the_image_of_guard_holds_two_packages_of_ours(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """guard and what daemons share; it is built again when one of them changes, and started by its own name."""
    before = module.guard_image(Silent(), "arm64")
    assert before.entrypoint == ("python3", "-m", "upgrader.in_cluster.guard") and before.layers[0] == Path(
        "python-arm64"
    )
    (sources / "in_cluster/guard" / "guard_errors.py").write_text("")
    assert module.guard_image(Silent(), "arm64").name != before.name
    monkeypatch.setattr(module, "layer_of_files", lambda key, files: files["/app"])
    assert module.guard_image(Silent()).layers[1] == Path(
        "site-packages/upgrader/contract/upgrader/in_cluster/guard/upgrader/in_cluster/shared"
    )


@pytest.mark.parametrize("name", ["guard", "pod-checkpointer"])
def test_each_image_names_its_libraries(name: str) -> None:
    """By a file with their hashes."""
    assert "--hash=sha256:" in module.requirements_of(name).read_text()
