"""HTTP requests to pods: by their IP, with the name that they have in the cluster's DNS as Host."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

import aiohttp
from yarl import URL

__all__ = ["PodCalls"]

_MOST_BYTES = 65536


class PodCalls:
    """A context manager, used in one event loop. Names needn't be resolved, and no proxy is asked."""

    def __init__(self, timeout_seconds: float = 5.0, at_once: int = 32) -> None:
        """`at_once`: requests to the pods of one namespace; the others wait for their turn."""
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._seconds, self._at_once = timeout_seconds, at_once
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # A pod that has been replaced has the same name and another IP: no connection is kept.
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        # What is compressed may be a thousand times as large.
        self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout, auto_decompress=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    def turn(self, namespace: str) -> asyncio.Semaphore:
        """A context manager in which a pod of this namespace is called: pods of another namespace that never answer
        don't delay it.
        """
        return self._turns.setdefault(namespace, asyncio.Semaphore(self._at_once))

    async def send(
        self, method: str, ip: str, *, scheme: str, port: int, path: str, host: str
    ) -> tuple[int, bytes, str]:
        """(HTTP status, the body's beginning, why there is none of both); the status is 0 where there is none."""
        assert self._session is not None, "it is used as a context manager"
        if not ip:
            return 0, b"", "it has no IP"
        url = URL(f"{scheme}://{f'[{ip}]' if ':' in ip else ip}:{port}{path}", encoded=True)
        name = host.partition(":")[0].rstrip(".") if scheme == "https" else None
        try:
            async with self._session.request(
                method, url, headers={"Host": host}, server_hostname=name, allow_redirects=False
            ) as response:
                return response.status, await response.content.read(_MOST_BYTES), ""
        except TimeoutError:
            return 0, b"", f"no answer within {self._seconds:g} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return 0, b"", str(error) or type(error).__name__
