"""A backup as a stream: a tar of a manifest, the parts that it names, and the SHA-256 of each, as `sha256sum` reads it.

`age --decrypt` and `tar` open it as well. Neither direction holds a part in memory, or writes one to a disk.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable, Iterable, Iterator

from upgrader.errors import BackupRefused, HostError
from upgrader.steps.backup.manifest import BackupManifest, Part

__all__ = ["ChunkReader", "Receive", "archive_end", "entry", "pack", "unpack"]

_MANIFEST, _SUMS = "manifest.json", "SHA256SUMS"
_MOST_BYTES = 1 << 20
"""Of a manifest."""
_CHUNK_BYTES = 1 << 16

Receive = Callable[[Part, Iterator[bytes]], None]
"""Takes a part's content. What it was given counts only once `unpack` has returned."""


def pack(manifest: BackupManifest, content: Callable[[Part], Iterable[bytes]]) -> Iterator[bytes]:
    """The archive. Raises HostError where a part isn't what the manifest says: it has changed on its way."""
    at = int(manifest.taken.timestamp())
    encoded = manifest.encode()
    yield from entry(_MANIFEST, len(encoded), at, [encoded])
    for part in manifest.parts:
        yield from entry(part.name, part.bytes, at, _checked(part, content(part)))
    sums = _sums(manifest)
    yield from entry(_SUMS, len(sums), at, [sums])
    yield archive_end()


def unpack(stream: Iterator[bytes], receive: Receive | None = None) -> BackupManifest:
    """Read all of it and compare every hash; raises BackupRefused. The stream is read to its end."""
    try:
        with tarfile.open(fileobj=ChunkReader(stream), mode="r|", bufsize=_CHUNK_BYTES) as archive:
            manifest = BackupManifest.decode(_small(archive, _MANIFEST))
            for part in manifest.parts:
                _read_part(archive, part, receive)
            if _small(archive, _SUMS) != _sums(manifest):
                raise BackupRefused("the hashes in its last entry differ from those in its manifest")
            if archive.next() is not None:
                raise BackupRefused("it has entries that its manifest doesn't list")
    except (tarfile.TarError, ValueError, RecursionError) as error:
        # ValueError: the damaged header of a sparse file. RecursionError: headers of headers, without end.
        raise BackupRefused(f"it is not an archive that `upgrader backup` made: {error}") from error
    for _ in stream:
        pass  # the last chunk is what proves that nothing was cut off
    return manifest


def _read_part(archive: tarfile.TarFile, part: Part, receive: Receive | None) -> None:
    entry = _next(archive, part.name)
    file = archive.extractfile(entry)
    if file is None or entry.size != part.bytes:
        raise BackupRefused(f"{part.name} has {entry.size} bytes, not {part.bytes} as its manifest says")
    digest = hashlib.sha256()

    def chunks() -> Iterator[bytes]:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            yield chunk

    if receive is not None:
        receive(part, chunks())
    for _ in chunks():
        pass  # what was not taken
    if digest.hexdigest() != part.sha256:
        raise BackupRefused(f"{part.name} is damaged: its SHA-256 is {digest.hexdigest()}, not {part.sha256}")


def _next(archive: tarfile.TarFile, name: str) -> tarfile.TarInfo:
    """The next entry; a sparse one, which would unpack to any number of zeros, is none of ours."""
    entry = archive.next()
    if entry is None or entry.name != name:
        raise BackupRefused(f"expected {name}, found {entry.name if entry else 'nothing'}")
    if not entry.isreg() or entry.issparse():
        raise BackupRefused(f"{name} is not a regular file")
    return entry


def _small(archive: tarfile.TarFile, name: str) -> bytes:
    entry = _next(archive, name)
    file = archive.extractfile(entry)
    if file is None or entry.size > _MOST_BYTES:
        raise BackupRefused(f"{name} has {entry.size} bytes; at most {_MOST_BYTES} are accepted")
    return file.read()


def _sums(manifest: BackupManifest) -> bytes:
    return "".join(f"{part.sha256}  {part.name}\n" for part in manifest.parts).encode()


def entry(name: str, size: int, at: int, content: Iterable[bytes]) -> Iterator[bytes]:
    """A file as a tar has it; `at`: its time, in seconds since 1970."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, at
    yield info.tobuf(tarfile.GNU_FORMAT)
    yield from content
    yield bytes(-size % tarfile.BLOCKSIZE)


def archive_end() -> bytes:
    """What follows a tar's last entry."""
    return bytes(2 * tarfile.BLOCKSIZE)


def _checked(part: Part, content: Iterable[bytes]) -> Iterator[bytes]:
    digest, left = hashlib.sha256(), part.bytes
    for chunk in content:
        digest.update(chunk)
        left -= len(chunk)
        if left < 0:
            break
        yield chunk
    if left or digest.hexdigest() != part.sha256:
        raise HostError(
            f"{part.name} was changed on its way from the controller; no backup was made",
            remedy="Run the command again.",
        )


class ChunkReader(io.RawIOBase):
    """A file over chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts, left = [], size
        while left:
            if not self._rest:
                self._rest = next(self._chunks, b"")
                if not self._rest:
                    break
            part, self._rest = self._rest[:left], self._rest[left:]
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
