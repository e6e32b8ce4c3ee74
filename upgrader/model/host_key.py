"""The key with which a machine identifies itself over SSH."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass

__all__ = ["HostKey"]


@dataclass(frozen=True)
class HostKey:
    """As `known_hosts` has it; `content` is base64."""

    kind: str
    content: str

    @property
    def fingerprint(self) -> str:
        """As OpenSSH shows it: `SHA256:…`."""
        digest = hashlib.sha256(base64.b64decode(self.content)).digest()
        return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"

    def line(self, address: str) -> str:
        """The line of `known_hosts` that accepts this key alone at that address (port 22)."""
        return f"{address} {self.kind} {self.content}\n"
