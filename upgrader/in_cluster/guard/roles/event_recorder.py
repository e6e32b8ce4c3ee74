"""Kubernetes Events on StatefulSets: each is written once, and repeated only after a while."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from upgrader.in_cluster.guard.core.rollout import Event
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.resource import Resource

__all__ = ["EventRecorder"]

_EVENTS = Resource("v1", "events")
_AGAIN_SECONDS = 600.0
"""The API server forgets Events after an hour."""
_MOST = 25
"""Of an object in that time, as in client-go: a tenant may change what they quote every second."""
_LONGEST_MESSAGE = 1024
"""As the API server allows."""


class EventRecorder:
    """Recording never fails an action: an Event that can't be written is logged."""

    def __init__(self, api: Api, clock: Callable[[], float] = time.monotonic) -> None:
        self._api, self._clock = api, clock
        self._told: dict[str, dict[tuple[str, str], float]] = {}
        """UID of the object → reason and message → until when they aren't repeated."""

    async def record(self, event: Event) -> None:
        """Write it, unless it was written lately, or too many others of its object were."""
        about, message, now = event.about, event.message[:_LONGEST_MESSAGE], self._clock()
        self._told = {uid: lately for uid, its in self._told.items() if (lately := _still(its, now))}
        lately = self._told.setdefault(about.uid, {})
        if (event.reason, message) in lately or len(lately) >= _MOST:
            return
        lately[event.reason, message] = now + _AGAIN_SECONDS
        LOG.info(message, extra={"event": event.reason, "object": f"{about.namespace}/{about.name}"})
        time_ = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        manifest = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{about.name}.{uuid.uuid4().hex[:16]}", "namespace": about.namespace},
            "involvedObject": {
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "namespace": about.namespace,
                "name": about.name,
                "uid": about.uid,
            },
            "type": event.type,
            "reason": event.reason,
            "message": message,
            "source": {"component": "guard"},
            "firstTimestamp": time_,
            "lastTimestamp": time_,
            "count": 1,
        }
        try:
            await self._api.create(_EVENTS, manifest, about.namespace)
        except (ApiAway, ApiRefused) as error:
            LOG.warning("an Event can't be written", extra={"reason": str(error)})


def _still(told: dict[tuple[str, str], float], now: float) -> dict[tuple[str, str], float]:
    return {what: until for what, until in told.items() if until > now}
