"""The private key that reads a backup: a file as `age-keygen` writes it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from upgrader.errors import UsageError

__all__ = ["read_identities"]

_MOST_BYTES = 1 << 16
_PREFIX = "AGE-SECRET-KEY-1"
_REMEDY = "Give the file that `age-keygen` wrote: --identity FILE."


def read_identities(path: Path) -> tuple[str, ...]:
    """The keys in a file. Raises UsageError, without a key in its words, also where other users may read the file."""
    try:
        # A pipe without a writer would be waited for.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_MOST_BYTES) if stat.S_ISREG(mode) else b""
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}", remedy=_REMEDY) from error
    if not stat.S_ISREG(mode):
        raise UsageError(f"{path} is not a file", remedy=_REMEDY)
    if mode & 0o077:
        raise UsageError(
            f"{path} has the private key of your backups, and other users can read it (mode {stat.S_IMODE(mode):04o})",
            remedy=f"chmod 600 {path}",
        )
    found = []
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if not text.upper().startswith(_PREFIX):
            raise UsageError(f"{path}:{number}: this line is not an age private key ({_PREFIX}…)", remedy=_REMEDY)
        found.append(text)
    if not found:
        raise UsageError(f"{path} has no age private key ({_PREFIX}…)", remedy=_REMEDY)
    return tuple(found)
