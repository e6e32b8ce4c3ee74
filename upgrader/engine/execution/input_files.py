"""The files that a run reads, each with a digest: also what links lead to, as Ansible and Helm follow them."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from upgrader.config.plain_file import open_plain
from upgrader.errors import UsageError

__all__ = ["NewDigest", "Visitor", "canonical", "file_digests", "identity", "plain_digest", "unique"]

_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
_NOTHING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_GIT = ".git"


class Digest(Protocol):
    """A running digest, as `hashlib` and `hmac` make them."""

    def update(self, content: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


NewDigest = Callable[[str], Digest]
"""Makes the digest of an input, by its name."""


class Visitor(Protocol):
    """Is told of each input, of a folder before of what is in it."""

    def link(self, path: Path) -> None:
        """A link itself; what it leads to follows, if that is an input."""

    def content(self, path: Path) -> None:
        """A folder, without what is in it, or a file; `path` may be a link to it."""


def plain_digest(_name: str) -> Digest:
    """SHA-256, whatever the name."""
    return hashlib.sha256()


def identity(path: Path) -> tuple[int, int] | None:
    """What tells a file or folder from all others, however its path is spelled; None where there is none."""
    found = _there(path)
    return (found.st_dev, found.st_ino) if found else None


def _there(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError as error:
        if error.errno in _NOTHING:
            return None
        raise


def file_digests(
    root: Path,
    name: str,
    *,
    leave_out: Collection[Path] = (),
    new_digest: NewDigest = plain_digest,
    most_bytes: int | None = None,
    copied_below: str = "",
    relative_links: bool = False,
    visitor: Visitor | None = None,
) -> dict[str, str]:
    """Name → digest of all that is at and below `root`, which is called `name`; nothing where there is none.

    A link counts with where it leads to, and what is there counts as well. What is left out isn't left out under
    another name of the same file, as by a link: that name may be one that is read. A folder that several links lead to
    is read once. What git keeps for itself (`.git`) isn't read. Raises UsageError for what can't be read, or is neither
    a file nor a folder, for a link to a folder that is left out, and where all files together have more than
    `most_bytes`. `copied_below`: files below it are copies of those without that beginning, absolute links included.
    With a `visitor`, which is told of each of them, no content is read, and files have no digest. `relative_links`: an
    absolute link counts as the relative one to the same place, which it has in a copy as well.
    """
    read = 0
    if copied_below:  # what is left out under its own name may have been copied under another one
        leave_out = [*leave_out, *(_copy_of(path, copied_below) for path in leave_out)]
    left_out = {found: os.path.realpath(path) for path in leave_out if (found := identity(path)) is not None}
    by_name = {os.path.join(os.path.realpath(path.parent), path.name) for path in leave_out}
    seen: set[tuple[int, int]] = set()

    def another_name(path: Path) -> bool:
        return path.is_symlink() and os.path.join(os.path.realpath(path.parent), path.name) not in by_name

    def of(path: Path, name: str) -> Iterator[tuple[str, str]]:
        nonlocal read
        if is_link := path.is_symlink():
            if visitor:
                visitor.link(path)
            leads = os.readlink(path).removeprefix(copied_below)
            if relative_links and leads.startswith(os.sep):
                leads = os.path.relpath(leads, os.path.realpath(path.parent))
            yield f"link {name}", _digest(new_digest(f"link {name}"), os.fsencode(leads))
        found = _there(path)
        if found is None or (path.name == _GIT and not is_link):
            return
        place, mode = (found.st_dev, found.st_ino), found.st_mode
        if place in left_out and left_out[place] == os.path.realpath(path):
            if not another_name(path):
                return
            if path.is_dir():
                raise UsageError(
                    f"{path} is a link to {os.path.realpath(path)}, which an approval can't cover",
                    remedy="Remove the link.",
                )
        if stat.S_ISDIR(mode):
            if visitor:
                visitor.content(path)
            yield f"{name}/", _digest(new_digest(f"{name}/"), b"")
            if place not in seen:
                seen.add(place)
                for child in sorted(os.listdir(path)):
                    yield from of(path / child, f"{name}/{child}" if name else child)
        elif stat.S_ISREG(mode):
            read += found.st_size
            if most_bytes is not None and read > most_bytes:
                raise UsageError(
                    f"{root} has more than {most_bytes} bytes of inputs", remedy="Move large files out of the folder."
                )
            if visitor:
                visitor.content(path)
                yield name, ""
                return
            # Whether it may be executed decides what Ansible takes an inventory for.
            kind = b"program\0" if mode & stat.S_IXUSR else b"file\0"
            yield name, _file_digest(new_digest(name), kind, path)
        else:
            kind_of_file = next((text for is_kind, text in _KINDS if is_kind(mode)), "no file")
            raise UsageError(
                f"{path} is {kind_of_file}, which can't be an input of a run", remedy="Remove it from the folder."
            )

    try:
        return unique(of(root.absolute(), name))
    except OSError as error:
        raise UsageError(f"{error.filename}, an input of the run, can't be read: {error.strerror}") from error
    except RecursionError:
        raise UsageError(f"{root}, an input of the run, has folders that are nested too deeply") from None


def _copy_of(path: Path, copied_below: str) -> Path:
    return Path(f"{copied_below}{os.path.realpath(path.parent)}") / path.name


def canonical(value: Any) -> str:
    """Values as a text that is the same for the same values, in whatever order their keys came."""
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{key!r}:{canonical(item)}" for key, item in value.items())) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(canonical, value)) + "]"
    return repr(value)


def digest_of(value: Any) -> str:
    """Of values as `canonical` has them; names of files may have bytes that are no text."""
    return hashlib.sha256(canonical(value).encode(errors="surrogateescape")).hexdigest()


def unique(found: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Inputs by their names. A file whose name is that of another input, such as a link, must not stand for it.

    Raises UsageError for two of one name.
    """
    digests: dict[str, str] = {}
    for name, digest in found:
        if name in digests:
            raise UsageError(f"two inputs of the run have the name {name!r}", remedy="Rename one of them.")
        digests[name] = digest
    return digests


def _digest(new: Digest, content: bytes) -> str:
    new.update(content)
    return new.hexdigest()


def _file_digest(new: Digest, kind: bytes, path: Path) -> str:
    """Read piece by piece: a folder may hold anything."""
    new.update(kind)
    with open_plain(path) as file:
        while piece := file.read(1024 * 1024):
            new.update(piece)
    return new.hexdigest()
