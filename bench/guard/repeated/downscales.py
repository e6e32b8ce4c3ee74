"""A pod that was prepared for shutdown, and stays."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress

from bench.guard.originals.side import Side
from bench.guard.programs import CROWDED
from bench.guard.repeated.case import KEPT, Case, batches
from bench.guard.sets import Sets
from bench.guard.site import PODS, SETS, becomes
from testkit.pod_service import PodService, pod_service

__all__ = ["PREPARED"]

_AT_ONCE = 10
_KNOWN_SECONDS = 3.0
"""Until a new webhook is known to the API server, which doesn't say so."""
_PATIENCE = 60.0
_PREPARE = "grafana.com/prepare-downscale"


def _prepared(side: Side, rounds: int, _: random.Random) -> list[str]:
    found = []
    with pod_service() as service:
        # rollout-operator asks for pods by names that only a cluster resolves; it takes a proxy for them, as Go does.
        proxy = {"HTTP_PROXY": f"http://127.0.0.1:{service.port}"}
        with (
            side.site.started("prepares", CROWDED, proxy) as replica,
            side.asked(replica, "/admission/prepare-downscale"),
        ):
            time.sleep(_KNOWN_SECONDS)
            for together in batches(rounds, _AT_ONCE):
                groups = [_group(side, service) for _ in range(together)]
                begun = [_grows_back(side, service, each) for each in groups]
                _wait_told(service, [each for why, each in zip(begun, groups, strict=True) if why == KEPT])
                found += [why or _stays(side, service, each) for why, each in zip(begun, groups, strict=True)]
                for each in groups:
                    each.remove()
    return found


def _group(side: Side, service: PodService) -> Sets:
    """Two zones of three pods, all of which the service plays, whole and prepared."""
    sets, kube = Sets(side.site, f"db-{uuid.uuid4().hex[:6]}", "ab", 3), side.site.kube
    sets.create()
    notes = {f"{_PREPARE}-http-path": "prepare", f"{_PREPARE}-http-port": str(service.port)}
    for name in sets.names:
        kube.patch(SETS, name, {"metadata": {"labels": {_PREPARE: "true"}, "annotations": notes}}, "shop")
        kube.patch(SETS, name, {"status": {"updatedReplicas": 3}}, "shop", subresource="status")
        for pod in sets.pods(name):
            status = {"podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
            kube.patch(PODS, pod, {"status": status}, "shop", subresource="status")
        sets.refill(name)  # its controller has seen this
    return sets


def _grows_back(side: Side, service: PodService, sets: Sets) -> str:
    """The first set goes from 3 to 2, and back before its controller has removed the pod: KEPT, or why not."""
    name, said = sets.names[0], ""

    def allowed() -> bool:
        nonlocal said
        said = side.api.scaled(name, 2, subresource="scale")
        return said == ""

    try:
        becomes("a downscale to be allowed", allowed)
    except TimeoutError:
        return f"no downscale was allowed: {said}".replace(name, "…")
    if f"{name}-2" not in service.pods("POST"):
        return "a downscale was allowed, and its pod not told"
    said = side.api.scaled(name, 3, subresource="scale")
    sets.refill(name)  # its controller has seen that there are to be three
    return said


def _wait_told(service: PodService, groups: Sequence[Sets]) -> None:
    """Until each group's pod is told that it stays, or for long enough."""
    wanted = {f"{each.names[0]}-2" for each in groups}
    with suppress(TimeoutError):
        becomes("pods to be told that they stay", lambda: wanted <= service.pods("DELETE"), seconds=_PATIENCE)


def _stays(side: Side, service: PodService, sets: Sets) -> str:
    """Whether the pod was told, and the other zone may now shrink."""
    one, other = sets.names
    if f"{one}-2" not in service.pods("DELETE"):
        return "the pod stays, and isn't notified of it"
    try:
        becomes("the other zone", lambda: side.api.scaled(other, 2, subresource="scale") == "", seconds=_PATIENCE)
    except TimeoutError:
        return "the other zone may not shrink afterwards"
    return KEPT


PREPARED = Case(
    "prepared",
    "a pod is prepared for shutdown, and replicas grow back before it is removed: it must be notified that it stays",
    "rollout-operator",
    _prepared,
)
