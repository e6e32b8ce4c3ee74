"""The copies of what a cluster was approved with, as bytes that fit into Secrets, and out of them again."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

from upgrader.errors import UsageError

__all__ = ["CHUNK_BYTES", "MOST_BYTES", "chunks_of", "unpack"]

CHUNK_BYTES = 180 * 1024
"""In base64, with the object around it, this is less than 256 KiB."""
MOST_BYTES = 16 * 1024 * 1024
"""Of all files together. Packed, that is a small part of what an etcd holds."""


def chunks_of(copies: Path, leads_to: str) -> tuple[bytes, ...]:
    """What is below `copies`, packed and cut. Links to below `copies` lead to below `leads_to` in it.

    The same files give the same bytes, also with other owners and times. Raises OSError.
    """
    packed, below = io.BytesIO(), f"{copies}{os.sep}"
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(copies.rglob("*")):
            entry = archive.gettarinfo(path, str(path.relative_to(copies)))
            entry.uid = entry.gid = entry.mtime = 0
            entry.uname = entry.gname = ""
            if entry.issym() and entry.linkname.startswith(below):
                entry.linkname = (
                    leads_to + os.sep + entry.linkname.removeprefix(below)
                )  # as spelled: it was approved so
            if entry.isreg():
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    content = gzip.compress(packed.getvalue(), mtime=0)
    return tuple(content[start : start + CHUNK_BYTES] for start in range(0, len(content), CHUNK_BYTES))


def unpack(chunks: Sequence[Path], target: Path) -> None:
    """Make `target`, which only this user can read, with what was packed into these chunks, in their order. What was
    there before is kept, as a container may start twice in one pod. Raises UsageError.
    """
    try:
        content = gzip.decompress(b"".join(each.read_bytes() for each in chunks))
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for entry in archive:
                _write(archive, entry, target)
    except (OSError, EOFError, ValueError, tarfile.TarError) as error:
        raise UsageError(
            f"the inputs of this run can't be unpacked to {target}: {error}",
            remedy="Check the Secrets and volumes of this Job. `upgrader fleet retry CLUSTER` creates them again.",
        ) from error


def _write(archive: tarfile.TarFile, entry: tarfile.TarInfo, target: Path) -> None:
    path = target / entry.name
    # No entry is written through a link: what is unpacked before it is below `target`, and so is this.
    if not path.parent.resolve().is_relative_to(target.resolve()) or entry.name.startswith("/"):
        raise ValueError(f"{entry.name} would be outside of it")
    if entry.isdir():
        path.mkdir(mode=0o700, exist_ok=True)
    elif entry.issym():
        path.unlink(missing_ok=True)
        path.symlink_to(entry.linkname)
    elif entry.isreg() and (file := archive.extractfile(entry)) is not None:
        path.unlink(missing_ok=True)
        made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, entry.mode & 0o700)
        with os.fdopen(made, "wb") as written:
            written.write(file.read())
    else:
        raise ValueError(f"{entry.name} is neither a file nor a folder nor a link")
