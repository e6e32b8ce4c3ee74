"""`upgrader bundle`: from a cluster folder to one file, and back."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.unit.steps.images.bundle.archives import docker_archive
from upgrader.cli.main import cli
from upgrader.errors import UsageError
from upgrader.model.version import KubernetesVersion
from upgrader.steps.images.bundle.reading import open_bundle
from upgrader.steps.images.bundle.writing import write_bundle

SKOPEO = """#!/bin/sh
# Copies into an OCI layout, as `skopeo copy docker://… oci:…` does.
echo "$@" >> "{folder}/asked"
[ "$1" = inspect ] && exec cat "{folder}/index"
case "$4" in *none*) echo "manifest unknown" >&2; exit 1;; esac
folder=${{5#oci:}}
mkdir -p "$folder/blobs/sha256"
echo '{{"imageLayoutVersion": "1.0.0"}}' > "$folder/oci-layout"
echo layer > "$folder/blobs/sha256/a"
echo '{{"manifests": [{{"digest": "sha256:a"}}]}}' > "$folder/index.json"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A cluster folder with a release of two images."""
    at = tmp_path / "cluster"
    (at / "web/templates").mkdir(parents=True)
    (at / "web/Chart.yaml").write_text("{apiVersion: v2, name: web, version: 1.0.0}\n")
    (at / "web/templates/pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: "
        "[{name: a, image: 'nginx:1'}, {name: b, image: {{ .Values.tool }}}]}}\n"
    )
    (at / "web/values.yaml").write_text("tool: r.io/tool:2\n")
    (at / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\npipeline: [{release: web, chart: web}]\n")
    return at


@pytest.fixture
def skopeo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What it was asked for."""
    program = tmp_path / "bin/skopeo"
    program.parent.mkdir()
    program.write_text(SKOPEO.format(folder=tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return tmp_path / "asked"


def bundle(*arguments: str | Path) -> Result:
    """The command's result."""
    return CliRunner().invoke(cli, list(map(str, arguments)))


def test_images_come_from_archives_and_registries(folder: Path, skopeo: Path, tmp_path: Path) -> None:
    """What an archive has is not asked for again; containerd imports each under its full name; `verify` agrees."""
    archives = tmp_path / "archives"
    archives.mkdir()
    docker_archive(archives / "nginx.tar", "nginx:1")
    made = bundle("-C", folder, "bundle", "create", "-o", tmp_path / "b.tar", "--archives", archives)
    assert made.exit_code == 0, made
    assert [line.split()[3] for line in skopeo.read_text().splitlines()] == ["docker://r.io/tool:2"]
    with open_bundle(tmp_path / "b.tar") as found:
        assert [item.names for item in found.index.images] == [("docker.io/library/nginx:1",), ("r.io/tool:2",)]
        files = {item.file for item in found.index.charts}
    assert {"charts/web/Chart.yaml", "charts/web/templates/pod.yaml"} <= files
    shown = bundle("bundle", "verify", tmp_path / "b.tar")
    assert shown.exit_code == 0 and shown.output == made.output
    assert "r.io/tool:2" in shown.output and "all checksums match" in shown.output


def test_image_by_the_digest_of_its_index(folder: Path, skopeo: Path, tmp_path: Path) -> None:
    """skopeo copies one architecture's image, which has another digest: the index that proves it comes along."""
    index = json.dumps({"manifests": [{"digest": "sha256:a"}]}).encode()
    (tmp_path / "index").write_bytes(index)
    name = f"r.io/tool@sha256:{hashlib.sha256(index).hexdigest()}"
    (folder / "values").mkdir()
    (folder / "values/web.yaml").write_text(json.dumps({"tool": name}))
    made = bundle("-C", folder, "bundle", "create", "-o", tmp_path / "b.tar")
    assert made.exit_code == 0 and name in made.output, made
    (tmp_path / "index").write_bytes(index + b" ")
    failed = bundle("-C", folder, "bundle", "create", "-o", tmp_path / "c.tar")
    assert isinstance(failed.exception, UsageError) and "a different digest" in failed.exception.message


def test_what_a_bundle_says_controls_no_terminal(tmp_path: Path) -> None:
    """Whoever made it chose the names in it, and it is verified because nobody knows yet who that was."""
    evil = docker_archive(tmp_path / "evil.tar", "r.io/x\x1b]0;owned\x07\n::add-mask::e:1")
    write_bundle(tmp_path / "b.tar", KubernetesVersion(1, 37, 1), [evil], {})
    shown = bundle("bundle", "verify", tmp_path / "b.tar")
    assert shown.exit_code == 0 and "all checksums match" in shown.output
    assert "r.io/x" in shown.output and "\x1b" not in shown.output and "\x07" not in shown.output
    assert not any(line.startswith("::") for line in shown.output.splitlines())


def test_version_is_the_command_lines(folder: Path, skopeo: Path, tmp_path: Path) -> None:
    """`--to`, as for `plan` and `run`."""
    made = bundle("-C", folder, "bundle", "create", "-o", tmp_path / "b.tar", "--to", "v1.37.2")
    assert made.output.startswith("Kubernetes v1.37.2"), made


def test_image_that_no_registry_has(folder: Path, skopeo: Path, tmp_path: Path) -> None:
    """The registry's own words, and no file."""
    (folder / "values").mkdir()
    (folder / "values/web.yaml").write_text(json.dumps({"tool": "r.io/none:1"}))
    failed = bundle("-C", folder, "bundle", "create", "-o", tmp_path / "b.tar")
    assert isinstance(failed.exception, UsageError)
    assert "could not copy r.io/none:1: manifest unknown" in failed.exception.message
    assert not (tmp_path / "b.tar").exists()


def test_without_skopeo(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to install, or to give."""
    monkeypatch.setattr("upgrader.adapters.skopeo.shutil.which", lambda program: None)
    failed = bundle("-C", folder, "bundle", "create", "-o", tmp_path / "b.tar")
    assert isinstance(failed.exception, UsageError)
    assert "docker.io/library/nginx:1" in failed.exception.message
    assert "--archives" in failed.exception.remedy


def test_damaged_bundle(folder: Path, skopeo: Path, tmp_path: Path) -> None:
    """Exit code 2 with file, line and name; `run` says the same before it connects to anything."""
    path = tmp_path / "b.tar"
    bundle("-C", folder, "bundle", "create", "-o", path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"layer\n", b"Layer\n", 1))
    failed = bundle("bundle", "verify", path)
    assert isinstance(failed.exception, UsageError)
    assert failed.exception.exit_code == 2
    assert "b.tar: SHA256SUMS:2: images/nginx_1.tar: its SHA-256 is" in failed.exception.message
