"""The HTTPS application for API servers: parses a review, calls the role of its path, and answers in time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from aiohttp import web

from upgrader.in_cluster.guard.core.admission import (
    AdmissionRequest,
    Answer,
    NotAnAdmissionReview,
    allow,
    parse,
    review,
)
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.roles.request_limits import NoRoom, Room
from upgrader.in_cluster.guard.runtime.metrics import Metrics

__all__ = ["Decide", "admission_app"]

Decide = Callable[[AdmissionRequest], Awaitable[Answer]]
"""Raises ApiAway or ApiRefused if it can't decide: HTTP 500, and failurePolicy decides. NotAnAdmissionReview: 400."""

_SHARE = 0.9
"""Of a request's timeout: the rest is for the network."""


def admission_app(
    roles: Mapping[str, Decide],
    metrics: Metrics,
    *,
    timeout_seconds: float,
    dry_run: bool = False,
) -> web.Application:
    """`roles`: by path. With `dry_run` everything is allowed; what would be denied is counted, and answered as a
    warning.
    """
    app, room = web.Application(), Room()
    for path, decide in roles.items():
        app.router.add_post(path, _Handler(path, decide, metrics, timeout_seconds * _SHARE, dry_run, room).handle)
    return app


class _Handler:
    def __init__(self, path: str, decide: Decide, metrics: Metrics, seconds: float, dry_run: bool, room: Room) -> None:
        self._path, self._decide, self._metrics = path, decide, metrics
        self._seconds, self._dry_run, self._room = seconds, dry_run, room

    async def handle(self, request: web.Request) -> web.Response:
        """The HTTP status: 200 with a review, 400 if the body is none, 413 if there is no room for it, 500 if no
        decision is possible in time.
        """
        begun = time.monotonic()
        try:
            with self._room.share(request.remote or "") as share:
                async with asyncio.timeout(self._seconds):
                    return await self._answered(await share.body(request))
        except TimeoutError:
            return self._failed(f"no decision within {self._seconds:g} s")
        except NoRoom as error:
            return self._failed(str(error), 413)
        except (ApiAway, ApiRefused) as error:
            return self._failed(str(error))
        finally:
            self._metrics.seconds.labels(self._path).observe(time.monotonic() - begun)

    async def _answered(self, body: bytes | bytearray) -> web.Response:
        try:
            asked = parse(body)
            answer = await self._decide(asked)
        except NotAnAdmissionReview as error:
            self._count("bad_request")
            return web.Response(status=400, text=f"{error}\n")
        kind = "allowed" if answer.allowed else "denied"
        if not answer.allowed:
            note = {"path": self._path, "request": str(asked), "user": asked.user, "reason": answer.message}
            if self._dry_run:
                kind, answer = "would_deny", replace(allow(f"would be denied: {answer.message}"), audit=answer.audit)
            LOG.info(kind.replace("_", " "), extra={**note, "dry_run": asked.dry_run})
        self._count(kind)
        return web.json_response(review(asked.uid, answer))

    def _failed(self, reason: str, status: int = 500) -> web.Response:
        self._count("failed")
        LOG.warning("a request failed", extra={"path": self._path, "reason": reason})
        return web.Response(status=status, text=f"{reason}\n")

    def _count(self, answer: str) -> None:
        self._metrics.requests.labels(self._path, answer).inc()
