"""Atomic writes: a file is replaced completely, or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

__all__ = ["sync_folder", "write_atomic"]


def write_atomic(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file; it is on disk when this returns. Raises OSError, and leaves no partial file."""
    file, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(file, "wb") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Returns once the names in a folder are on disk. Raises OSError."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
