"""Reads a kubeconfig into an address, TLS settings and credentials."""

from __future__ import annotations

import base64
import binascii
import contextlib
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from upgrader.config.yaml_document import Document, read_mapping, shown
from upgrader.errors import ConfigError, UsageError

__all__ = ["ApiEndpoint", "read_endpoint"]


@dataclass(frozen=True)
class ApiEndpoint:
    """The API server of a kubeconfig's context."""

    host: str
    port: int
    tls: ssl.SSLContext = field(repr=False)
    """For HTTP/1.1."""
    tls_http2: ssl.SSLContext = field(repr=False)
    """For HTTP/2 if the server supports it, and for HTTP/1.1 otherwise."""
    server_name: str
    """The name that its certificate must be valid for."""
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

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
        return replace(self, host=url.hostname, port=port, server_name=url.hostname, path="")


def read_endpoint(kubeconfig: Path, context: str = "") -> ApiEndpoint:
    """The endpoint of a context ("": the current one). Raises ConfigError for what is missing or unusable."""
    document = read_mapping(kubeconfig)
    chosen = _named(document, "contexts", context or str(document.data.get("current-context") or ""), "context")
    cluster = _named(document, "clusters", str(chosen.get("cluster", "")), "cluster")
    user = _named(document, "users", str(chosen.get("user", "")), "user")
    url = urlsplit(str(cluster.get("server", "")))
    if url.scheme != "https" or not url.hostname:
        raise ConfigError(f"{shown(kubeconfig)}: server {cluster.get('server')!r} is not an https:// address")
    headers = {}
    if token := _token(kubeconfig, user):
        headers["Authorization"] = f"Bearer {token}"
    elif not any(key.startswith("client-certificate") for key in user):
        raise ConfigError(
            f"{shown(kubeconfig)}: its user has neither a client certificate nor a token",
            remedy="Use a kubeconfig with either, or set `availability.requestsPerSecond: 0`.",
        )
    return ApiEndpoint(
        host=url.hostname,
        port=url.port or 443,
        tls=_tls(kubeconfig, cluster, user, ["http/1.1"]),
        tls_http2=_tls(kubeconfig, cluster, user, ["h2", "http/1.1"]),
        server_name=str(cluster.get("tls-server-name") or url.hostname),
        path=url.path.rstrip("/"),
        headers=headers,
    )


def _named(document: Document, kind: str, name: str, key: str) -> Mapping[str, Any]:
    for item in document.data.get(kind) or ():
        if item.get("name") == name:
            found: Mapping[str, Any] = item.get(key) or {}
            return found
    raise document.error((kind,), f"there is no {key} named '{name}'")


def _token(kubeconfig: Path, user: Mapping[str, Any]) -> str:
    if path := user.get("tokenFile"):
        return (kubeconfig.parent / str(path)).read_text().strip()
    return str(user.get("token") or "")


def _tls(kubeconfig: Path, cluster: Mapping[str, Any], user: Mapping[str, Any], protocols: list[str]) -> ssl.SSLContext:
    if cluster.get("insecure-skip-tls-verify"):
        raise ConfigError(
            f"{shown(kubeconfig)}: insecure-skip-tls-verify is set, so any machine could pose as the API server",
            remedy="Give the cluster's certificate-authority instead.",
        )
    try:
        with _file(kubeconfig, cluster, "certificate-authority") as authority:
            tls = ssl.create_default_context(cafile=authority)
        # Python 3.13 requires RFC 5280's key identifiers, which kubeadm's certificates lack; all else is checked.
        tls.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
        tls.set_alpn_protocols(protocols)
        with _file(kubeconfig, user, "client-certificate") as certificate, _file(kubeconfig, user, "client-key") as key:
            if certificate is not None:
                tls.load_cert_chain(certificate, key)
    except (OSError, binascii.Error) as error:  # ssl.SSLError is an OSError
        raise ConfigError(f"{shown(kubeconfig)}: its certificates can't be used: {error}") from error
    return tls


@contextlib.contextmanager
def _file(kubeconfig: Path, section: Mapping[str, Any], key: str) -> Iterator[str | None]:
    """A PEM as a file, as `ssl` reads keys from files only; inline data is in a temporary one (0600) meanwhile."""
    if data := section.get(f"{key}-data"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(base64.b64decode(data, validate=True))
            file.flush()
            yield file.name
    elif path := section.get(key):
        yield str(kubeconfig.parent / str(path))
    else:
        yield None
