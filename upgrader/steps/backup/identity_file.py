"""The private key that reads a backup: a file as `age-keygen` writes it, too."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from upgrader.errors import UsageError

__all__ = ["read_identities", "write_identity"]

_MOST_BYTES = 1 << 16
_PREFIX = "AGE-SECRET-KEY-1"
_REMEDY = "Pass the file that `upgrader backup keygen` or `age-keygen` wrote: --identity FILE."


def write_identity(path: Path, public: str, private: str) -> None:
    """Write a new file, for its owner alone. Raises UsageError where there is one: a lost key reads no backup."""
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
            file.write(f"# public key: {public}\n{private}\n")
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError as error:
        raise UsageError(
            f"{path} already exists. upgrader doesn't replace a private key, because no other key can decrypt its "
            "backups",
            remedy="Choose a new file.",
        ) from error
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}", remedy="Choose another path.") from error


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
