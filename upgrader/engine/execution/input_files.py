"""The files that a run reads, each with a digest: also what links lead to, as Ansible and Helm follow them."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from upgrader.errors import UsageError

__all__ = ["file_digests"]

_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def file_digests(root: Path, name: str, *, leave_out: Collection[Path] = (), key: bytes = b"") -> dict[str, str]:
    """Name → SHA-256 of every file at and below `root`, which is called `name`; nothing where there is none.

    A link counts with where it leads to, and what is there counts as well. A folder that several links lead to is read
    once. With a `key`, the digests are HMACs: nobody without it can try guesses of a content. Raises UsageError for
    what can't be read, or is neither a file nor a folder.
    """
    left_out = {path.absolute() for path in leave_out}
    seen: set[tuple[int, int]] = set()

    def of(path: Path, name: str) -> Iterator[tuple[str, str]]:
        if path in left_out:
            return
        if path.is_symlink():
            yield f"{name} (link)", _digest(os.fsencode(os.readlink(path)), key)
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return  # nothing is there, or a link to nothing
        if stat.S_ISDIR(found.st_mode):
            if (found.st_dev, found.st_ino) not in seen:
                seen.add((found.st_dev, found.st_ino))
                for child in sorted(os.listdir(path)):
                    yield from of(path / child, f"{name}/{child}" if name else child)
        elif stat.S_ISREG(found.st_mode):
            yield name, _file_digest(path, key)
        else:
            kind = next((text for is_kind, text in _KINDS if is_kind(found.st_mode)), "no file")
            raise UsageError(f"{path} is {kind}, which no input of a run can be", remedy="Remove it from the folder.")

    try:
        return dict(of(root.absolute(), name))
    except OSError as error:
        raise UsageError(f"{error.filename}, an input of the run, can't be read: {error.strerror}") from error
    except RecursionError:
        raise UsageError(f"{root}, an input of the run, has folders that are nested too deeply") from None


def _digest(content: bytes, key: bytes) -> str:
    new = _new(key)
    new.update(content)
    return str(new.hexdigest())


def _file_digest(path: Path, key: bytes) -> str:
    """Read piece by piece: a folder may hold anything."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: _new(key)).hexdigest()


def _new(key: bytes) -> Any:
    return hmac.new(key, digestmod="sha256") if key else hashlib.sha256()
