"""Gives paramiko the host keys of OpenSSH's files, whose markers (`@revoked`, `@cert-authority`) it can't read."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko

__all__ = ["file_with_key", "load_known_hosts"]

_HASHED = "|1|"
"""How a name begins that is hashed with a salt: `|1|SALT|HASH`."""


def load_known_hosts(client: paramiko.SSHClient, files: Sequence[Path]) -> frozenset[str]:
    """Make the client accept only the files' keys, and no revoked key; returns the revoked keys, in base64. Raises
    OSError. Certificates are not supported: a line for a CA accepts nothing.
    """
    lines = [line for file in files for line in _lines(file)]
    revoked = frozenset(words[3] for words in map(str.split, lines) if words[0] == "@revoked" and len(words) > 3)
    with tempfile.NamedTemporaryFile("w") as plain:
        plain.writelines(f"{line}\n" for line in lines if _readable(line) and revoked.isdisjoint(line.split()))
        plain.flush()
        # "System" keys are read-only; paramiko would write others back.
        client.load_system_host_keys(plain.name)
    return revoked


def file_with_key(files: Sequence[Path], name: str) -> Path | None:
    """The first of these files that has a key of this name, hashed or not; None if none can be read that has."""
    from paramiko.hostkeys import HostKeyEntry, HostKeys

    for file in files:
        keys = HostKeys()
        with contextlib.suppress(OSError):
            for line in filter(_readable, _lines(file)):
                if entry := HostKeyEntry.from_line(line):
                    for shown in entry.hostnames:
                        keys.add(shown, entry.key.get_name(), entry.key)
        if keys.lookup(name):
            return file
    return None


def _lines(file: Path) -> Iterator[str]:
    for line in file.read_text(errors="replace").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            yield line.strip()


def _readable(line: str) -> bool:
    """Whether paramiko can read it: one bad line must not hide all others."""
    import paramiko
    from paramiko.hostkeys import HostKeyEntry, HostKeys, InvalidHostKey

    try:
        entry = None if line.startswith("@") else HostKeyEntry.from_line(line)
        for name in entry.hostnames if entry else ():
            if name.startswith(_HASHED):
                HostKeys.hash_host("", name)  # or paramiko would fail with the first name that is compared with it
    except (paramiko.SSHException, InvalidHostKey, ValueError, IndexError, AssertionError):
        return False
    return entry is not None
