"""The API server that a prober's clients talk to: its address, the proxy to it, and the credentials."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from upgrader.config.kubeconfig import Login
from upgrader.config.proxy import Proxy
from upgrader.config.yaml_document import shown
from upgrader.errors import ConfigError, UsageError
from upgrader.gates.availability.credentials import Credentials

__all__ = ["ApiEndpoint", "read_endpoint"]


@dataclass(frozen=True)
class ApiEndpoint:
    """The API server of a kubeconfig's context."""

    host: str
    port: int
    credentials: Credentials = field(repr=False)
    """Shared by all addresses of the cluster."""
    server_name: str
    """The name that its certificate must be valid for."""
    path: str = ""
    proxy: Proxy | None = None
    proxy_to: Callable[[str], Proxy | None] = field(default=lambda _: None, repr=False)
    """The proxy to another address of the cluster."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The header fields of every request, as of now."""
        return self.credentials.headers

    @property
    def tls(self) -> ssl.SSLContext:
        """For HTTP/1.1, as of now."""
        return self.credentials.tls

    @property
    def tls_http2(self) -> ssl.SSLContext:
        """For HTTP/2 if the server supports it, and for HTTP/1.1 otherwise, as of now."""
        return self.credentials.tls_http2

    @property
    def authority(self) -> str:
        """`HOST:PORT`, as in URLs and `Host` fields."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def at(self, address: str) -> ApiEndpoint:
        """The same cluster at another address (`https://HOST[:PORT]`), whose certificate must be valid for HOST.

        Raises UsageError for any other text.
        """
        url = urlsplit(address)
        try:
            port = url.port or 443
        except ValueError:
            port = 0
        if url.scheme != "https" or not url.hostname or not port or url.path.rstrip("/") or url.query or url.username:
            raise UsageError(f"'{address}' is not an address; write it like https://10.0.0.1:6443")
        proxy = self.proxy_to(address)
        return replace(self, host=url.hostname, port=port, server_name=url.hostname, path="", proxy=proxy)


def read_endpoint(kubeconfig: Path, context: str = "") -> ApiEndpoint:
    """The endpoint of a context ("": the current one). Raises ConfigError for what is missing or unusable."""
    login = Login(kubeconfig, context)
    found = login.current
    url = urlsplit(found.server)
    if url.scheme != "https" or not url.hostname:
        raise ConfigError(f"{shown(kubeconfig)}: server {found.server!r} is not an https:// address")
    return ApiEndpoint(
        host=url.hostname,
        port=url.port or 443,
        credentials=Credentials(login),
        server_name=str(found.cluster.get("tls-server-name") or url.hostname),
        path=url.path.rstrip("/"),
        proxy=found.proxy(),
        proxy_to=found.proxy,
    )
