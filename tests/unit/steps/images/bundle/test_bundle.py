"""A bundle: written, read, and refused where it isn't as its checksums say."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.steps.images.bundle.archives import docker_archive, image_archive, tar_of
from upgrader.errors import UsageError
from upgrader.model.version import KubernetesVersion
from upgrader.steps.images.bundle.reading import open_bundle
from upgrader.steps.images.bundle.writing import names_in, write_bundle

TARGET = KubernetesVersion(1, 37, 1)
Entries = list[tuple[tarfile.TarInfo, bytes]]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Two image archives and a chart."""
    one = image_archive(tmp_path / "a.tar", "registry.k8s.io/kube-proxy:v1.37.1")
    two = docker_archive(tmp_path / "b.tar", "kube-proxy:v1.37.1", "tool")
    chart = tmp_path / "Chart.yaml"
    chart.write_text("name: kubernetes\n")
    write_bundle(tmp_path / "bundle.tar", TARGET, [one, two], {"kubernetes/Chart.yaml": chart})
    return tmp_path / "bundle.tar"


def entries_of(bundle: Path) -> Entries:
    """What is in it."""
    with tarfile.open(bundle) as tar:
        return [(entry, tar.extractfile(entry).read()) for entry in tar]  # type: ignore[union-attr]


def changed(bundle: Path, change: Callable[[Entries], Any]) -> str:
    """Change a bundle's entries; returns what is then said of it."""
    entries = entries_of(bundle)
    change(entries)
    return refused(tar_of(bundle, entries))


def refused(bundle: Path) -> str:
    """What is said of a bundle that can't be used."""
    with pytest.raises(UsageError) as caught, open_bundle(bundle):
        pass
    return caught.value.message


def replaced(name: str, content: bytes) -> Callable[[Entries], None]:
    """Another content of an entry."""

    def change(entries: Entries) -> None:
        for number, (entry, _) in enumerate(entries):
            if entry.name == name:
                entry.size = len(content)
                entries[number] = entry, content

    return change


def test_what_is_written_is_read(bundle: Path) -> None:
    """Each image by its full name, the charts, the version; and what is sent to nodes is what was given."""
    with open_bundle(bundle) as found:
        assert found.index.kubernetes_version == TARGET
        first, second = found.index.images
        assert (first.file, first.names) == ("images/kube-proxy_v1.37.1.tar", ("registry.k8s.io/kube-proxy:v1.37.1",))
        assert second.file == "images/kube-proxy_v1.37.1-1.tar"
        assert second.names == ("docker.io/library/kube-proxy:v1.37.1", "docker.io/library/tool:latest")
        assert [item.file for item in found.index.charts] == ["charts/kubernetes/Chart.yaml"]
        assert b"".join(found.content(first)) == (bundle.parent / "a.tar").read_bytes()


def test_bundle_is_an_ordinary_tar_file(bundle: Path) -> None:
    """`tar` unpacks it, and `sha256sum -c SHA256SUMS` checks it; the same content makes the same bytes."""
    content = {entry.name: content for entry, content in entries_of(bundle)}
    sums = dict(line.split("  ")[::-1] for line in content.pop("SHA256SUMS").decode().splitlines())
    assert sums == {name: hashlib.sha256(text).hexdigest() for name, text in content.items()}
    before = bundle.read_bytes()
    write_bundle(
        bundle,
        TARGET,
        [bundle.parent / "a.tar", bundle.parent / "b.tar"],
        {"kubernetes/Chart.yaml": bundle.parent / "Chart.yaml"},
    )
    assert bundle.read_bytes() == before
    assert not list(bundle.parent.glob(".*.part"))


def test_flipped_byte_is_found(bundle: Path) -> None:
    """File, line and name of what is damaged, and both checksums."""
    content = bytearray(bundle.read_bytes())
    at = content.index(b"layer", content.index(b"blobs/sha256/a"))
    content[at] ^= 1
    bundle.write_bytes(content)
    said = refused(bundle)
    assert re.search(
        r"bundle\.tar: SHA256SUMS:2: images/kube-proxy_v1\.37\.1\.tar: its SHA-256 is \w{64}, and should", said
    )


def test_changed_while_it_is_read(bundle: Path) -> None:
    """What was verified is what is sent: a change afterwards is noticed at the end of the file at the latest."""
    with open_bundle(bundle) as found:
        content = bytearray(bundle.read_bytes())
        content[content.index(b"layer", content.index(b"blobs/sha256/a"))] ^= 1
        with bundle.open("r+b") as file:
            file.write(content)
        with pytest.raises(UsageError, match="was changed while it was read"):
            b"".join(found.content(found.index.images[0]))


def test_cut_off_while_it_is_read(bundle: Path) -> None:
    """Whoever receives the archive must not take a part for the whole."""
    with open_bundle(bundle) as found:
        os.truncate(bundle, 600)
        with pytest.raises(UsageError, match="can no longer be read"):
            b"".join(found.content(found.index.images[0]))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../../etc/passwd", "a bundle has no file of that name"),
        ("/etc/passwd", "a bundle has no file of that name"),
        ("images/../../x.tar", "a bundle has no file of that name"),
        ("charts/a/../../x", "a bundle has no file of that name"),
        ("images/.hidden.tar", "a bundle has no file of that name"),
        ("images/a/b.tar", "a bundle has no file of that name"),
        ("images/new.tar", "SHA256SUMS: it has no line for images/new.tar"),
        ("bundle.json", "bundle.json: it is there twice"),
        ("images/kube-proxy_v1.37.1.tar", "it is there twice"),
    ],
)
def test_entries_that_do_not_belong_there(bundle: Path, name: str, said: str) -> None:
    """Paths that lead elsewhere, unknown files and names that are there twice."""
    assert said in changed(bundle, lambda entries: entries.append((tarfile.TarInfo(name), b"")))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_only_plain_files(bundle: Path, kind: bytes) -> None:
    """No links, folders or devices, whatever they are called."""
    entry = tarfile.TarInfo("images/link.tar")
    entry.type, entry.linkname = kind, "/etc/passwd"
    assert "is not a regular file" in changed(bundle, lambda entries: entries.append((entry, b"")))


@pytest.mark.parametrize(
    ("sums", "said"),
    [
        (b"", "SHA256SUMS: it has no line for bundle.json"),
        (b"nonsense\n", "SHA256SUMS:1: it is not a line in the format of sha256sum"),
        (b"a" * 64 + b"  images/none.tar\n", "SHA256SUMS:1: images/none.tar: the bundle doesn't contain this file"),
        (b"a" * 64 + b"  bundle.json\n" + b"b" * 64 + b"  bundle.json\n", "SHA256SUMS:2: bundle.json: the bundle"),
        (b"x" * (5 * 1024 * 1024), "SHA256SUMS: it has 5242880 bytes"),
    ],
)
def test_checksums_that_are_none(bundle: Path, sums: bytes, said: str) -> None:
    """The line is named."""
    assert said in changed(bundle, replaced("SHA256SUMS", sums))


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda index: index.update(format_version="2.0"), "bundle.format_version should be one of 1.0, but is '2.0'"),
        (lambda index: index.update(images=[]), "doesn't match the archive's files: images/"),
        (lambda index: index["images"][0].update(sha256="0" * 64), "its size or SHA-256 differs"),
        (lambda index: index["images"][0].update(names=["registry.k8s.io/pause:3"]), "has registry.k8s.io/kube-proxy"),
        (lambda index: index["charts"].append(index["charts"][0]), "a file twice"),
        (lambda index: index.pop("upgrader"), "bundle.upgrader is missing"),
    ],
)
def test_index_that_contradicts_the_files(bundle: Path, edit: Callable[[Any], Any], said: str) -> None:
    """Also with checksums that are right: each says which file and key."""

    def change(entries: Entries) -> None:
        content = {entry.name: text for entry, text in entries}
        index = json.loads(content["bundle.json"])
        edit(index)
        text = json.dumps(index).encode()
        old = hashlib.sha256(content["bundle.json"]).hexdigest()
        replaced("bundle.json", text)(entries)
        sums = content["SHA256SUMS"].decode().replace(old, hashlib.sha256(text).hexdigest())
        replaced("SHA256SUMS", sums.encode())(entries)

    assert said in changed(bundle, change)


@pytest.mark.parametrize("name", ["bundle.json", "SHA256SUMS"])
def test_bundle_without_what_describes_it(bundle: Path, name: str) -> None:
    """It says what is missing."""

    def drop(entries: Entries) -> None:
        entries[:] = [item for item in entries if item[0].name != name]

    assert name in changed(bundle, drop)


def test_what_is_no_bundle(tmp_path: Path) -> None:
    """No such file, no archive, one that is cut off, damaged, or compressed."""
    assert "can't be read: No such file" in refused(tmp_path / "none")
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    assert "is not a bundle: the file ends at byte 0" in refused(empty)
    whole = tar_of(tmp_path / "whole", {"bundle.json": b"x" * 600}).read_bytes()
    cut, damaged = tmp_path / "cut", tmp_path / "damaged"
    cut.write_bytes(whole[:700])
    assert "'bundle.json' is cut off: the file ends at byte 700" in refused(cut)
    damaged.write_bytes(b"X" + whole[1:])
    assert "the header at byte 0 is damaged" in refused(damaged)
    packed = tmp_path / "packed"
    with tarfile.open(packed, "w:gz") as tar:
        tar.addfile(tarfile.TarInfo("bundle.json"), io.BytesIO())
    assert "is not a bundle" in refused(packed)


def _header(**fields: tuple[int, bytes]) -> bytes:
    header = bytearray(tarfile.TarInfo("bundle.json").tobuf(tarfile.USTAR_FORMAT)[:512])
    for at, text in fields.values():
        header[at : at + len(text)] = text
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (_header(size=(124, b"77777777777\0")), "is cut off"),
        (_header(size=(124, b"12x\0")), "has an invalid number"),
        (_header(size=(124, b"\x80" + b"\0" * 3 + b"\xff" * 8)), "is cut off"),
        (_header(name=(0, b"\xff\xfe\0")), "has a name that isn't valid text"),
    ],
)
def test_headers_that_lie(tmp_path: Path, header: bytes, said: str) -> None:
    """A size beyond the file, or no number at all, is refused before anything is read."""
    path = tmp_path / "bundle.tar"
    path.write_bytes(header + b"\0" * 1024)
    assert said in refused(path)


def test_image_archives(tmp_path: Path) -> None:
    """Both kinds of archive are understood; what names no image is refused."""
    assert names_in(docker_archive(tmp_path / "d.tar", "nginx:1")) == ("docker.io/library/nginx:1",)
    assert names_in(image_archive(tmp_path / "o.tar", "r.io/a:1", "r.io/b:1")) == ("r.io/a:1", "r.io/b:1")
    for content in ({"other": b""}, {"index.json": b"no JSON"}, {"index.json": b"[" * 100_000}, {"index.json": b"[]"}):
        with pytest.raises(UsageError, match="is not an image archive"):
            names_in(tar_of(tmp_path / "x.tar", content))
    with pytest.raises(UsageError, match=r"index\.json has 5242880 bytes"):
        names_in(tar_of(tmp_path / "x.tar", {"index.json": b" " * 5242880}))
    with pytest.raises(UsageError, match="is not an image archive"):
        names_in(tmp_path / "none.tar")


def oci(*manifests: tuple[str, str], **blobs: bytes) -> dict[str, bytes]:
    """An archive's files: images by name and digest, and other blobs by their digests."""
    items = [{"digest": digest, "annotations": {"io.containerd.image.name": name}} for name, digest in manifests]
    return {"index.json": json.dumps({"manifests": items}).encode()} | {
        f"blobs/{digest.replace('_', '/')}": content for digest, content in blobs.items()
    }


OWN, OTHER = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
INDEX = json.dumps({"manifests": [{"digest": OTHER}, {"digest": OWN}]}).encode()
OF_ALL = hashlib.sha256(INDEX).hexdigest()


def test_a_name_with_a_digest_is_that_image(tmp_path: Path) -> None:
    """Its own digest, or that of an index for all architectures which is in the archive and lists it."""
    for files in (
        oci((f"r.io/a@{OWN}", OWN), ("r.io/b:1", OTHER)),
        oci((f"r.io/a@sha256:{OF_ALL}", OWN), **{f"sha256_{OF_ALL}": INDEX}),
    ):
        assert names_in(tar_of(tmp_path / "a.tar", files))[0].startswith("r.io/a@sha256:")


@pytest.mark.parametrize(
    "files",
    [
        oci((f"r.io/a@{OWN}", OTHER)),
        oci((f"r.io/a@{OWN}", "")),
        oci((f"r.io/a@sha256:{OF_ALL}", OWN)),
        oci((f"r.io/a@sha256:{OF_ALL}", f"sha256:{'3' * 64}"), **{f"sha256_{OF_ALL}": INDEX}),
        oci((f"r.io/a@sha256:{OF_ALL}", OWN), **{f"sha256_{OF_ALL}": INDEX + b" "}),
        {"manifest.json": json.dumps([{"RepoTags": [f"r.io/a@{OWN}"]}]).encode()},
    ],
)
def test_a_name_with_the_digest_of_another_image_is_refused(tmp_path: Path, files: dict[str, bytes]) -> None:
    """containerd gives whatever is in an archive the name that the archive says: who pins a digest would run it."""
    with pytest.raises(UsageError, match="nothing in the archive proves that both are the same"):
        names_in(tar_of(tmp_path / "a.tar", files))


@pytest.mark.parametrize(
    "second",
    [
        [("x/../index.json", tarfile.REGTYPE, b"{}")],
        [("pax", tarfile.XHDTYPE, b"19 path=index.json\n"), ("other", tarfile.REGTYPE, b"{}")],
        [("././@LongLink", tarfile.GNUTYPE_LONGNAME, b"index.json\0"), ("other", tarfile.REGTYPE, b"{}")],
    ],
)
def test_an_archive_that_containerd_would_read_otherwise_is_refused(
    tmp_path: Path, second: list[tuple[str, bytes, bytes]]
) -> None:
    """Another index.json under a name that only becomes that one: the last one counts for containerd."""
    entries: Entries = []
    for name, kind, content in [("index.json", tarfile.REGTYPE, oci(("r.io/a:1", OWN))["index.json"]), *second]:
        entry = tarfile.TarInfo(name)
        entry.type, entry.size = kind, len(content)
        entries.append((entry, content))
    with pytest.raises(UsageError, match=r"index\.json twice|followed by another name"):
        names_in(tar_of(tmp_path / "a.tar", entries))


def test_bundle_that_can_not_be_written(bundle: Path) -> None:
    """Nothing is left half-written in its place."""
    target = bundle.parent / "folder"
    target.mkdir()
    with pytest.raises(UsageError, match="can't be written"):
        write_bundle(target, TARGET, [bundle.parent / "a.tar"], {})
    assert not list(bundle.parent.glob(".*.part"))


@pytest.mark.parametrize("tags", [5, True, "tool:1", {"tool:1": 1}])
def test_names_that_are_no_list_name_nothing(tmp_path: Path, tags: object) -> None:
    """Anybody may have written the archive: it is refused, whatever it says."""
    content = json.dumps([{"RepoTags": tags}]).encode()
    with pytest.raises(UsageError, match="lists no image"):
        names_in(tar_of(tmp_path / "odd.tar", {"manifest.json": content}))
