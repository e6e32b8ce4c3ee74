"""/admission/no-downscale: denies fewer replicas for an object with the label `grafana.com/no-downscale: "true"`, and
for a StatefulSet of a group while a run of the upgrader holds it.
"""

from __future__ import annotations

from upgrader.in_cluster.guard.core.admission import AdmissionRequest, Answer
from upgrader.in_cluster.guard.core.downscale import Parent, by_scale, decide, labels_before, needs_parent, shrinks
from upgrader.in_cluster.guard.core.rollout import GROUP_LABEL
from upgrader.in_cluster.guard.core.run_lease import refuse_downscale
from upgrader.in_cluster.guard.guard_errors import ApiAway, ApiRefused
from upgrader.in_cluster.guard.logs import LOG
from upgrader.in_cluster.guard.roles.run_lease import RunLease
from upgrader.in_cluster.guard.runtime.api_client import Api
from upgrader.in_cluster.guard.runtime.resource import Resource

__all__ = ["PATH", "NoDownscale"]

PATH = "/admission/no-downscale"
_SCALED = ("deployments", "replicasets", "statefulsets")


class NoDownscale:
    """Reads from the API the labels of an object that is scaled down by `/scale`, and the Lease of a run if a set in a
    group is scaled down, and nothing else.
    """

    def __init__(self, api: Api, run_lease: RunLease | None = None) -> None:
        """`run_lease` None: no run holds anything."""
        self._api, self._run_lease = api, run_lease

    async def __call__(self, request: AdmissionRequest) -> Answer:
        """The answer. If a label can't be read, the request is allowed with a warning, unless a run holds groups.

        Raises ApiAway or ApiRefused if it isn't known whether a run is active, or whether the set is in a group that
        the run holds: a downscale during an upgrade of the control plane can't be undone.
        """
        parent = await self._parent(request) if needs_parent(request) else None
        answer = decide(request, parent)
        in_groups = (request.group, request.resource) == ("apps", "statefulsets")
        if self._run_lease is None or not answer.allowed or not in_groups or not shrinks(request):
            return answer
        labels = parent.labels if parent else labels_before(request)
        if labels is not None and not labels.get(GROUP_LABEL):
            return answer
        hold = await self._run_lease.look()
        if hold is None:
            return answer
        if labels is None:
            assert parent is not None and by_scale(request)
            raise ApiAway(
                f"the upgrade {hold.run} holds groups, and the group of {request} can't be read: {parent.why_not}"
            )
        return refuse_downscale(request, str(labels[GROUP_LABEL]), hold) or answer

    async def _parent(self, request: AdmissionRequest) -> Parent:
        if (request.group, request.version) != ("apps", "v1") or request.resource not in _SCALED:
            return Parent(None, "it is none of " + ", ".join(f"apps/v1 {each}" for each in _SCALED))
        resource = Resource("apps/v1", request.resource)
        try:
            found = await self._api.get(resource, request.name, request.namespace)
        except (ApiAway, ApiRefused) as error:
            # The answer's warning may be cut before the reason, and autoscalers don't show it.
            LOG.warning("labels can't be read", extra={"request": str(request), "reason": str(error)})
            return Parent(None, str(error))
        if found is None:
            return Parent(None, "it doesn't exist")
        return Parent(found["metadata"].get("labels") or {})
