"""Atomic writes: a file is replaced completely, or not at all."""

from __future__ import annotations

import secrets
from pathlib import Path

from upgrader.contract.durable_files import Owner, replace, sync_folder

__all__ = ["sync_folder", "write_atomic"]


def write_atomic(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file; it is on disk when this returns. Several processes may do so at the same time.

    Raises OSError, and leaves no partial file.
    """
    replace(path, content, Owner(mode), beside=path.with_name(f".{path.name}.{secrets.token_hex(4)}"))
