"""Verified files of a release, each by its SHA-256: a file in the cache is complete and correct."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from upgrader.lab.build_cache import built, cache_root
from upgrader.lab.mirror.download import Downloads
from upgrader.lab.progress_port import LabProgress

__all__ = ["blob", "make_durable", "mirror_cache", "write_durably"]


def mirror_cache() -> Path:
    """The folder of all that was downloaded of releases."""
    return cache_root() / "mirror"


def blob(url: str, sha256: str, what: str, downloads: Downloads, progress: LabProgress) -> Path:
    """The file with that SHA-256 (hexadecimal), from the cache or else from `url`; the caller trusts the SHA-256."""

    def build(target: Path) -> None:
        with progress.task(f"{what}, from {urlsplit(url).hostname}") as task:
            known = False

            def advance(new: int, total: int) -> None:
                nonlocal known
                if total and not known:
                    known = True
                    task.total(total)
                task.advance(new)

            downloads.file(url, sha256, target, advance)

    return built(mirror_cache() / "sha256" / sha256, build)


def write_durably(file: Path, content: bytes) -> None:
    """Write a file that is complete once it has its name, also after a power cut."""
    with file.open("wb") as stream:
        stream.write(content)
        make_durable(stream)


def make_durable(stream: IO[bytes]) -> None:
    """Wait until what was written to a file is on the disk, before the file gets its name."""
    stream.flush()
    os.fsync(stream.fileno())
