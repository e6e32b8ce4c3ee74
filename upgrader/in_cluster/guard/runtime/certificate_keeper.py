"""Keeps the certificate that the webhooks show: from the Secret, with its authority injected, or from files."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.runtime.ca_injection import Injection
from upgrader.in_cluster.guard.runtime.certificate_secret import CertificateSecret
from upgrader.in_cluster.guard.runtime.http_servers import ServedCertificate

__all__ = ["CertificateKeeper", "FileKeeper"]

_EVERY_SECONDS = 15.0
"""What another replica has renewed is shown by then."""


class CertificateKeeper:
    """Reads the Secret before each injection, so that a replica that is behind injects nothing old."""

    def __init__(
        self,
        secret: CertificateSecret,
        served: ServedCertificate,
        injection: Injection | None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`injection` None: who applies the webhook configurations takes care of their caBundle."""
        self._secret, self._served, self._injection, self._now = secret, served, injection, now
        self._changed = asyncio.Event()

    def webhooks_changed(self, *_: object) -> None:
        """A configuration is another one now: look at once."""
        self._changed.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._changed.clear()
            try:
                await self.once()
            except (ApiAway, ApiRefused) as error:
                LOG.warning(
                    "reconciling the certificate failed", extra={"reason": str(error), "again_in": _EVERY_SECONDS}
                )
                await asyncio.sleep(_EVERY_SECONDS)
                continue
            try:
                async with asyncio.timeout(_EVERY_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def once(self) -> None:
        """Raises ApiAway, ApiRefused."""
        settled = self._injection.settled() if self._injection else b""
        bundle = await self._secret.current(self._now(), injected=settled)
        self._served.show(bundle.leaf.certificate, bundle.leaf.key)
        if self._injection:
            await self._injection.inject(bundle.trusted)


class FileKeeper:
    """Serves the certificate of files, which another program renews."""

    def __init__(self, certificate: Path, key: Path, served: ServedCertificate) -> None:
        self._certificate, self._key, self._served = certificate, key, served

    async def run(self) -> None:
        """Until cancelled. Files that can't be used for a moment leave the last ones in use."""
        while True:
            try:
                self._served.show(self._certificate.read_bytes(), self._key.read_bytes())
            except (OSError, ssl.SSLError) as error:
                LOG.warning("the certificate's files can't be used", extra={"reason": str(error)})
            await asyncio.sleep(_EVERY_SECONDS)
