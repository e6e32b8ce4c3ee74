"""Files of a cluster folder that anyone may have written: which of them may be opened at all.

Git keeps symbolic links as they are, so that a file of the folder may be any file of this machine. Reading a named pipe
never ends, and reading a device may not either.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from upgrader.config.yaml_document import shown
from upgrader.errors import ConfigError

__all__ = ["NotOpened", "UntrustedFolder"]

_MOST_BYTES = 4 * 1024 * 1024
_MOST_ENTRIES = 10_000
_MOST_BYTES_OF_ALL = 64 * 1024 * 1024


class NotOpened(ConfigError):
    """A file that is not opened, so its content is unknown."""

    def __init__(self, path: Path, why: str, where: str = "") -> None:
        """`where` is the place, as FILE:LINE, that names the path."""
        super().__init__(
            f"{where or shown(path)}: {f'{shown(path)} is ' if where else ''}not opened: {why}",
            remedy="Offline, only regular files inside the folder are read.",
        )
        self._path, self._why = path, why

    def named_in(self, where: str) -> NotOpened:
        """The same, with the place that names the path."""
        return NotOpened(self._path, self._why, where)


@dataclass(frozen=True)
class UntrustedFolder:
    """A folder of which nothing is trusted. What leads out of it is not opened, whatever it leads to."""

    root: Path

    def check(self, path: Path) -> None:
        """Raises NotOpened unless the path is a file of ordinary size in the folder, or a folder in it, or nothing."""
        try:
            real = path.resolve()
            if not real.is_relative_to(self.root.resolve()):
                raise NotOpened(path, "it is outside the folder")
            found = real.stat()
        except (FileNotFoundError, NotADirectoryError):
            return
        except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: links in a circle; ValueError: a NUL
            raise NotOpened(path, str(error)) from error
        if stat.S_ISDIR(found.st_mode):
            readable = os.access(real, os.R_OK | os.X_OK)
        elif stat.S_ISREG(found.st_mode):
            readable = os.access(real, os.R_OK)
            if found.st_size > _MOST_BYTES:
                raise NotOpened(path, f"it has {found.st_size} bytes, more than {_MOST_BYTES}")
        else:
            raise NotOpened(path, "it is not a regular file")
        if not readable:
            raise NotOpened(path, "permission denied")

    def check_tree(self, path: Path) -> None:
        """The same for all that is in a folder, links followed, as Helm and Ansible do. Raises NotOpened."""
        waiting, entries, size = [(path, frozenset[tuple[int, int]]())], 0, 0
        seen: set[tuple[int, int]] = set()
        while waiting:
            here, above = waiting.pop()
            self.check(here)
            entries += 1
            try:
                if here.is_dir():
                    found = here.stat()
                    place = found.st_dev, found.st_ino
                    if place in above:
                        raise NotOpened(here, "it is a link to a folder that contains it")
                    if place not in seen:
                        seen.add(place)
                        waiting += [(each, above | {place}) for each in here.iterdir()]
                elif here.is_file():
                    size += here.stat().st_size
            except OSError as error:
                raise NotOpened(here, str(error)) from error
            if entries + len(waiting) > _MOST_ENTRIES or size > _MOST_BYTES_OF_ALL:
                raise NotOpened(path, f"it has more than {_MOST_ENTRIES} files or {_MOST_BYTES_OF_ALL} bytes")
