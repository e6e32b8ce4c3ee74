"""Listening: HTTP, and HTTPS with a certificate that is replaced without a restart."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

from aiohttp import web
from cryptography import x509

from upgrader.in_cluster.guard.runtime.open_connections import LimitedSite
from upgrader.in_cluster.shared.tls_in_memory import load_cert_chain

__all__ = ["ServedCertificate", "listening"]

_LINGER_SECONDS = 1.0
"""For how long what is left of a request is read that was answered before its end."""


class ServedCertificate:
    """What a server shows to new connections; those that are open keep what they began with."""

    def __init__(self) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.ends: datetime | None = None
        """When the one that is shown ends; None before there is one: connections fail until then."""
        self._shown = b""

    def show(self, certificate: bytes, key: bytes) -> None:
        """Use this certificate and key from now on, both PEM. Raises ssl.SSLError if they don't match."""
        if certificate != self._shown:
            load_cert_chain(self.context, certificate, key)
            self.ends = x509.load_pem_x509_certificate(certificate).not_valid_after_utc
            self._shown = certificate

    def why_not(self, now: datetime) -> str:
        """Why connections fail because of it; "" when they don't."""
        if self.ends is None:
            return "not issued yet"
        return f"expired at {self.ends:%Y-%m-%dT%H:%M:%SZ}" if self.ends <= now else ""


@asynccontextmanager
async def listening(
    app: web.Application, port: int, context: ssl.SSLContext | None = None, *, end_seconds: float = 5.0
) -> AsyncIterator[int]:
    """Serve on all addresses until the end of the block; 0: at a free port of this machine alone. The port.

    At the end, requests that have begun get up to `end_seconds`.
    """
    runner = web.AppRunner(app, shutdown_timeout=end_seconds)
    await runner.setup()
    try:
        await LimitedSite(runner, None if port else "127.0.0.1", port, context, lingering=_LINGER_SECONDS).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
