"""Where a lab's Kubernetes comes from by default: its own release by way of all redirects, or else its source."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testkit.connect_proxy import ConnectProxy
from testkit.http_server import Handler, HttpServer
from testkit.mirror import MirrorFiles, Signing, served
from testkit.release_hosts import FILES, IMAGES, release_hosts, release_tls
from tests.unit.lab.published_release import IMAGES as REPOSITORIES
from tests.unit.lab.published_release import VERSION, program, published_release
from upgrader.errors import LabError
from upgrader.lab.built_here import BuiltHere
from upgrader.lab.default_origin import DefaultOrigin
from upgrader.lab.mirror import Address, Downloads, Mirror, Unavailable, read_authorities
from upgrader.lab.oci_archive import Image, native_architecture
from upgrader.lab.origin import Programs
from upgrader.lab.progress_port import Silent
from upgrader.lab.release_hosts import PROGRAMS, REGISTRY

KUBELET = f"/release/{VERSION}/bin/linux/{native_architecture()}/kubelet"
OTHER = "v1.37.1"


class Built(BuiltHere):
    """What is built: nothing but names."""

    def __init__(self, *there: str) -> None:
        super().__init__(Silent())
        self.there, self.asked = list(there), list[str]()

    def programs(self, version: str) -> Programs:
        self.asked.append(version)
        self.there = [*self.there, version]
        return Programs(f"built-{version}", {})

    def etcd(self) -> Programs:
        return Programs("built-etcd", {})

    def versions(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.there))

    def shared_images(self) -> list[Image]:
        return [Image("registry.k8s.io/pause:built", ())]

    def images_of(self, version: str) -> list[Image]:
        return [Image(f"registry.k8s.io/kube-proxy:{version}", ())]


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MirrorFiles:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return published_release(tmp_path)


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    return release_tls(tmp_path)


@pytest.fixture
def storage(published: MirrorFiles, tls: ssl.SSLContext) -> Iterator[HttpServer]:
    """What the release's hosts redirect to."""
    with served(published.files, tls) as state:
        yield state


@pytest.fixture
def proxy(
    storage: HttpServer, tls: ssl.SSLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ConnectProxy]:
    """The way to the release's hosts."""
    port = int(storage.url.rpartition(":")[2])
    with release_hosts(tls, port, port) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        yield proxy


def release(folder: Path) -> Mirror:
    """As `lab up` takes it, with the CA of the test's signers."""
    hosts = Address(f"https://{PROGRAMS}"), Address(f"https://{REGISTRY}")
    authorities = read_authorities(folder / "roots.pem")
    return Mirror(*hosts, authorities, Silent(), Downloads(elsewhere=True, attempts=3))


class Chosen:
    """A lab's origin, what it has said, and what was built."""

    def __init__(self, folder: Path, why_not: str = "", built: tuple[str, ...] = ()) -> None:
        self.said = list[str]()
        self.built = Built(*built)
        self.origin = DefaultOrigin(release(folder), self.built, lambda: why_not, self.said.append)

    def choose(self, *versions: str) -> str:
        """What is said about them."""
        self.said.clear()
        self.origin.choose(versions)
        return "\n".join(self.said)


def test_release_by_way_of_redirects(proxy: ConnectProxy, tmp_path: Path) -> None:
    """Programs and images come from the hosts to which dl.k8s.io and registry.k8s.io redirect; nothing is built. Once
    they are in the cache, nothing is asked."""
    chosen = Chosen(tmp_path)
    assert chosen.choose(VERSION) == f"Kubernetes {VERSION}: downloading its release from dl.k8s.io and registry.k8s.io"
    assert chosen.origin.programs(VERSION).files["kubelet"].read_bytes() == program("kubelet")
    assert chosen.origin.etcd().files["etcd"].read_text() == "etcd"
    names = {f"registry.k8s.io/{repository}:{tag}" for repository, tag in REPOSITORIES.items()}
    assert {image.name for image in chosen.origin.images()} == names
    assert {line.split()[1].partition(":")[0] for line in proxy.asked} == {PROGRAMS, REGISTRY, FILES, IMAGES}
    assert chosen.built.asked == [] and chosen.origin.has(VERSION)

    proxy.asked.clear()
    again = Chosen(tmp_path, "nobody asks")
    assert again.choose(VERSION) == f"Kubernetes {VERSION}: in the cache, its own release"
    assert again.origin.programs(VERSION).files["kubelet"].read_bytes() == program("kubelet")
    assert {image.name for image in again.origin.images()} == names and proxy.asked == []


def test_hosts_that_can_not_be_reached(proxy: ConnectProxy, tmp_path: Path) -> None:
    """It is built, the reason is said first, and no file is asked for."""
    chosen = Chosen(tmp_path, "dl.k8s.io can't be reached: Connection refused")
    why = "because dl.k8s.io can't be reached: Connection refused"
    assert chosen.choose(VERSION, OTHER) == f"Kubernetes {VERSION}, {OTHER}: building it from source, {why}"
    assert chosen.origin.programs(VERSION).key == f"built-{VERSION}" and chosen.origin.etcd().key == "built-etcd"
    assert next(image.name for image in chosen.origin.images()) == "registry.k8s.io/pause:built"
    assert proxy.asked == []


def test_what_was_built_is_used(proxy: ConnectProxy, tmp_path: Path) -> None:
    """A version that is in the cache isn't downloaded; beside it, another version's release is, and nodes get the
    images of both."""
    chosen = Chosen(tmp_path, built=(OTHER,))
    assert chosen.choose(OTHER) == f"Kubernetes {OTHER}: in the cache, built from source"
    assert chosen.origin.programs(OTHER).key == f"built-{OTHER}" and proxy.asked == []
    assert f"Kubernetes {VERSION}: downloading" in chosen.choose(OTHER, VERSION)
    assert chosen.origin.programs(VERSION).files["kubelet"].read_bytes() == program("kubelet")
    names = [image.name for image in chosen.origin.images()]
    assert f"registry.k8s.io/kube-proxy:{VERSION}" in names and names[-1] == f"registry.k8s.io/kube-proxy:{OTHER}"
    assert "registry.k8s.io/pause:built" not in names and chosen.origin.etcd().key != "built-etcd"


def wrong_content(published: MirrorFiles) -> None:
    published.files[KUBELET] = b"#!/bin/sh\ntouch /tmp/never-run\n"


def wrong_sum(published: MirrorFiles) -> None:
    published.files[f"{KUBELET}.sha256"] = b"0" * 64


def wrong_signer(published: MirrorFiles) -> None:
    published.files[f"{KUBELET}.sig"], published.files[f"{KUBELET}.cert"] = Signing().sign(program("kubelet"))


def wrong_layer(published: MirrorFiles) -> None:
    for path, content in published.files.items():
        if path.startswith("/v2/etcd/blobs/") and isinstance(content, bytes) and not content.startswith(b"{"):
            published.files[path] = content + b"more"


@pytest.mark.parametrize(
    ("tamper", "why"),
    [
        (wrong_content, r"https://dl\.k8s\.io/release/v1\.36\.3/.*/kubelet has the SHA-256 [0-9a-f]{64} instead of"),
        (wrong_sum, r"kubelet\.sig does not verify: the signature is not for a file with the SHA-256 0000"),
        (wrong_signer, r"kubelet\.sig does not verify: its certificate is from the CA"),
        (wrong_layer, r"https://registry\.k8s\.io/v2/etcd/blobs/sha256:[0-9a-f]{64} has the SHA-256"),
    ],
)
def test_what_is_wrong_is_never_replaced(
    proxy: ConnectProxy, published: MirrorFiles, tmp_path: Path, tamper: Callable[[MirrorFiles], None], why: str
) -> None:
    """A wrong checksum or signature is an error by name: nothing is built in its place, and nothing of it stays."""
    tamper(published)
    chosen = Chosen(tmp_path)
    chosen.choose(VERSION)
    with pytest.raises(LabError, match=why) as caught:
        chosen.origin.programs(VERSION)
    assert not isinstance(caught.value, Unavailable) and "--from source" in (caught.value.remedy or "")
    assert chosen.built.asked == [] and not chosen.origin.has(VERSION) and len(chosen.said) == 1


def storage_goes(proxy: ConnectProxy, _: MirrorFiles) -> None:
    proxy.ports.pop(FILES)


def no_signature(_: ConnectProxy, published: MirrorFiles) -> None:
    published.files.pop(f"{KUBELET}.sig")


def no_program(_: ConnectProxy, published: MirrorFiles) -> None:
    published.files.pop(KUBELET)


@pytest.mark.parametrize(
    ("lose", "why"),
    [
        (storage_goes, "kubelet.sha256 can't be read: Tunnel connection failed: 502 not in this test"),
        (no_signature, "kubelet.sig is answered with 404 Not Found"),
        (no_program, "kubelet is answered with 404 Not Found"),
    ],
)
def test_what_is_not_there_is_built(
    proxy: ConnectProxy,
    published: MirrorFiles,
    tmp_path: Path,
    lose: Callable[[ConnectProxy, MirrorFiles], None],
    why: str,
) -> None:
    """A host that is gone in the middle, or a file that it lacks: all of that version is built, and the reason said."""
    chosen = Chosen(tmp_path)
    chosen.choose(VERSION)
    lose(proxy, published)
    assert chosen.origin.programs(VERSION).key == f"built-{VERSION}"
    assert (
        f"Kubernetes {VERSION}: building it from source, because its release can't be downloaded: " in chosen.said[-1]
    )
    assert chosen.said[-1].endswith(why) and len(chosen.said) == 2
    assert chosen.origin.etcd().key == "built-etcd"
    names = [image.name for image in chosen.origin.images()]
    assert names == ["registry.k8s.io/pause:built", f"registry.k8s.io/kube-proxy:{VERSION}"]
    asked = len(proxy.asked)
    chosen.origin.programs(OTHER)
    assert chosen.built.asked == [VERSION, OTHER] and len(proxy.asked) == asked


def test_connection_that_breaks_once(proxy: ConnectProxy, storage: HttpServer, tmp_path: Path) -> None:
    """It is made again; what came before counts for nothing."""
    answer, cuts = storage.answer, ["once"]

    def cut(request: Handler) -> None:
        if not request.path.startswith(f"{KUBELET}?") or not cuts:
            return answer(request)
        cuts.pop()
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        request.wfile.write(b"#!/bin/sh\n")
        request.close_connection = True
        return None

    storage.answer = cut
    chosen = Chosen(tmp_path)
    chosen.choose(VERSION)
    assert chosen.origin.programs(VERSION).files["kubelet"].read_bytes() == program("kubelet")
    assert cuts == [] and len(chosen.said) == 1


def test_redirect_without_tls(proxy: ConnectProxy, storage: HttpServer, tmp_path: Path) -> None:
    """No host can lead to one that anybody could stand in for."""
    storage.answer = lambda request: request.reply(302, Location=f"http://cdn.example.com{request.path}")
    with pytest.raises(LabError, match=r"redirects to cdn\.example\.com without TLS"):
        release(tmp_path).programs(VERSION)


def test_disk_that_is_full(proxy: ConnectProxy, tmp_path: Path) -> None:
    """It is an error of this machine, which building more on it doesn't help."""
    url = f"https://{PROGRAMS}{KUBELET}"
    with pytest.raises(LabError, match="/dev/full can't be written: No space left on device") as caught:
        Downloads(elsewhere=True).file(url, "0" * 64, Path("/dev/full"), lambda *_: None)
    assert not isinstance(caught.value, Unavailable)


def test_a_lab_is_of_one_kind(proxy: ConnectProxy, tmp_path: Path) -> None:
    """Where a version is in the cache as release and as built, images are of the kind of the lab's programs."""
    release(tmp_path).programs(VERSION)
    chosen = Chosen(tmp_path, built=(VERSION, OTHER))
    chosen.origin.programs(OTHER)
    assert [image.name for image in chosen.origin.images()] == [
        "registry.k8s.io/pause:built",
        f"registry.k8s.io/kube-proxy:{VERSION}",
        f"registry.k8s.io/kube-proxy:{OTHER}",
    ]
    chosen.origin.programs(VERSION)
    assert len([image for image in chosen.origin.images() if image.name.endswith(VERSION)]) == 4
