"""Where the API server is, how to be sure of it, and who asks: as a pod, or by a kubeconfig."""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upgrader.in_cluster.guard.guard_errors import UsageError
from upgrader.in_cluster.shared.tls_in_memory import load_cert_chain

__all__ = ["SERVICE_ACCOUNT", "Connection", "Credentials", "by_kubeconfig", "in_cluster"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_READ_AGAIN_SECONDS = 60.0
"""The kubelet replaces a token when a fifth of its life is left: minutes at least."""


@dataclass(frozen=True)
class Credentials:
    """What a request carries. `token` is "" where the certificate in `context` says who asks."""

    context: ssl.SSLContext
    token: str = ""


class Connection:
    """The server's address, and credentials that are read again once a minute."""

    def __init__(self, url: str, read: Callable[[], Credentials], clock: Callable[[], float] = time.monotonic) -> None:
        """`read` raises OSError, ssl.SSLError or UsageError for files that can't be used."""
        self.url = url.rstrip("/")
        self._read, self._clock = read, clock
        self._found: Credentials | None = None
        self._read_at = 0.0

    def credentials(self, *, anew: bool = False) -> Credentials:
        """Those to use now. A file that can't be read for a while leaves the last ones in use; raises UsageError
        where there are none.
        """
        if self._found is None or anew or self._clock() - self._read_at >= _READ_AGAIN_SECONDS:
            try:
                self._found = self._read()
                self._read_at = self._clock()
            except (OSError, UsageError) as error:
                if self._found is None:
                    raise UsageError(f"the credential for the API server can't be read: {error}") from error
        return self._found


def in_cluster(environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Connection:
    """As the pod's ServiceAccount. Raises UsageError outside a pod."""
    host, port = (environment.get(f"KUBERNETES_SERVICE_{name}", "") for name in ("HOST", "PORT"))
    if not host or not port:
        raise UsageError("KUBERNETES_SERVICE_HOST isn't set: outside a cluster, set -kubernetes.config-file")
    contexts = _Contexts()

    def read() -> Credentials:
        token = (folder / "token").read_text().strip()
        return Credentials(contexts.trusting((folder / "ca.crt").read_text()), token)

    return Connection(f"https://{f'[{host}]' if ':' in host else host}:{port}", read)


def by_kubeconfig(path: Path, url: str = "") -> Connection:
    """As the current context says, of the server at `url` where that is given. Raises UsageError."""
    import yaml

    try:
        config = yaml.safe_load(path.read_bytes())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        server = url or cluster["server"]
        if cluster.get("insecure-skip-tls-verify") or not server.startswith("https://"):
            raise UsageError(f"{path}: the server must be an https:// URL, without insecure-skip-tls-verify")
        if unknown := user.keys() - _USER:
            raise UsageError(
                f"{path}: user {context['user']} has {', '.join(sorted(unknown))}, which guard doesn't support"
            )
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} can't be used: {type(error).__name__}: {error}") from error
    contexts = _Contexts()

    def read() -> Credentials:
        authority = _content(cluster, "certificate-authority", path).decode()
        pair = tuple(_content(user, name, path) for name in ("client-certificate", "client-key"))
        token = _content(user, "tokenFile", path).decode().strip() or user.get("token", "")
        return Credentials(contexts.trusting(authority, *pair), token)

    return Connection(server, read)


_USER = {
    "token",
    "tokenFile",
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
}


def _named(entries: list[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    raise KeyError(name)


def _content(of: Mapping[str, Any], name: str, kubeconfig: Path) -> bytes:
    if f"{name}-data" in of:
        return base64.b64decode(of[f"{name}-data"])
    return (kubeconfig.parent / of[name]).read_bytes() if name in of else b""


class _Contexts:
    """Makes another context only for another content: a context is what connections are kept by."""

    def __init__(self) -> None:
        self._content: tuple[str, bytes, bytes] | None = None
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    def trusting(self, authority: str, certificate: bytes = b"", key: bytes = b"") -> ssl.SSLContext:
        """One that verifies, and trusts no authority but this. Raises UsageError for an empty one, ssl.SSLError."""
        if (authority, certificate, key) != self._content:
            if not authority.strip():
                raise UsageError("no CA is set to verify the API server")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=authority)
            if certificate:
                load_cert_chain(context, certificate, key)
            self._content, self._context = (authority, certificate, key), context
        return self._context
