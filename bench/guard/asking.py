"""AdmissionReviews, sent as API servers send them."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

__all__ = ["Said", "at_once", "at_rate", "deletion", "downscale", "p99"]

_CONNECTIONS = 64
_SECONDS = 10.0
"""What an API server waits for an answer, at most."""


@dataclass(frozen=True)
class Said:
    """An answer. `status` 0: there was none."""

    status: int
    allowed: bool
    seconds: float
    """Since it was due."""


def deletion(pod: Any, *, dry_run: bool = False) -> bytes:
    """Of a pod."""
    meta = pod["metadata"]
    resource = {"group": "", "version": "v1", "resource": "pods"}
    asked = {"operation": "DELETE", "resource": resource, "name": meta["name"], "namespace": meta["namespace"]}
    return _review({**asked, "oldObject": pod, "dryRun": dry_run})


def downscale(number: int) -> bytes:
    """Of a StatefulSet, every other one of which has the label `grafana.com/no-downscale`."""
    labels = {"grafana.com/no-downscale": "true"} if number % 2 else {}
    meta = {"name": f"db-{number % 100}", "namespace": "shop", "labels": labels}
    type_ = {"apiVersion": "apps/v1", "kind": "StatefulSet"}
    now, before = ({**type_, "metadata": meta, "spec": {"replicas": replicas}} for replicas in (1, 3))
    resource = {"group": "apps", "version": "v1", "resource": "statefulsets"}
    kind = {"group": "apps", "version": "v1", "kind": "StatefulSet"}
    asked = {"operation": "UPDATE", "kind": kind, "resource": resource, "name": meta["name"], "namespace": "shop"}
    return _review({**asked, "object": now, "oldObject": before})


def _review(request: Any) -> bytes:
    whole = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**whole, "request": {"uid": str(uuid.uuid4()), **request}}).encode()


async def at_rate(
    url: str, reviews: Sequence[bytes], per_second: float, then: Callable[[int, Said], Awaitable[None]] | None = None
) -> list[Said]:
    """Each when it is due, whatever became of those before it. `then`: what follows an answer, by the review's number;
    that takes no part of the answer's time.
    """

    async def ask(number: int, due: float) -> Said:
        said = await _ask(session, url, reviews[number], due)
        if then is not None:
            await then(number, said)
        return said

    async with _session() as session:
        begun = time.monotonic() + 0.1
        asking = []
        for number in range(len(reviews)):
            due = begun + number / per_second
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            asking.append(asyncio.ensure_future(ask(number, due)))
        return await asyncio.gather(*asking)


async def at_once(urls: Sequence[str], reviews: Sequence[bytes], heard: Callable[[int], None]) -> list[Said]:
    """All of them, of several replicas in turn. `heard` is told of each answer, by how many there were before."""
    async with _session() as session:
        begun, answers = time.monotonic(), []
        asked = [_ask(session, urls[number % len(urls)], each, begun) for number, each in enumerate(reviews)]
        for done in asyncio.as_completed(asked):
            answers.append(await done)
            heard(len(answers) - 1)
        return answers


def p99(said: Sequence[Said]) -> float:
    """In milliseconds."""
    seconds = sorted(each.seconds for each in said)
    return 1000 * seconds[min(len(seconds) - 1, int(len(seconds) * 0.99))]


async def _ask(session: aiohttp.ClientSession, url: str, review: bytes, due: float) -> Said:
    try:
        async with session.post(url, data=review, headers={"Content-Type": "application/json"}) as answer:
            body = await answer.read()
            allowed = answer.status == 200 and bool(json.loads(body)["response"]["allowed"])
            return Said(answer.status, allowed, time.monotonic() - due)
    except (aiohttp.ClientError, TimeoutError, OSError):
        return Said(0, False, time.monotonic() - due)


def _session() -> aiohttp.ClientSession:
    # Its certificate is of guard's own authority, which only the cluster knows.
    connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=False)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=_SECONDS))
