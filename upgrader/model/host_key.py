"""The key with which a machine identifies itself over SSH."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

__all__ = ["HostKey"]


@dataclass(frozen=True)
class HostKey:
    """As `known_hosts` writes it; `content` is base64."""

    kind: str
    content: str
    known_as: str = ""
    """The machine's name in `known_hosts`, if it isn't the requested address: an alias, `[ADDRESS]:PORT`."""

    @property
    def fingerprint(self) -> str:
        """As OpenSSH shows it: `SHA256:…`."""
        digest = hashlib.sha256(base64.b64decode(self.content)).digest()
        return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"

    def line(self, address: str) -> str:
        """The line of `known_hosts` that accepts this key alone for the machine that was found at that address."""
        return f"{self.known_as or address} {self.kind} {self.content}\n"
