"""The Lease of a run of the upgrader, `kube-system/upgrader`: whether a run is alive, and what it lets happen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from upgrader.in_cluster.guard.core.hold import Seen, held_by, seen
from upgrader.in_cluster.guard.core.rollout import Hold
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.resource import Resource

__all__ = ["LEASES", "RunLease"]

LEASES = Resource("coordination.k8s.io/v1", "leases")
_NAMESPACE, _NAME = "kube-system", "upgrader"
_EVERY_SECONDS = 5.0
"""As often as a run renews it."""


class RunLease:
    """Read again and again, so that it is known when it has stopped to change; each process watches for itself."""

    def __init__(
        self,
        api: Api,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._api, self._clock, self._sleep = api, clock, sleep
        self._seen: Seen | None = None
        self._failed = ""

    async def look(self) -> Hold | None:
        """The run that is alive now; None where none is.

        Raises ApiAway, ApiRefused where the Lease can't be read: then it isn't known whether a run is replacing the
        control plane. So a group waits, and a webhook answers 500, as its failurePolicy says what matters more.
        """
        begun = self._clock()
        try:
            found = await self._api.get(LEASES, _NAME, _NAMESPACE)
        except (ApiAway, ApiRefused):
            self._seen = None  # what it was meanwhile isn't known: it is watched anew
            raise
        # What a slower look read may be older than what another one has seen meanwhile.
        if self._seen is None or begun >= self._seen.at:
            self._seen = seen(self._seen, found, begun)
        return held_by(self._seen)

    @property
    def last(self) -> Hold | None:
        """As it was read last; None also where that isn't known."""
        return held_by(self._seen) if self._seen else None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.look()
                self._failed = ""
            except (ApiAway, ApiRefused) as error:
                if str(error) != self._failed:
                    LOG.warning("the Lease of upgrades can't be read", extra={"reason": str(error)})
                self._failed = str(error)
            await self._sleep(_EVERY_SECONDS)
