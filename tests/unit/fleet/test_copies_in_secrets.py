"""Copies as bytes, and back."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest

from upgrader.errors import UsageError
from upgrader.fleet.copies_in_secrets import CHUNK_BYTES, chunks_of, unpack
from upgrader.fleet.inputs import copy_approved, folder_digest


def written(folder: Path, chunks: tuple[bytes, ...]) -> list[Path]:
    folder.mkdir()
    for number, chunk in enumerate(chunks):
        (folder / f"{number:04}").write_bytes(chunk)
    return sorted(folder.iterdir())


def test_files_links_and_modes_come_back(tmp_path: Path) -> None:
    """Of several chunks: content, programs, keys, and links, which lead to where the copies are then; and once more,
    as a container may start twice.
    """
    copies, target = tmp_path / "copies", tmp_path / "target"
    (copies / "a/b").mkdir(parents=True)
    (copies / "a/large").write_bytes(large := os.urandom(CHUNK_BYTES * 2))
    (copies / "a/program").write_text("#!")
    (copies / "a/program").chmod(0o700)
    (copies / "a/b/key").write_text("k")
    (copies / "a/b/key").chmod(0o600)
    (copies / "a/near").symlink_to("b/key")
    (copies / "a/far").symlink_to(f"{copies}/a/b")
    chunks = chunks_of(copies, str(target))
    assert len(chunks) == 3 and max(map(len, chunks)) == CHUNK_BYTES
    os.utime(copies / "a/program", (1, 1))
    assert chunks_of(copies, str(target)) == chunks
    files = written(tmp_path / "chunks", chunks)
    for _ in range(2):
        unpack(files, target)
        assert (target / "a/large").read_bytes() == large
        assert (target / "a/program").stat().st_mode & 0o777 == 0o700
        assert (target / "a/b/key").stat().st_mode & 0o777 == 0o600
        assert os.readlink(target / "a/near") == "b/key" and os.readlink(target / "a/far") == f"{target}/a/b"
    assert target.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("spelled", ["{}/values/", "{}/values/.", "{}//values", "{}/values/../values", "{}/values"])
def test_absolute_link_is_the_approved_one(tmp_path: Path, spelled: str) -> None:
    """However it is spelled: what is unpacked in a pod has the digest that was approved, and the link leads there."""
    folder, target = tmp_path / "fleet/a", tmp_path / "target"
    (folder / "values").mkdir(parents=True)
    (folder / "values/db.yaml").write_text("a: 1\n")
    (folder / "upgrader.yaml").write_text("kubernetesVersion: v1.36.3\n")
    (folder / "link").symlink_to(spelled.format(folder))
    approved = folder_digest(folder)
    made = copy_approved(folder, tmp_path / "made", approved)
    assert made is not None
    unpack(written(tmp_path / "chunks", chunks_of(made, str(target))), target)
    assert folder_digest(folder, target) == approved
    link = Path(f"{target}{folder}/link")
    assert link.resolve() == Path(f"{target}{folder}/values") and (link / "db.yaml").is_file()


@pytest.mark.parametrize("name", ["../out", "/out", "link/out"])
def test_nothing_is_written_outside(tmp_path: Path, name: str) -> None:
    """Neither by its name nor through a link."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
        archive.addfile(link)
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    files = written(tmp_path / "chunks", (gzip.compress(packed.getvalue()),))
    with pytest.raises(UsageError, match="would be outside of it"):
        unpack(files, tmp_path / "target")
    assert not (tmp_path / "out").exists()


def test_chunk_that_is_missing(tmp_path: Path) -> None:
    """A part of the bytes is no archive: the error says what to look at."""
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies/file").write_bytes(os.urandom(CHUNK_BYTES * 2))
    files = written(tmp_path / "chunks", chunks_of(tmp_path / "copies", "/x"))
    with pytest.raises(UsageError, match="can't be unpacked") as refused:
        unpack(files[:-1], tmp_path / "target")
    assert "Secrets" in refused.value.remedy
