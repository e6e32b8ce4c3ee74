"""The archive of a backup: what was packed comes back, and nothing else is believed."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.steps.backup.backups import CONTENT, SNAPSHOT, archive, manifest
from upgrader.errors import BackupRefused, HostError
from upgrader.steps.backup.archive import pack, unpack
from upgrader.steps.backup.manifest import BackupManifest, Part


@pytest.mark.parametrize("size", [1, 511, 4096, 1 << 20])
def test_what_was_packed_is_unpacked(size: int) -> None:
    """Each part arrives whole and in its order, however the stream is cut into chunks."""
    whole, got = archive(), dict[str, bytes]()

    def receive(part: Part, content: Iterator[bytes]) -> None:
        got[part.name] = b"".join(content)

    chunks = (whole[at : at + size] for at in range(0, len(whole), size))
    assert unpack(chunks, receive) == manifest()
    assert got == CONTENT


def test_tar_and_sha256sum_read_it(tmp_path: Path) -> None:
    """Without upgrader, plain tools open a backup and compare its hashes."""
    subprocess.run(["tar", "-x", "-C", tmp_path], input=archive(), check=True)
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "etcd/snapshot.db").read_bytes() == SNAPSHOT


@given(at=st.integers(0, len(archive()) - 1), bit=st.integers(0, 7))
def test_no_flipped_bit_changes_what_is_restored(at: int, bit: int) -> None:
    """Wherever one bit is flipped, the archive is refused, or everything that counts in it is as it was."""
    damaged = bytearray(archive())
    damaged[at] ^= 1 << bit
    got = {}

    def receive(part: Part, content: Iterator[bytes]) -> None:
        got[part.name] = b"".join(content)

    try:
        found = unpack(iter([bytes(damaged)]), receive)
    except BackupRefused:
        return
    assert found.parts == manifest().parts
    assert got == CONTENT


@pytest.mark.parametrize("length", [0, 300, 2000, 40_000, -2048])
def test_an_archive_that_was_cut_off_is_refused(length: int) -> None:
    """A part, a hash or the manifest that is missing is noticed."""
    with pytest.raises(BackupRefused):
        unpack(iter([archive()[:length]]))


def test_more_than_the_manifest_names_is_refused() -> None:
    """An entry that the manifest doesn't name is no part of a backup."""
    more = io.BytesIO()
    with tarfile.open(fileobj=more, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("extra"))
    with pytest.raises(BackupRefused, match="doesn't list"):
        unpack(iter([archive()[: -2 * tarfile.BLOCKSIZE], more.getvalue()]))


def test_content_that_differs_from_its_hash_is_never_packed() -> None:
    """What changed between its measurement and its arrival makes no backup."""
    for content in (b"x" * len(SNAPSHOT), SNAPSHOT[:-1], SNAPSHOT + b"x"):
        with pytest.raises(HostError, match="was changed on its way"):
            b"".join(pack(manifest(), lambda part, content=content: [content]))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([], "lists unknown parts"),
        ([Part("../../etc/shadow", 1, "a" * 64)], "lists unknown parts"),
        ([Part("etcd/snapshot.db", 1, "a" * 64)] * 2, "lists unknown parts"),
        ([Part("etcd/snapshot.db", -1, "a" * 64)], "lists unknown parts"),
        ([Part("etcd/snapshot.db", 1, "short")], "lists unknown parts"),
    ],
)
def test_a_manifest_with_strange_parts_is_refused(parts: list[Part], why: str) -> None:
    """Names, sizes and hashes are those that a backup has: nothing of an archive becomes a path elsewhere."""
    strange = dataclasses.replace(manifest(), parts=tuple(parts))
    with pytest.raises(BackupRefused, match=why):
        BackupManifest.decode(strange.encode())


def sparse(**headers: str) -> bytes:
    """An archive that begins with a sparse file."""
    entry = tarfile.TarInfo("manifest.json")
    entry.pax_headers = {f"GNU.sparse.{name}": value for name, value in headers.items()}
    return entry.tobuf(tarfile.PAX_FORMAT) + bytes(2 * tarfile.BLOCKSIZE)


@pytest.mark.parametrize(
    "headers",
    [
        {"map": "x", "size": "1"},
        {"size": "x"},
        {"major": "1", "minor": "0"},
        {"map": "0,0", "size": "9000000000000000"},
    ],
)
def test_a_sparse_file_is_refused(headers: dict[str, str]) -> None:
    """Also a damaged one: it ends with our words, and unpacks nothing."""
    with pytest.raises(BackupRefused):
        unpack(iter([sparse(**headers)]))


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_headers_without_end_are_refused(kind: bytes) -> None:
    """A header that is followed by another of its kind, thousands of times: `tarfile` calls itself for each."""
    header = tarfile.TarInfo("x")
    header.type, header.size = kind, 12
    content = (header.tobuf(tarfile.GNU_FORMAT) + b"12 a=bcdefg\n".ljust(512, b"\0")) * 3000
    with pytest.raises(BackupRefused, match="not an archive that `upgrader backup` made"):
        unpack(iter([content]))


def test_a_sparse_part_is_refused() -> None:
    """A few bytes that would be hashed for years, and sent to the controllers."""
    huge = dataclasses.replace(manifest(), parts=(Part("etcd/snapshot.db", 1 << 60, "a" * 64),))
    first = _first_entry(huge)
    entry = tarfile.TarInfo("etcd/snapshot.db")
    entry.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 60)}
    with pytest.raises(BackupRefused, match="is not a regular file"):
        unpack(iter([first, entry.tobuf(tarfile.PAX_FORMAT), bytes(1024)]))


def _first_entry(of: BackupManifest) -> bytes:
    """The archive's manifest alone."""
    entry, content = tarfile.TarInfo("manifest.json"), of.encode()
    entry.size = len(content)
    return entry.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % tarfile.BLOCKSIZE)


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"format": 1}', b"\xff", b"[" * 100_000, manifest().encode().replace(b"308", b"Infinity")],
)
def test_a_manifest_that_is_none_is_refused(content: bytes) -> None:
    """The error says that the manifest can't be understood."""
    with pytest.raises(BackupRefused, match="manifest"):
        BackupManifest.decode(content)


def test_a_later_format_is_named() -> None:
    """A backup of a later upgrader is not half understood."""
    with pytest.raises(BackupRefused, match="format 2"):
        BackupManifest.decode(b'{"format": 2}')
