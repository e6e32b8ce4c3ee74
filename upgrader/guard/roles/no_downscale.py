"""/admission/no-downscale: an object with the label `grafana.com/no-downscale: "true"` doesn't get fewer replicas."""

from __future__ import annotations

from upgrader.guard.core.admission import AdmissionRequest, Answer
from upgrader.guard.core.downscale import Parent, decide, needs_parent
from upgrader.guard.guard_errors import ApiAway, ApiRefused
from upgrader.guard.runtime.api_client import Api
from upgrader.guard.runtime.resource import Resource

__all__ = ["PATH", "NoDownscale"]

PATH = "/admission/no-downscale"
_SCALED = ("deployments", "replicasets", "statefulsets")


class NoDownscale:
    """Asks the API for the labels of an object that shrinks by `/scale`, and for nothing else."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def __call__(self, request: AdmissionRequest) -> Answer:
        """What is answered; it raises nothing: what can't be read is let through, with a warning."""
        return decide(request, await self._parent(request) if needs_parent(request) else None)

    async def _parent(self, request: AdmissionRequest) -> Parent:
        if (request.group, request.version) != ("apps", "v1") or request.resource not in _SCALED:
            return Parent(None, "it is none of " + ", ".join(f"apps/v1 {each}" for each in _SCALED))
        resource = Resource("apps/v1", request.resource)
        try:
            found = await self._api.get(resource, request.name, request.namespace)
        except (ApiAway, ApiRefused) as error:
            return Parent(None, str(error))
        if found is None:
            return Parent(None, "it doesn't exist")
        return Parent(found["metadata"].get("labels") or {})
