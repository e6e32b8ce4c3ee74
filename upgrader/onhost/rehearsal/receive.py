"""Takes a cluster's data into this host's private folder, from a tar archive as it comes."""

from __future__ import annotations

import os
import shutil
import tarfile
from typing import IO

from upgrader.onhost.common.questions import Failed

__all__ = ["FILES", "receive"]

FILES = "files"
"""The folder in the work folder below which files are that had a path of their own where they come from."""


def receive(stream: IO[bytes], work: str, data: str, file_count: int, byte_count: int) -> None:
    """Write what is below the folder `data`, or has an absolute path, into `work`. Raises Failed unless there are as
    many files and bytes as were announced: an archive that is cut off between two of them has an end like a whole one.
    """
    got, size = 0, 0
    try:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for entry in archive:
                place = os.path.join(work, _place(entry, data))
                os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
                if entry.isdir():
                    os.makedirs(place, mode=0o700, exist_ok=True)
                    continue
                content = archive.extractfile(entry)
                assert content is not None, "it is a file"
                with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    shutil.copyfileobj(content, file, 1 << 20)
                got, size = got + 1, size + entry.size
    except tarfile.TarError:
        raise Failed("the cluster's data did not arrive completely. Nothing was started") from None
    if (got, size) != (file_count, byte_count):
        raise Failed(
            f"{got:,} files with {size:,} bytes of the cluster's data arrived, but {file_count:,} with {byte_count:,} "
            "were sent. Nothing was started"
        )


def _place(entry: tarfile.TarInfo, data: str) -> str:
    """Where it is to be, below the work folder. Raises Failed for anything that isn't asked for."""
    name = entry.name
    if not (entry.isreg() or entry.isdir()) or entry.issparse() or ".." in name.split("/"):
        raise Failed(
            "the archive of the cluster's data has an entry that is neither a file nor a folder. Nothing was started"
        )
    if name.startswith("/"):
        return FILES + name
    if name.split("/")[0] != data:
        raise Failed("the archive of the cluster's data has a path outside of its folder. Nothing was started")
    return name
