"""The credentials of a prober's clients, which may change while they work."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from typing import Any

from upgrader.config.client_tls import client_tls
from upgrader.config.kubeconfig import KubeconfigContext, Login
from upgrader.config.yaml_document import shown
from upgrader.errors import ConfigError

__all__ = ["Credentials"]


class Credentials:
    """Headers and TLS settings of all requests with one kubeconfig's context."""

    headers: Mapping[str, str]
    tls: ssl.SSLContext
    """For HTTP/1.1."""
    tls_http2: ssl.SSLContext
    """For HTTP/2 if the server supports it, and for HTTP/1.1 otherwise."""
    version: int
    """Grows when anything of this changes; `tls` and `tls_http2` are other objects only if certificates change."""

    def __init__(self, login: Login) -> None:
        """Raises ConfigError."""
        self._login = login
        self._certificates: Mapping[str, Any] | None = None
        self._take()

    async def keep_fresh(self) -> None:
        """Read them again when it is time; the old ones stay when that fails."""
        # In a thread: a credential plugin takes seconds, in which requests must go on.
        await asyncio.to_thread(self._login.keep_fresh)
        with contextlib.suppress(ConfigError):
            self._take()

    async def renewed(self, refused: int) -> bool:
        """Whether there are others than those of version `refused`, which the server refused."""
        try:
            await asyncio.to_thread(self._login.renew, refused)
            self._take()
        except ConfigError:
            return False
        return self.version != refused

    def _take(self) -> None:
        version, context = self._login.version, self._login.current
        token = context.user.get("token")
        if not token and not any(key.startswith("client-certificate") for key in context.user):
            raise ConfigError(
                f"{shown(context.kubeconfig)}: its user has neither a client certificate nor a token",
                remedy="Use a kubeconfig with either, or set `availability.requestsPerSecond: 0`.",
            )
        # Plugins and files may give the same again; a new TLS context would end the kept connections.
        certificates = {**context.cluster, **_contents(context), "files": context.fingerprint}
        if certificates != self._certificates:
            self.tls, self.tls_http2 = client_tls(context, ["http/1.1"]), client_tls(context, ["h2", "http/1.1"])
            self._certificates = certificates
        self.headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.version = version


def _contents(context: KubeconfigContext) -> Mapping[str, Any]:
    return {key: value for key, value in context.user.items() if key.startswith("client-")}
