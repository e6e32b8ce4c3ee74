"""The endpoints of Service `kubernetes`, by which pods find the API."""

from __future__ import annotations

from upgrader.ports import Clock, Kind, Kube
from upgrader.wait_and_retry import wait_until

__all__ = ["count_endpoints", "wait_for_endpoints"]

_SLICES = Kind("discovery.k8s.io/v1", "endpointslices")
_SECONDS = 30.0


def count_endpoints(kube: Kube) -> int:
    """How many addresses there are. Raises ApiError."""
    slices = kube.list(_SLICES, "default", labels="kubernetes.io/service-name=kubernetes")
    return len({address for item in slices for end in item.get("endpoints") or () for address in end["addresses"]})


def wait_for_endpoints(kube: Kube, clock: Clock, wanted: int) -> str:
    """Wait up to half a minute for `wanted` addresses; returns "", or how many there are then.

    A kube-apiserver that ends removes its address, even if another one serves at the same address: that one adds it
    again at its next check, up to 10 s later.
    """

    def missing() -> str:
        found = count_endpoints(kube)
        return "" if found >= wanted else f"{found} of {wanted} endpoints of Service kubernetes"

    return wait_until(clock, missing, seconds=_SECONDS)
