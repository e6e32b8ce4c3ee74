"""The Lease of a run of the upgrader, `kube-system/upgrader`: whether a run is alive, and what it allows meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from upgrader.in_cluster.guard.core.rollout import Hold
from upgrader.in_cluster.guard.core.run_lease import Seen, held_by, seen
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
    """Read repeatedly, to know when it stops changing; each process watches for itself."""

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
        """The run that is alive now; None if there is none.

        Raises ApiAway or ApiRefused if the Lease can't be read: then it isn't known whether a run is replacing the
        control plane. A group then waits; a webhook answers 500, and its failurePolicy decides.
        """
        begun = self._clock()
        try:
            found = await self._api.get(LEASES, _NAME, _NAMESPACE)
        except (ApiAway, ApiRefused):
            self._seen = None  # its state meanwhile isn't known: the time without a change begins again
            raise
        # The result of a slow read may be older than that of another read meanwhile.
        if self._seen is None or begun >= self._seen.at:
            self._seen = seen(self._seen, found, begun)
        return held_by(self._seen)

    @property
    def last(self) -> Hold | None:
        """The last result; None also if it isn't known."""
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
