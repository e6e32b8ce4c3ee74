"""What stands between a client and the API server, as a load balancer does, and lets watches fall silent."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from bench.guard.originals.programs import Certificate
from testkit.ports import free_port

__all__ = ["Between", "Silence", "between"]

_LOOK_SECONDS = 0.2
_END_SECONDS = 2.0
"""What ends sooner may be taken for a server that stops."""
_LARGEST = 16 << 20
_OF_A_CONNECTION = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}


class Silence(Enum):
    """How a watch tells nothing."""

    HANGS = "hangs"
    """It stays open, until the API server ends it."""
    ENDS = "ends"
    """It ends in good order, again and again."""


class Between:
    """Lists, reads and writes pass. A watch that has been silent stays so: what it has swallowed is lost."""

    def __init__(self, server: str, kubeconfig: Path) -> None:
        self._server, self.kubeconfig = server, kubeconfig
        """Its clients': the server is this one."""
        self._silence: Silence | None = None
        self._of = ""

    def fall_silent(self, how: Silence, of: str = "") -> None:
        """All watches of a resource, such as `pods`; "": of all."""
        self._silence, self._of = how, of

    def speak(self) -> None:
        """New watches do."""
        self._silence = None

    async def serve(self, port: int, tls: SSLContext, ready: threading.Event, ended: threading.Event) -> None:
        """Until `ended`."""
        async with aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout()) as session:

            async def passes(request: web.Request) -> web.StreamResponse:
                return await self._passes(session, request)

            application = web.Application(client_max_size=_LARGEST)
            application.router.add_route("*", "/{path:.*}", passes)
            runner = web.AppRunner(application, shutdown_timeout=1, access_log=None)
            await runner.setup()
            try:
                await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
                ready.set()
                while not ended.is_set():
                    await asyncio.sleep(_LOOK_SECONDS)
            finally:
                await runner.cleanup()

    async def _passes(self, session: aiohttp.ClientSession, request: web.Request) -> web.StreamResponse:
        url = URL(f"{self._server}{request.raw_path}", encoded=True)
        body = await request.read()
        # The API server's certificate is its own; both are on this machine.
        async with session.request(
            request.method, url, data=body or None, headers=_passed(request.headers), ssl=False, allow_redirects=False
        ) as answer:
            told = web.StreamResponse(status=answer.status, headers=_passed(answer.headers))
            with suppress(ConnectionResetError):  # its client has gone
                await told.prepare(request)
                if request.query.get("watch") in ("1", "true"):
                    await self._watched(answer.content, told, request.path.rpartition("/")[2])
                else:
                    async for chunk in answer.content.iter_any():
                        await told.write(chunk)
                await told.write_eof()
            return told

    async def _watched(self, events: aiohttp.StreamReader, told: web.StreamResponse, of: str) -> None:
        silent_since: float | None = None
        reading = asyncio.ensure_future(events.readany())
        try:
            while True:
                await asyncio.wait([reading], timeout=_LOOK_SECONDS)
                if silent_since is None and self._silence is not None and self._of in ("", of):
                    silent_since = time.monotonic()
                if (
                    silent_since is not None
                    and self._silence is Silence.ENDS
                    and time.monotonic() - silent_since > _END_SECONDS
                ):
                    return
                if reading.done():
                    if not (chunk := reading.result()):
                        return
                    if silent_since is None:
                        await told.write(chunk)
                    reading = asyncio.ensure_future(events.readany())
        finally:
            reading.cancel()


@contextmanager
def between(kubeconfig: Path, tls: Certificate, folder: Path) -> Iterator[Between]:
    """One that runs in a thread, until the end of the block; `folder` is for its kubeconfig."""
    config, port = yaml.safe_load(kubeconfig.read_text()), free_port()
    cluster = config["clusters"][0]["cluster"]
    found = Between(cluster["server"], folder / "kubeconfig-between")
    cluster |= {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(tls.certificate)}
    found.kubeconfig.write_text(yaml.safe_dump(config))
    context = SSLContext(PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate, tls.key)
    ready, ended = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(lambda: asyncio.run(found.serve(port, context, ready, ended)))
        try:
            while not ready.wait(_LOOK_SECONDS):
                if serving.done():
                    serving.result()
            yield found
        finally:
            ended.set()
            serving.result()


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _OF_A_CONNECTION}
