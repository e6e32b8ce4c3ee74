"""A lab of a mirror's release: what this machine has built, published and signed as upstream does that."""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from testkit.certificates import Authority
from testkit.command import Ended, upgrader
from testkit.lab_cluster import OLD, LabCluster, until
from testkit.mirror import MirrorFiles, Signing, served, signature_image
from testkit.ports import free_port
from upgrader.lab.built_here import BuiltHere
from upgrader.lab.debian import package_files
from upgrader.lab.existing_labs import find
from upgrader.lab.oci_archive import Image, compressed, digest_of, documents, native_architecture
from upgrader.lab.private_registry import publish
from upgrader.lab.progress_port import Silent

_SYSTEMS_CAS = Path("/etc/ssl/certs/ca-certificates.crt")


@dataclass(frozen=True)
class Published:
    """A mirror with TLS, its registry with TLS, the options that name them, and an environment with an empty cache."""

    files: MirrorFiles
    options: tuple[str, ...]
    environment: dict[str, str]
    cache: Path
    digests: tuple[str, ...]
    """Of the images."""


@pytest.fixture
def published(tmp_path: Path) -> Iterator[Published]:
    """Programs by a web server, images by Debian's registry, with the certificates of one private CA."""
    authority = Authority(tmp_path / "ca")
    authority.issue(tmp_path / "server", "mirror")
    (tmp_path / "trusted.pem").write_bytes(_SYSTEMS_CAS.read_bytes() + (tmp_path / "ca.pem").read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    mirror = MirrorFiles(Signing())
    (tmp_path / "roots.pem").write_bytes(mirror.signing.roots)
    for name, file in BuiltHere(Silent()).programs(OLD).files.items():
        mirror.add_program(OLD, native_architecture(), name, file)
    images = _images()
    with served(mirror.files, context) as server, _registry(tmp_path, images, mirror.signing) as registry:
        options = ("--mirror", server.url, "--mirror-registry", registry, "--mirror-roots", str(tmp_path / "roots.pem"))
        environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "SSL_CERT_FILE": str(tmp_path / "trusted.pem")}
        digests = tuple(digest_of(documents(image)[1]) for image in images)
        yield Published(mirror, options, environment, tmp_path / "cache/upgrader", digests)


def _programs(version: str) -> str:
    """The path below which a mirror has a version's."""
    return f"/release/{version}/bin/linux/{native_architecture()}"


def _images() -> list[Image]:
    """Those of the version, under a path of the registry, compressed as registries have them."""
    return [
        replace(
            image,
            name=image.name.replace("registry.k8s.io/", "registry.k8s.io/k8s/"),
            layers=tuple(compressed(layer) for layer in image.layers),
        )
        for image in BuiltHere(Silent()).images()
        if image.name.endswith(f":{OLD}") or "/kube-" not in image.name
    ]


@contextmanager
def _registry(folder: Path, images: Sequence[Image], signing: Signing) -> Iterator[str]:
    """The URL below which Debian's registry has the images and their signatures, while the context is open."""
    disk, port = folder / "registry", free_port()
    (folder / "signatures").mkdir()
    publish([*images, *(signature_image(image, signing, folder / "signatures") for image in images)], disk)
    config = {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(disk / "containerd")}},
        "http": {
            "addr": f"127.0.0.1:{port}",
            "tls": {"certificate": str(folder / "server.pem"), "key": str(folder / "server.key")},
        },
    }
    (folder / "registry.yml").write_text(yaml.safe_dump(config))
    program = package_files("docker-registry", ["usr/bin/docker-registry"], Silent()) / "usr/bin/docker-registry"
    command = [str(program), "serve", str(folder / "registry.yml")]
    with (folder / "registry.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            until("the registry to answer", lambda: _answers(port), timeout_seconds=60)
            yield f"https://127.0.0.1:{port}/k8s"
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def cluster(published: Published, tmp_path: Path) -> Iterator[LabCluster]:
    """Names a lab, which doesn't exist yet; removed at the end."""
    cluster = LabCluster(f"e2e-mirror-{os.getpid()}", tmp_path, tmp_path / "kept")
    try:
        yield cluster
    finally:
        upgrader("-C", cluster.home, "lab", "down", "--force", "--name", cluster.name)


def _up(published: Published, cluster: LabCluster) -> Ended:
    up = ["lab", "up", "--name", cluster.name, "--kubernetes", OLD, *published.options]
    return upgrader("-C", cluster.home, *up, environment=published.environment, timeout_seconds=1800)


def test_lab_from_a_mirror(
    published: Published, cluster: LabCluster, record_property: Callable[[str, object], None]
) -> None:
    """With an empty cache, nothing of Kubernetes is built: its nodes run the mirror's programs and images, and the
    cluster is adopted as any other."""
    made = _up(published, cluster)
    assert made.exit_code == 0, made
    record_property("seconds of `lab up --mirror` with an empty cache", round(made.seconds))
    built = {"kubernetes", "etcd", "coredns", "pause", "go"} & {folder.name for folder in published.cache.iterdir()}
    assert not built
    for name in ("kubelet", "kubeadm", "kubectl"):
        expected = published.files.files[f"{_programs(OLD)}/{name}.sha256"]
        assert cluster.on_controller("sha256sum", f"/usr/bin/{name}").split()[0].encode() == expected
    listed = cluster.on_controller("ctr", "-n", "k8s.io", "images", "ls")
    assert published.digests and all(digest in listed for digest in published.digests)

    adopted = cluster.upgrader("adopt", "--yes")
    assert adopted.exit_code == 0, adopted
    cluster.wait_healthy(OLD)
    assert cluster.versions() == dict.fromkeys(cluster.versions(), OLD)


def test_mirror_with_another_kubelet(published: Published, cluster: LabCluster) -> None:
    """It is refused by name, nothing of it is kept, and there is no lab; nor is it built in the mirror's place."""
    path = f"{_programs(OLD)}/kubelet"
    published.files.files[path] = b"#!/bin/sh\nexit 0\n"
    refused = _up(published, cluster)
    assert refused.exit_code == 2, refused
    assert "the mirror is refused" in refused.stderr and f"{path} has the SHA-256" in refused.stderr, refused
    assert find(cluster.name) is None
    assert not list((published.cache / "mirror/programs").glob("v*"))
    assert hashlib.sha256(b"#!/bin/sh\nexit 0\n").hexdigest() not in {
        file.name for file in (published.cache / "mirror/sha256").iterdir()
    }
    assert not (published.cache / "kubernetes").exists()
