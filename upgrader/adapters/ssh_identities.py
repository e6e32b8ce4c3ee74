"""Which of an agent's keys a login uses, as OpenSSH has it: a file stands for the agent's key of the same public half.

So IdentityFile may name a public key, whose private half only an agent has (a password manager, a smart card), or a
private key with a passphrase; and with IdentitiesOnly no other key of the agent's is offered.
"""

from __future__ import annotations

import base64
import binascii
import os
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import paramiko

__all__ = ["DEFAULT_FILES", "ChosenKeys", "is_public", "public_half"]

DEFAULT_FILES = tuple(f"~/.ssh/id_{kind}" for kind in ("rsa", "ecdsa", "ecdsa_sk", "ed25519", "ed25519_sk"))
"""What OpenSSH takes where no IdentityFile is configured."""

_MAGIC = b"openssh-key-v1\0"
_MOST_BYTES = 65_536


class ChosenKeys:
    """The agent's keys for one login, in place of `paramiko.Agent`: those of the files first, then the others."""

    def __init__(self, files: Sequence[Path], *, only: bool) -> None:
        """`only`: no others than those of the files (IdentitiesOnly)."""
        self._agent = _agent()
        wanted = [half for file in files if (half := public_half(file)) is not None]
        keys = self._agent.get_keys() if self._agent else ()
        mine = [key for half in wanted for key in keys if key.blob == half]
        self._keys = (*mine, *(() if only else (key for key in keys if key not in mine)))

    def get_keys(self) -> tuple[paramiko.AgentKey, ...]:
        """In the order in which they are offered."""
        return self._keys

    def close(self) -> None:
        """Close the connection to the agent."""
        if self._agent is not None:
            self._agent.close()


def _agent() -> paramiko.Agent | None:
    """None where none answers, as for OpenSSH: it has no keys then."""
    import paramiko

    try:
        with socket.socket(socket.AF_UNIX) as tried:  # paramiko leaves its own open where this fails
            tried.connect(os.environ.get("SSH_AUTH_SOCK", ""))
        return paramiko.Agent()
    except (paramiko.SSHException, OSError):
        return None


def is_public(file: Path) -> bool:
    """Whether the file has a public key alone."""
    return _public_line(_start(file)) is not None


def public_half(file: Path) -> bytes | None:
    """The public half of a key's file: its own, that of FILE.pub beside it, or the one in OpenSSH's private format."""
    text = _start(file)
    return _public_line(text) or _public_line(_start(file.with_name(f"{file.name}.pub"))) or _in_private(text)


def _start(file: Path) -> bytes:
    try:
        with file.open("rb") as handle:
            return handle.read(_MOST_BYTES)
    except OSError:
        return b""


def _public_line(text: bytes) -> bytes | None:
    """`TYPE BASE64 [COMMENT]`, of which the data begins with the type again."""
    kind, *rest = text.strip().split(None, 2) or [b""]
    try:
        data = base64.b64decode(rest[0], validate=True) if rest else b""
    except binascii.Error:
        return None
    return data if data.startswith(struct.pack(">I", len(kind)) + kind) else None


def _in_private(text: bytes) -> bytes | None:
    """It isn't encrypted there, whatever the rest is (PROTOCOL.key of OpenSSH)."""
    lines = text.split(b"-----BEGIN OPENSSH PRIVATE KEY-----")[-1].partition(b"-----END")[0]
    try:
        data = base64.b64decode(b"".join(lines.split()), validate=True)
        if not data.startswith(_MAGIC):
            return None
        at = len(_MAGIC)
        for _ in range(3):  # cipher, its key's derivation, and that one's options
            at += 4 + struct.unpack_from(">I", data, at)[0]
        length = struct.unpack_from(">I", data, at + 4)[0]  # behind the number of keys
    except (binascii.Error, struct.error):
        return None
    return data[at + 8 : at + 8 + length] or None
