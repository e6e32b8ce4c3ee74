"""What a mirror has is in the cache once it is verified, and what is wrong with it leaves nothing there."""

from __future__ import annotations

import hashlib
import json
import os
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testkit.certificates import Authority
from testkit.http_server import Handler, HttpServer
from testkit.mirror import MirrorFiles, Signing, served
from tests.unit.lab.published_release import ETCD_TAG, IMAGES, VERSION, program, published_release
from upgrader.errors import LabError
from upgrader.lab.binaries import COREDNS, PAUSE, kubectl
from upgrader.lab.build_cache import cache_root
from upgrader.lab.mirror import Mirror, download, read_address, read_authorities
from upgrader.lab.mirror.download import Downloads
from upgrader.lab.mirror.signatures import RELEASES
from upgrader.lab.oci_archive import Image, documents, native_architecture
from upgrader.lab.progress_port import Silent

KUBELET = f"/release/{VERSION}/bin/linux/{native_architecture()}/kubelet"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")  # nothing to this machine goes there
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")


@pytest.fixture
def published(tmp_path: Path) -> MirrorFiles:
    """All that a lab takes from a mirror."""
    return published_release(tmp_path)


@pytest.fixture
def server(published: MirrorFiles) -> Iterator[HttpServer]:
    with served(published.files) as state:
        yield state


@pytest.fixture
def mirror(server: HttpServer, tmp_path: Path) -> Mirror:
    return mirror_at(server.url, tmp_path)


def mirror_at(url: str, folder: Path, downloads: Downloads | None = None) -> Mirror:
    address = read_address("--mirror", url)
    return Mirror(address, address, read_authorities(folder / "roots.pem"), Silent(), downloads)


def cached(kind: str) -> list[str]:
    """What is in the cache of that kind, without locks."""
    folder = cache_root() / "mirror" / kind
    found = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    return [name for name in found if not name.endswith(".lock")]


def test_programs(mirror: Mirror, server: HttpServer) -> None:
    """Under their names, and executable; also as the kubectl of that version. Once they are there, nothing is asked."""
    assert not mirror.has(VERSION)
    found = mirror.programs(VERSION)
    assert {name: file.read_bytes() for name, file in found.files.items()} == {
        name: program(name) for name in ("kubelet", "kubeadm", "kubectl")
    }
    assert all(os.access(file, os.X_OK) for file in found.files.values())
    assert kubectl(VERSION).read_bytes() == program("kubectl")
    assert mirror.has(VERSION)
    asked = list(server.requests)
    assert mirror.programs(VERSION) == found and server.requests == asked


def test_images(mirror: Mirror, published: MirrorFiles, server: HttpServer) -> None:
    """Their manifests and layers are the registry's, byte by byte; those of a version come with its programs."""
    mirror.programs(VERSION)
    found = {image.name: image for image in mirror.images()}
    assert set(found) == {f"registry.k8s.io/{repository}:{tag}" for repository, tag in IMAGES.items()}
    for image in found.values():
        repository = image.name.partition("/")[2].rpartition(":")[0]
        digest = "sha256:" + hashlib.sha256(documents(image)[1]).hexdigest()
        assert published.files[f"/v2/{repository}/manifests/{digest}"] == documents(image)[1]
        for layer in image.layers:
            assert published.files[f"/v2/{repository}/blobs/sha256:{layer.name}"] == layer.read_bytes()
    asked = list(server.requests)
    assert {image.name for image in mirror.images()} == set(found) and server.requests == asked


def test_etcd(mirror: Mirror) -> None:
    """etcd and its tools are taken out of its image: dl.k8s.io has none."""
    found = mirror.etcd()
    assert {name: file.read_text() for name, file in found.files.items()} == dict.fromkeys(
        ("etcd", "etcdctl", "etcdutl"), "etcd"
    )
    assert all(os.access(file, os.X_OK) for file in found.files.values())


def test_etcd_after_a_power_cut(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has its name in the cache is on the disk: it is never looked at again."""
    synced, sync = set[tuple[int, int]](), os.fsync

    def note(descriptor: int) -> None:
        found = os.fstat(descriptor)
        synced.add((found.st_ino, found.st_size))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    sizes = {(file.stat().st_ino, file.stat().st_size) for file in mirror.etcd().files.values()}
    assert sizes <= synced


def wrong_content(published: MirrorFiles) -> None:
    published.files[KUBELET] = b"#!/bin/sh\ntouch /tmp/never-run\n"


def wrong_sum(published: MirrorFiles) -> None:
    published.files[f"{KUBELET}.sha256"] = b"0" * 64


def no_sum(published: MirrorFiles) -> None:
    published.files[f"{KUBELET}.sha256"] = b"<html>welcome</html>"


def wrong_in_both(published: MirrorFiles) -> None:
    wrong_content(published)
    content = published.files[KUBELET]
    assert isinstance(content, bytes)
    published.files[f"{KUBELET}.sha256"] = hashlib.sha256(content).hexdigest().encode()


def signed_by_another(published: MirrorFiles) -> None:
    published.files[f"{KUBELET}.sig"], published.files[f"{KUBELET}.cert"] = Signing().sign(program("kubelet"), RELEASES)


def older_release(published: MirrorFiles) -> None:
    published.add_program(VERSION, native_architecture(), "kubelet", program("kubelet", "v1.30.0"))


def without(path: str) -> Callable[[MirrorFiles], None]:
    def tamper(published: MirrorFiles) -> None:
        published.files.pop(path)

    return tamper


@pytest.mark.parametrize(
    ("tamper", "why"),
    [
        (wrong_content, r"kubelet has the SHA-256 [0-9a-f]{64} instead of"),
        (wrong_sum, r"kubelet\.sig does not verify: the signature is not for a file with the SHA-256 0000"),
        (no_sum, r"kubelet\.sha256 isn't a SHA-256"),
        (wrong_in_both, r"kubelet\.sig does not verify: the signature is not for a file with"),
        (signed_by_another, r"kubelet\.sig does not verify: its certificate is from the CA"),
        (older_release, r"kubelet of v1\.36\.3 reports the version 'v1\.30\.0'"),
        (without(KUBELET), r"bin/linux/\w+/kubelet is answered with 404"),
        (without(f"{KUBELET}.sha256"), r"kubelet\.sha256 is answered with 404"),
        (without(f"{KUBELET}.sig"), r"kubelet\.sig is answered with 404"),
        (without(f"{KUBELET}.cert"), r"kubelet\.cert is answered with 404"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_programs_that_are_refused(
    mirror: Mirror, published: MirrorFiles, tamper: Callable[[MirrorFiles], None], why: str
) -> None:
    """By name, with nothing of the version in the cache; once the mirror is right, the same command goes through."""
    right = dict(published.files)
    tamper(published)
    with pytest.raises(LabError, match=why) as caught:
        mirror.programs(VERSION)
    assert "With --from source" in (caught.value.remedy or "")
    assert cached("programs") == [] and not mirror.has(VERSION)
    blobs = cache_root() / "mirror" / "sha256"
    assert all(hashlib.sha256((blobs / name).read_bytes()).hexdigest() == name for name in cached("sha256"))
    published.files.update(right)
    assert mirror.programs(VERSION).files["kubelet"].read_bytes() == program("kubelet")


def path_of(published: MirrorFiles, repository: str, ending: str) -> str:
    """The last path of a repository that ends so."""
    found = [path for path in published.files if path.startswith(f"/v2/{repository}/") and path.endswith(ending)]
    return found[-1]


def another_layer(published: MirrorFiles) -> None:
    for path, content in published.files.items():
        if path.startswith("/v2/pause/blobs/") and isinstance(content, bytes) and not content.startswith(b"{"):
            published.files[path] = content + b"more"


def another_manifest(published: MirrorFiles) -> None:
    tag = f"/v2/pause/manifests/{PAUSE}"
    content = published.files[tag]
    assert isinstance(content, bytes)
    published.files[tag] = content + b"\n"


def another_image_of_upstream(published: MirrorFiles) -> None:
    """A genuine image under another's name, with its signature."""
    for path, content in list(published.files.items()):
        if path.startswith("/v2/coredns/coredns/"):
            published.files[path.replace("coredns/coredns", "pause").replace(COREDNS, PAUSE)] = content


def another_architecture(published: MirrorFiles) -> None:
    published.add_image(Image(f"registry.k8s.io/pause:{PAUSE}", (), architecture="riscv64"))


def signed_by_the_wrong_one(published: MirrorFiles) -> None:
    published.add_image(Image(f"registry.k8s.io/pause:{PAUSE}", (), entrypoint=("/evil",)), RELEASES)


def no_signature(published: MirrorFiles) -> None:
    published.files.pop(path_of(published, "pause", ".sig"))


def no_json(published: MirrorFiles) -> None:
    published.files[path_of(published, "pause", ".sig")] = b"<html>"


def nested(published: MirrorFiles) -> None:
    published.files[path_of(published, "pause", ".sig")] = b'{"layers": ' + b"[" * 100_000


def changed_signature(published: MirrorFiles, **fields: object) -> None:
    path = path_of(published, "pause", ".sig")
    content = published.files[path]
    assert isinstance(content, bytes)
    document = json.loads(content)
    document["layers"][0] |= fields
    published.files[path] = json.dumps(document).encode()


def annotations_in_a_list(published: MirrorFiles) -> None:
    changed_signature(published, annotations=["dev.cosignproject.cosign/signature"])


def annotation_of_a_number(published: MirrorFiles) -> None:
    changed_signature(published, annotations={"dev.cosignproject.cosign/signature": 1})


def layers_of_texts(published: MirrorFiles) -> None:
    published.files[path_of(published, "pause", ".sig")] = b'{"layers": [1, "a"]}'


@pytest.mark.parametrize(
    ("tamper", "why"),
    [
        (nested, "isn't a JSON object"),
        (annotations_in_a_list, r"\.sig has no signatures"),
        (annotation_of_a_number, r"\.sig has no signatures"),
        (layers_of_texts, r"\.sig has no signatures"),
        (another_layer, r"v2/pause/blobs/sha256:[0-9a-f]{64} has the SHA-256"),
        (another_manifest, r"v2/pause/manifests/sha256-[0-9a-f]{64}\.sig is answered with 404"),
        (another_image_of_upstream, "the signature is for an image coredns"),
        (another_architecture, "pause:.* is not for linux/"),
        (signed_by_the_wrong_one, "signed by krel-staging@.* not by krel-trust@"),
        (no_signature, r"\.sig is answered with 404"),
        (no_json, "isn't a JSON object"),
    ],
)
def test_images_that_are_refused(
    mirror: Mirror, published: MirrorFiles, tamper: Callable[[MirrorFiles], None], why: str
) -> None:
    """By name, before any layer counts; once the mirror is right, the same command goes through."""
    right = dict(published.files)
    tamper(published)
    with pytest.raises(LabError, match=why):
        mirror.images()
    assert not any(name.startswith("pause-") for name in cached("images"))
    published.files.clear()
    published.files.update(right)
    assert {image.name.rpartition(":")[2] for image in mirror.images()} == {ETCD_TAG, COREDNS, PAUSE}


def test_what_ends_early(mirror: Mirror, server: HttpServer, published: MirrorFiles) -> None:
    """A connection that is cut leaves nothing that a later run takes for the file."""
    answer = server.answer

    def cut(request: Handler) -> None:
        if request.path != KUBELET:
            return answer(request)
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        request.wfile.write(b"#!/bin/sh\n")
        request.close_connection = True
        return None

    server.answer = cut
    with pytest.raises(LabError, match=r"kubelet ended after 10 of 1000 bytes"):
        mirror.programs(VERSION)
    digest = hashlib.sha256(program("kubelet")).hexdigest()
    assert digest not in cached("sha256")
    server.answer = answer
    assert mirror.programs(VERSION).files["kubelet"].read_bytes() == program("kubelet")


@pytest.mark.parametrize("drops", [False, True])
def test_slow_mirror(server: HttpServer, tmp_path: Path, drops: bool) -> None:
    """A server that says nothing, or a byte now and then, is given up at the deadline, by the file's name."""

    def slow(request: Handler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        while not server.over.wait(0.01 if drops else None):
            request.wfile.write(b".")

    server.answer = slow
    downloads = Downloads(deadline_seconds=0.3 if drops else 60, silent_seconds=60 if drops else 0.05)
    # On a busy machine, it may be over before the first byte.
    why = r"not complete after 0\.3 s \(\d+ of (1000|\?) bytes\)" if drops else r"no answer for 0\.05 s"
    with pytest.raises(LabError, match=rf"manifests/{VERSION}: {why}") as caught:
        mirror_at(server.url, tmp_path, downloads).programs(VERSION)
    assert "nearer mirror" in (caught.value.remedy or "")


def test_redirect_to_elsewhere(mirror: Mirror, server: HttpServer) -> None:
    """The operator named one server, and no other one is asked."""
    server.answer = lambda request: request.reply(302, Location=f"http://cdn.example.com{request.path}")
    with pytest.raises(LabError, match=r"redirects to cdn\.example\.com") as caught:
        mirror.programs(VERSION)
    assert "use it as the mirror" in (caught.value.remedy or "")
    assert len(server.requests) == 1


def test_redirect_within_the_mirror(mirror: Mirror, server: HttpServer, published: MirrorFiles) -> None:
    """Registries send their clients to where their blobs are; in a circle, they are refused."""
    answer = server.answer

    def redirecting(request: Handler) -> None:
        if request.path.startswith("/stored"):
            request.path = request.path.removeprefix("/stored")
            return answer(request)
        return request.reply(307, Location=f"/stored{request.path}")

    server.answer = redirecting
    assert mirror.programs(VERSION).files["kubelet"].read_bytes() == program("kubelet")
    server.answer = lambda request: request.reply(307, Location=request.path)
    with pytest.raises(LabError, match="redirects more than 5 times"):
        mirror.etcd()


def test_endless_file(mirror: Mirror, published: MirrorFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program without end is given up long before the disk is full, whatever its signed SHA-256 is."""
    monkeypatch.setattr(download, "_LARGE_BYTES", 100_000)
    published.files[KUBELET] = bytes(200_000)
    with pytest.raises(LabError, match="kubelet has more than 100000 bytes"):
        mirror.programs(VERSION)
    assert cached("programs") == []


def test_endless_document(mirror: Mirror, server: HttpServer) -> None:
    """What should be small, and isn't, ends at a limit."""
    server.answer = lambda request: request.reply(200, b" " * (5 << 20))
    with pytest.raises(LabError, match="more than 4194304 bytes"):
        mirror.programs(VERSION)


def test_tls(published: MirrorFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server's certificate is verified; with SSL_CERT_FILE also one of a CA of one's own."""
    authority = Authority(tmp_path / "ca")
    authority.issue(tmp_path / "server", "mirror")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    with served(published.files, context) as server:
        with pytest.raises(LabError, match="CERTIFICATE_VERIFY_FAILED"):
            mirror_at(server.url, tmp_path).programs(VERSION)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        assert mirror_at(server.url, tmp_path).programs(VERSION).files["kubelet"].read_bytes() == program("kubelet")


@pytest.mark.parametrize("proxy", ["http:/anna:secret@127.0.0.1:1", "http://anna:secret"])
def test_proxy_that_can_not_be_read(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    """Its URL is the reason, and its password isn't in it."""
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("https_proxy", raising=False)
    with pytest.raises(LabError, match="the URL of the proxy") as caught:
        Downloads().small("https://dl.k8s.io/x")
    assert "secret" not in caught.value.message


def test_nobody_there(tmp_path: Path, published: MirrorFiles) -> None:
    """A mirror that can't be reached is named, with the reason."""
    with pytest.raises(LabError, match=r"http://127\.0\.0\.1:1/v2/kube-apiserver/manifests/v1\.36\.3 can't be read"):
        mirror_at("http://127.0.0.1:1", tmp_path).programs(VERSION)


def test_other_cas(mirror: Mirror, published: MirrorFiles, tmp_path: Path) -> None:
    """What was verified with other CAs isn't taken for verified."""
    mirror.programs(VERSION)
    (tmp_path / "roots.pem").write_bytes(Signing().roots)
    other = mirror_at("http://127.0.0.1:1", tmp_path)
    assert not other.has(VERSION)
    with pytest.raises(LabError, match="can't be read"):
        other.programs(VERSION)
