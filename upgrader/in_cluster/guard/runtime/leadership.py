"""One of the replicas leads, by a Lease: 15 s it is valid, 10 s a leader goes on without renewing, 2 s between tries.

No clocks are compared: a Lease is taken over once it has been seen unchanged for as long as it is valid. A leader that
can't renew stops 5 s before another one can take over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused, Conflict
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

__all__ = ["STANDS_DOWN_SECONDS", "Leadership"]

_LEASES = Resource("coordination.k8s.io/v1", "leases")
_VALID_SECONDS = 15
_STOP_SECONDS = 10.0
_EVERY_SECONDS = 2.0
_ANSWER_SECONDS = 5.0
STANDS_DOWN_SECONDS = _STOP_SECONDS + _EVERY_SECONDS
"""After which one that led before no longer does, once another one has seized the Lease."""


class Leadership:
    """`identity` is another one for each process."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        name: str,
        identity: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._api, self._namespace, self._name, self._identity = api, namespace, name, identity
        self._clock, self._sleep, self._now = clock, sleep, now
        self._renewed: float | None = None
        self._seen: tuple[str, str] | None = None
        self._seen_at = 0.0

    def sure(self) -> bool:
        """Whether no other process can lead now."""
        return self._renewed is not None and self._clock() - self._renewed < _STOP_SECONDS

    async def seize(self) -> None:
        """Take it, or renew it, from any holder: that one stops leading when it tries to renew it, or can't.

        Without such a Lease, no replica leads. Raises ApiAway, ApiRefused.
        """
        while (found := await self._api.get(_LEASES, self._name, self._namespace)) is not None:
            try:
                await self._api.replace(
                    _LEASES, {**found, "spec": self._spec(found.get("spec") or {})}, self._namespace
                )
                return
            except Conflict:
                continue  # it was renewed just now

    async def lead(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` whenever this one leads, until cancelled; it is cancelled when leading ends."""
        while True:
            while not await self._try():
                await self._sleep(_EVERY_SECONDS)
            LOG.info("leading", extra={"lease": f"{self._namespace}/{self._name}"})
            tasks = [asyncio.ensure_future(work()), asyncio.ensure_future(self._renewing())]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                await self._release()
                LOG.info("leadership lost", extra={"lease": f"{self._namespace}/{self._name}"})
            for task in done:
                task.result()

    async def _renewing(self) -> None:
        """Renews the Lease until that has failed for too long, or another process leads."""
        while self.sure():
            await self._sleep(_EVERY_SECONDS)
            if not await self._try() and self._renewed is None:
                return

    async def _try(self) -> bool:
        """Take or renew it once."""
        begun = self._clock()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                taken = await self._take()
        except Conflict:
            return False  # another process was first, or has written it: it is read again
        except (ApiAway, ApiRefused, TimeoutError) as error:
            LOG.warning("the Lease can't be written", extra={"reason": str(error) or "no answer in time"})
            return False
        self._renewed = begun if taken else None
        return taken

    async def _take(self) -> bool:
        found = await self._api.get(_LEASES, self._name, self._namespace)
        if found is None:
            meta = {"name": self._name, "namespace": self._namespace}
            manifest = {"apiVersion": _LEASES.api_version, "kind": "Lease", "metadata": meta}
            await self._api.create(_LEASES, {**manifest, "spec": self._spec({})}, self._namespace)
            return True
        spec = found.get("spec") or {}
        holder, seen = str(spec.get("holderIdentity") or ""), _seen(found)
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock()
        valid = self._clock() - self._seen_at < float(spec.get("leaseDurationSeconds") or _VALID_SECONDS)
        if holder not in ("", self._identity) and valid:
            return False
        await self._api.replace(_LEASES, {**found, "spec": self._spec(spec)}, self._namespace)
        return True

    def _spec(self, before: Object) -> dict[str, Any]:
        now, mine = f"{self._now():%Y-%m-%dT%H:%M:%S.%fZ}", before.get("holderIdentity") == self._identity
        return {
            **before,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": _VALID_SECONDS,
            "acquireTime": before.get("acquireTime", now) if mine else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (not mine),
        }

    async def _release(self) -> None:
        """Let another one lead at once, where this one did until now."""
        if not self.sure():
            return
        self._renewed = None
        try:
            async with asyncio.timeout(_EVERY_SECONDS):
                found = await self._api.get(_LEASES, self._name, self._namespace)
                if found and (found.get("spec") or {}).get("holderIdentity") == self._identity:
                    released = {**found["spec"], "holderIdentity": ""}
                    await self._api.replace(_LEASES, {**found, "spec": released}, self._namespace)
        except (ApiAway, ApiRefused, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            LOG.info("the Lease can't be released; it expires by itself", extra={"reason": reason})


def _seen(found: Object) -> tuple[str, str]:
    return str(found["metadata"]["uid"]), str(found["metadata"]["resourceVersion"])
