"""A lab of Kubernetes' own release, from its hosts and from a mirror: what this machine has built, published and signed
as upstream does that.
"""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import yaml

from testkit.command import REPOSITORY, Ended, upgrader
from testkit.lab_cluster import OLD, LabCluster, until
from testkit.mirror import MirrorFiles, Signing, served, signature_image
from testkit.ports import free_port
from testkit.release_hosts import release_hosts, release_tls
from testkit.waiting import stretched
from upgrader.lab.built_here import BuiltHere
from upgrader.lab.debian import package_files
from upgrader.lab.existing_labs import find
from upgrader.lab.oci_archive import Image, compressed, digest_of, documents, native_architecture
from upgrader.lab.private_registry import publish
from upgrader.lab.progress_port import Silent

_SYSTEMS_CAS = Path("/etc/ssl/certs/ca-certificates.crt")


@dataclass(frozen=True)
class Published:
    """A server with TLS for files, and a registry with TLS for images, whose folder is `k8s`; an environment in which
    their CA is trusted, and the cache is empty.
    """

    files: MirrorFiles
    server: str
    registry: str
    tls: ssl.SSLContext
    environment: dict[str, str]
    roots: Path
    """The CA of the signers."""
    cache: Path
    digests: tuple[str, ...]
    """Of the images."""

    @property
    def as_mirror(self) -> tuple[str, ...]:
        """The options of `lab up` that name it as a mirror."""
        mirror = ("--mirror", self.server, "--mirror-registry", f"{self.registry}/k8s")
        return (*mirror, "--mirror-roots", str(self.roots))


@pytest.fixture
def published(tmp_path: Path) -> Iterator[Published]:
    """Programs by a web server, images by Debian's registry, with the certificates of one private CA."""
    tls = release_tls(tmp_path)
    (tmp_path / "trusted.pem").write_bytes(_SYSTEMS_CAS.read_bytes() + (tmp_path / "ca.pem").read_bytes())
    mirror = MirrorFiles(Signing())
    roots = tmp_path / "roots.pem"
    roots.write_bytes(mirror.signing.roots)
    for name, file in BuiltHere(Silent()).programs(OLD).files.items():
        mirror.add_program(OLD, native_architecture(), name, file)
    images = _images()
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "SSL_CERT_FILE": str(tmp_path / "trusted.pem")}
    digests = tuple(digest_of(documents(image)[1]) for image in images)
    with served(mirror.files, tls) as server, _registry(tmp_path, images, mirror.signing) as registry:
        yield Published(mirror, server.url, registry, tls, environment, roots, tmp_path / "cache/upgrader", digests)


@pytest.fixture
def by_name(published: Published) -> Iterator[dict[str, str]]:
    """The environment in which dl.k8s.io and registry.k8s.io redirect there; PyPI and Debian are reached as always."""
    files, images = (int(url.rpartition(":")[2]) for url in (published.server, published.registry))
    with release_hosts(published.tls, files, images, folder="k8s/", passes=True) as proxy:
        trusted = dict.fromkeys(("PIP_CERT", "REQUESTS_CA_BUNDLE"), published.environment["SSL_CERT_FILE"])
        yield {**published.environment, **trusted, "HTTPS_PROXY": proxy.url}


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
    """The URL at which Debian's registry has the images and their signatures, while the context is open."""
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
            yield f"https://127.0.0.1:{port}"
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
    up = ["lab", "up", "--name", cluster.name, "--kubernetes", OLD, *published.as_mirror]
    return upgrader("-C", cluster.home, *up, environment=published.environment, timeout_seconds=1800)


def _runs_the_release(published: Published, cluster: LabCluster) -> None:
    """Nothing of Kubernetes was built, and the node has what was published."""
    built = {"kubernetes", "etcd", "coredns", "pause", "go"} & {folder.name for folder in published.cache.iterdir()}
    assert not built
    for name in ("kubelet", "kubeadm", "kubectl"):
        expected = published.files.files[f"{_programs(OLD)}/{name}.sha256"]
        assert cluster.on_controller("sha256sum", f"/usr/bin/{name}").split()[0].encode() == expected
    listed = cluster.on_controller("ctr", "-n", "k8s.io", "images", "ls")
    assert published.digests and all(digest in listed for digest in published.digests)


def test_lab_from_a_fresh_clone(
    published: Published,
    by_name: dict[str, str],
    cluster: LabCluster,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    """Without options, a new clone's first lab takes the release by way of its hosts' redirects, and builds nothing of
    Kubernetes; the first line says so. It is Ready three minutes after the clone was begun, on a machine that does
    nothing else.
    """
    begun = time.monotonic()
    clone, environment = tmp_path / "clone", {**os.environ, **by_name}
    for command in (["git", "clone", "--quiet", str(REPOSITORY), str(clone)], ["make", "-C", str(clone), "venv"]):
        subprocess.run(command, env=environment, check=True, timeout=stretched(600))
    record_property("seconds until there is a .venv", round(time.monotonic() - begun))
    up = [str(clone / ".venv/bin/upgrader"), "-C", str(cluster.home), "lab", "up", "--name", cluster.name]
    said, first = _first_line([*up, "--kubernetes", OLD, "--mirror-roots", str(published.roots)], environment)
    record_property("seconds from a clone to a lab", round(time.monotonic() - begun))
    record_property("seconds until the first line", round(first, 2))
    assert said == f"Kubernetes {OLD}: downloading its release from dl.k8s.io and registry.k8s.io"
    _runs_the_release(published, cluster)


def _first_line(command: list[str], environment: dict[str, str]) -> tuple[str, float]:
    """The first line that a command prints, and after how many seconds; once it has ended well."""
    begun = time.monotonic()
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as up:
        late = threading.Timer(stretched(1800), up.kill)
        late.start()
        try:
            assert up.stdout
            first, seconds = up.stdout.readline().strip(), time.monotonic() - begun
            rest = up.stdout.read()
        finally:
            late.cancel()
    assert up.returncode == 0, f"{first}\n{rest}"
    return first, seconds


def test_lab_from_a_mirror(
    published: Published, cluster: LabCluster, record_property: Callable[[str, object], None]
) -> None:
    """With an empty cache, nothing of Kubernetes is built: its nodes run the mirror's programs and images, and the
    cluster is adopted as any other."""
    made = _up(published, cluster)
    assert made.exit_code == 0, made
    record_property("seconds of `lab up --mirror` with an empty cache", round(made.seconds))
    _runs_the_release(published, cluster)

    adopted = cluster.upgrader("adopt", "--yes")
    assert adopted.exit_code == 0, adopted
    cluster.wait_healthy(OLD)
    assert cluster.versions() == dict.fromkeys(cluster.versions(), OLD)


def test_release_with_another_kubelet(published: Published, by_name: dict[str, str], cluster: LabCluster) -> None:
    """Also without a mirror: what the release's hosts send is refused by name, and not built in its place."""
    path = f"{_programs(OLD)}/kubelet"
    published.files.files[path] = b"#!/bin/sh\nexit 0\n"
    up = ["lab", "up", "--name", cluster.name, "--kubernetes", OLD, "--mirror-roots", str(published.roots)]
    refused = upgrader("-C", cluster.home, *up, environment=by_name, timeout_seconds=1800)
    assert refused.exit_code == 2, refused
    assert f"https://dl.k8s.io{path} has the SHA-256" in refused.stderr, refused
    assert find(cluster.name) is None and not (published.cache / "kubernetes").exists()


def test_mirror_with_another_kubelet(published: Published, cluster: LabCluster) -> None:
    """It is refused by name, nothing of it is kept, and there is no lab; nor is it built in the mirror's place."""
    path = f"{_programs(OLD)}/kubelet"
    published.files.files[path] = b"#!/bin/sh\nexit 0\n"
    refused = _up(published, cluster)
    assert refused.exit_code == 2, refused
    assert "the download is refused" in refused.stderr and f"{path} has the SHA-256" in refused.stderr, refused
    assert find(cluster.name) is None
    assert not list((published.cache / "mirror/programs").glob("v*"))
    assert hashlib.sha256(b"#!/bin/sh\nexit 0\n").hexdigest() not in {
        file.name for file in (published.cache / "mirror/sha256").iterdir()
    }
    assert not (published.cache / "kubernetes").exists()
