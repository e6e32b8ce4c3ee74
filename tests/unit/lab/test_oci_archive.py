"""Images are written without a builder, and layers are shared."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from upgrader.lab.oci_archive import Image, digest, documents, layer_of_files, layer_of_links, write_archive


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _layer(tmp_path: Path, name: str) -> Path:
    (tmp_path / name).write_text(name)
    return layer_of_files(f"layer-{name}", {f"/opt/bin/{name}": tmp_path / name})


def test_an_archive_is_a_valid_oci_layout_with_shared_layers_once(tmp_path: Path) -> None:
    """Every blob has the digest that it is named by, and two images on one layer have it once."""
    base, top = _layer(tmp_path, "base"), _layer(tmp_path, "top")
    write_archive([Image("example/a:1", (base,)), Image("example/b:1", (base, top))], tmp_path / "out.tar")
    with tarfile.open(tmp_path / "out.tar") as archive:
        names = archive.getnames()
        assert len(names) == len(set(names))
        blobs = {name: archive.extractfile(name).read() for name in names}  # type: ignore[union-attr]
    for name, content in blobs.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
    index = json.loads(blobs["index.json"])
    assert [m["annotations"]["io.containerd.image.name"] for m in index["manifests"]] == ["example/a:1", "example/b:1"]
    manifest = json.loads(blobs["blobs/sha256/" + index["manifests"][1]["digest"].removeprefix("sha256:")])
    assert [layer["digest"] for layer in manifest["layers"]] == [digest(base), digest(top)]
    config = json.loads(blobs["blobs/sha256/" + manifest["config"]["digest"].removeprefix("sha256:")])
    assert config["rootfs"]["diff_ids"] == [digest(base), digest(top)]


def test_layers_that_the_other_side_has_are_only_referred_to(tmp_path: Path) -> None:
    """`without` leaves the bytes of a layer out, not its digest."""
    base, top = _layer(tmp_path, "base"), _layer(tmp_path, "top")
    write_archive([Image("example/b:1", (base, top))], tmp_path / "out.tar", without=[base])
    with tarfile.open(tmp_path / "out.tar") as archive:
        names = archive.getnames()
    assert f"blobs/sha256/{digest(base).removeprefix('sha256:')}" not in names
    assert f"blobs/sha256/{digest(top).removeprefix('sha256:')}" in names


def test_the_same_files_make_the_same_layer(tmp_path: Path) -> None:
    """Owners and times do not get into a layer, so that its digest is that of its content."""
    (tmp_path / "one").write_text("same")
    first = digest(layer_of_files("first", {"/file": tmp_path / "one"}))
    (tmp_path / "one").unlink()
    (tmp_path / "one").write_text("same")
    assert digest(layer_of_files("second", {"/file": tmp_path / "one"})) == first


def test_a_component_is_a_link_to_the_common_program(tmp_path: Path) -> None:
    """Link layers hold the link and its folders, nothing else."""
    with tarfile.open(layer_of_links({"/usr/local/bin/kube-proxy": "kubernetes"})) as archive:
        entries = {entry.name: entry for entry in archive}
    assert entries["usr/local/bin/kube-proxy"].linkname == "kubernetes"
    assert [name for name, entry in entries.items() if entry.isdir()] == ["usr", "usr/local", "usr/local/bin"]


def test_a_command_is_what_arguments_replace(tmp_path: Path) -> None:
    """As in upstream's images: `args` of a container come after the entrypoint, in place of the command."""
    image = Image("example/a:1", (_layer(tmp_path, "base"),), ("/agnhost",), ("pause",))
    config = json.loads(documents(image)[0])["config"]
    assert (config["Entrypoint"], config["Cmd"]) == (["/agnhost"], ["pause"])
    assert "Cmd" not in json.loads(documents(Image("example/a:1", image.layers, ("/agnhost",)))[0])["config"]


def test_a_stop_signal_is_the_images(tmp_path: Path) -> None:
    """A runtime ends a container by the signal that its image names, and by SIGTERM where it names none."""
    layer = _layer(tmp_path, "base")
    config = json.loads(documents(Image("example/a:1", (layer,), stop_signal="SIGUSR1"))[0])["config"]
    assert config["StopSignal"] == "SIGUSR1"
    assert "StopSignal" not in json.loads(documents(Image("example/a:1", (layer,)))[0])["config"]
