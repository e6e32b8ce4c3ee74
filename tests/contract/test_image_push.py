"""`upgrader images push`, with the real skopeo, the real Helm and a real registry that wants a login."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import socket
import subprocess
import tarfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import bcrypt
import pytest
import yaml

from release.charts import pack_charts
from release.sources import Sources
from testkit.command import upgrader
from testkit.lab_cluster import until
from testkit.ports import free_port
from testkit.waiting import stretched
from upgrader import __version__
from upgrader.adapters.helm import find_helm
from upgrader.lab import oci_archive
from upgrader.lab.oci_archive import Image, write_platforms
from upgrader.lab.private_registry import registry_program
from upgrader.lab.progress_port import Silent

LOGIN = base64.b64encode(b"me:s3cret").decode()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """HOST:PORT of Debian's registry, on this machine."""
    host = f"127.0.0.1:{free_port()}"
    hashed = bcrypt.hashpw(b"s3cret", bcrypt.gensalt(rounds=4)).decode()
    (tmp_path / "htpasswd").write_text(f"me:{hashed}\n")
    config = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(tmp_path / "registry")}},
        "http": {"addr": host},
        "auth": {"htpasswd": {"realm": "test", "path": str(tmp_path / "htpasswd")}},
    }
    (tmp_path / "registry.yml").write_text(yaml.safe_dump(config))
    command = [str(registry_program(Silent()) / "usr/bin/docker-registry"), "serve", str(tmp_path / "registry.yml")]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until("the registry to answer", lambda: _answers(host), timeout_seconds=120, interval_seconds=0.1)
            yield host
        finally:
            process.terminate()


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A cluster folder."""
    folder = tmp_path / "cluster"
    (folder / "values").mkdir(parents=True)
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n")
    (folder / "values/pod-checkpointer.yaml").write_text("# ours\nimage:\n  repository: old  # moved\nkeep: 4\n")
    return folder


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """A release that has only an image for two architectures, and the digest of that."""
    monkeypatch.setattr(oci_archive, "built", lambda path, build: build(path) or path)
    images = []
    for architecture in ("amd64", "arm64"):
        layer = tmp_path / f"{architecture}.layer"
        with tarfile.open(layer, "w") as archive:
            entry = tarfile.TarInfo(architecture)
            entry.size = 3
            archive.addfile(entry, io.BytesIO(b"abc"))
        images.append(Image(f"pod-checkpointer:{__version__}", (layer,), architecture=architecture))
    (tmp_path / "dist/images").mkdir(parents=True)
    digest = write_platforms(images, tmp_path / f"dist/images/pod-checkpointer-{__version__}.tar")
    return tmp_path / "dist", digest


def test_image_is_pushed_and_named(
    registry: str, cluster: Path, built: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused without a login, with nothing changed; with it, the registry has both architectures under the digest that
    the build made, and the values file names them, with its comments."""
    folder, digest = built
    values = cluster / "values/pod-checkpointer.yaml"
    before = values.read_text()
    push = ("-C", cluster, "images", "push", f"{registry}/mine", "--from", folder)
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(tmp_path / "login.json"))
    environment = {"REGISTRY_AUTH_FILE": os.environ["REGISTRY_AUTH_FILE"]}
    refused = upgrader(*push, environment=environment)
    assert refused.exit_code == 2 and "skopeo login" in refused.stderr, refused
    assert values.read_text() == before

    (tmp_path / "login.json").write_text(json.dumps({"auths": {registry: {"auth": LOGIN}}}))
    ended = upgrader(*push, environment=environment)
    assert ended.exit_code == 0, ended
    assert ended.stdout.splitlines() == [f"{registry}/mine/pod-checkpointer@{digest}"]
    assert yaml.safe_load(values.read_text()) == {
        "image": {"repository": f"{registry}/mine/pod-checkpointer", "digest": digest},
        "keep": 4,
    }
    assert "# ours" in values.read_text() and "# moved" in values.read_text()

    request = urllib.request.Request(
        f"http://{registry}/v2/mine/pod-checkpointer/manifests/{__version__}",
        headers={"Authorization": f"Basic {LOGIN}", "Accept": "application/vnd.oci.image.index.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=stretched(10)) as answer:
        assert answer.headers["Docker-Content-Digest"] == digest
        pushed = json.load(answer)
    assert [item["platform"]["architecture"] for item in pushed["manifests"]] == ["amd64", "arm64"]

    again = upgrader(*push, environment=environment)
    assert again.exit_code == 0 and again.stdout == ended.stdout, again


def test_charts_are_pulled_by_helm(registry: str, cluster: Path, built: tuple[Path, str], tmp_path: Path) -> None:
    """Helm pulls each chart by its version and by the digest that was printed, and gets the bytes of the release's
    archive; packed and pushed again, the digests are the same."""
    (tmp_path / "login.json").write_text(json.dumps({"auths": {registry: {"auth": LOGIN}}}))
    login = {"REGISTRY_AUTH_FILE": str(tmp_path / "login.json"), "HELM_REGISTRY_CONFIG": str(tmp_path / "login.json")}
    folder, _ = built
    printed = []
    for _ in range(2):
        shutil.rmtree(folder / "charts", ignore_errors=True)
        pack_charts(Sources.of_this_checkout(), folder / "charts")
        ended = upgrader("-C", cluster, "images", "push", f"{registry}/mine", "--from", folder, environment=login)
        assert ended.exit_code == 0, ended
        printed.append(ended.stdout.splitlines())
    assert printed[0] == printed[1]

    charts = [line for line in printed[0] if "/charts/" in line]
    assert [line.partition("@")[0].rpartition("/")[2] for line in charts] == [
        "fleet",
        "guard",
        "kube-apiserver",
        "kubernetes",
        "pod-checkpointer",
    ]
    for reference in charts:
        repository = reference.partition("@")[0]
        expected = folder / "charts" / f"{repository.rpartition('/')[2]}-{__version__}.tgz"
        for words in ((f"oci://{repository}", "--version", __version__), (f"oci://{reference}",)):
            target = tmp_path / f"pulled-{len(list(tmp_path.glob('pulled-*')))}"
            pull = [str(find_helm()), "pull", *words, "--plain-http", "--destination", str(target)]
            target.mkdir()
            subprocess.run(pull, env={**os.environ, **login}, check=True, capture_output=True)
            (pulled,) = target.iterdir()
            assert pulled.read_bytes() == expected.read_bytes()


def _answers(host: str) -> bool:
    name, _, port = host.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((name, int(port))) == 0
