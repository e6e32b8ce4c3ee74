"""The address of a mirror: `https://HOST[:PORT][/PATH]`; without TLS only on this machine."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit

from upgrader.errors import UsageError

__all__ = ["Address", "is_loopback", "origin_of", "read_address"]


@dataclass(frozen=True)
class Address:
    """A mirror's URL in two parts: `https://HOST:PORT`, and the path below it, without slashes at its ends."""

    host: str
    path: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (self.host, self.path) if part)

    def file(self, path: str) -> str:
        """The URL of a file below the mirror's."""
        return f"{self}/{path}"

    def registry(self, repository: str, rest: str) -> str:
        """A URL of the registry's API: its version comes before the path of the repositories."""
        return "/".join(part for part in (self.host, "v2", self.path, repository, rest) if part)


def read_address(option: str, text: str) -> Address:
    """The address in an option. UsageError doesn't repeat a text that may contain a password."""
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError:
        parts, host = urlsplit(""), None
    if "@" in text:
        raise UsageError(
            f"{option} has a user name or a password in its URL: other users can read it in the process list",
            remedy="Mirrors are read without a login. Remove everything before the @.",
        )
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment or not _plain(text):
        raise UsageError(f"{option} is not of the form https://HOST[:PORT][/PATH]")
    if parts.scheme == "http" and not is_loopback(host):
        raise UsageError(
            f"{option} {text} must use TLS, because it is not on this machine",
            remedy=f"Use https://{parts.netloc}; for your own CA, set SSL_CERT_FILE=FILE.",
        )
    return Address(f"{parts.scheme}://{parts.netloc}", parts.path.strip("/"))


def origin_of(url: str) -> tuple[str, str | None, int | None]:
    """Scheme, host and port: a redirect must not change these."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"https": 443, "http": 80}.get(parts.scheme)


def is_loopback(host: str | None) -> bool:
    """Whether that is certainly this machine: only localhost is known to be."""
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _plain(text: str) -> bool:
    return text.isascii() and all(char.isprintable() and not char.isspace() for char in text)
