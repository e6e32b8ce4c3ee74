"""The certificate authority in the webhook configurations, put there and kept there."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from upgrader.in_cluster.guard.guard_errors import ApiRefused, Conflict, NotFound
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.runtime.api_client import JSON_PATCH, Api
from upgrader.in_cluster.guard.runtime.informer import Informer
from upgrader.in_cluster.guard.runtime.resource import Object, Resource

__all__ = ["CONFIGURATIONS", "Injection", "labels_of"]

_API = "admissionregistration.k8s.io/v1"
CONFIGURATIONS: Mapping[str, Resource] = {
    "ValidatingWebhook": Resource(_API, "validatingwebhookconfigurations", namespaced=False),
    "MutatingWebhook": Resource(_API, "mutatingwebhookconfigurations", namespaced=False),
}
_SETTLED_SECONDS = 120.0
"""Until then, every API server has seen a configuration that was written."""


def labels_of(namespaces: Iterable[str]) -> str:
    """The selector of the configurations that get the authority."""
    return f"grafana.com/inject-rollout-operator-ca=true,grafana.com/namespace in ({','.join(namespaces)})"


class Injection:
    """Writes what differs; doing it twice, or by two replicas, changes nothing more."""

    def __init__(
        self, api: Api, informers: Mapping[str, Informer[Object]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`informers`: for each of CONFIGURATIONS, of those that `labels_of` selects."""
        self._api, self._informers, self._clock = api, informers, clock
        self._same: bytes = b""
        self._since = 0.0

    async def inject(self, trusted: bytes) -> None:
        """Raises ApiAway. A configuration that may not be written is logged, each time."""
        bundle, whole = base64.b64encode(trusted).decode(), True
        for kind, informer in self._informers.items():
            for found in list(informer.objects.values()):
                if changes := _changes(found, bundle):
                    whole = False
                    await self._write(CONFIGURATIONS[kind], found, changes)
        if not whole or trusted != self._same:
            self._same, self._since = trusted, self._clock()

    def settled(self) -> bytes:
        """What all configurations have trusted for so long that every API server knows; empty: nothing yet."""
        return self._same if self._clock() - self._since >= _SETTLED_SECONDS else b""

    async def _write(self, resource: Resource, found: Object, changes: list[dict[str, Any]]) -> None:
        name = found["metadata"]["name"]
        at = {"op": "replace", "path": "/metadata/resourceVersion", "value": found["metadata"]["resourceVersion"]}
        try:
            await self._api.patch(resource, name, [at, *changes], content_type=JSON_PATCH)
        except (Conflict, NotFound):
            return  # it has changed since, and comes again
        except ApiRefused as error:
            LOG.warning("the CA can't be written into a webhook configuration", extra={"reason": str(error)})
            return  # the others are to have it nevertheless
        LOG.info("CA written into a webhook configuration", extra={"configuration": name})


def _changes(found: Object, bundle: str) -> list[dict[str, Any]]:
    return [
        {"op": "add", "path": f"/webhooks/{place}/clientConfig/caBundle", "value": bundle}
        for place, webhook in enumerate(found.get("webhooks") or [])
        if webhook["clientConfig"].get("caBundle") != bundle
    ]
