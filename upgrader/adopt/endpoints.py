"""The endpoints of Service `kubernetes`, by which pods find the API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upgrader.errors import ApiError
from upgrader.ports import Clock, Kind, Kube
from upgrader.steps.one_way import OneWay
from upgrader.wait_and_retry import wait_until

__all__ = ["PublishEndpointStep", "count_endpoints", "publish_fixed_endpoint", "wait_for_endpoints"]

_SLICES = Kind("discovery.k8s.io/v1", "endpointslices")
_ENDPOINTS = Kind("v1", "endpoints")
_SERVICE, _NAMESPACE = "kubernetes", "default"
_FIXED = "kube-apiserver"
"""The chart's EndpointSlice, which it has with one replica."""
_SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
_SECONDS = 30.0


def count_endpoints(kube: Kube) -> int:
    """How many addresses there are. Raises ApiError."""
    slices = kube.list(_SLICES, "default", labels="kubernetes.io/service-name=kubernetes")
    return len({address for item in slices for end in item.get("endpoints") or () for address in end["addresses"]})


def wait_for_endpoints(kube: Kube, clock: Clock, wanted: int, note: Callable[[str], None]) -> str:
    """Wait up to half a minute for `wanted` addresses; returns "", or how many there are then.

    A kube-apiserver that ends removes its address, even if another one serves at the same address: that one adds it
    again at its next check, up to 10 s later.
    """

    def missing() -> str:
        found = count_endpoints(kube)
        return "" if found >= wanted else f"{found} of {wanted} endpoints of Service kubernetes"

    return wait_until(clock, missing, seconds=_SECONDS, what="kube-apiserver to register itself", note=note)


def publish_fixed_endpoint(kube: Kube, note: Callable[[str], None]) -> None:
    """Write the one endpoint that the chart keeps in its EndpointSlice into the object Endpoints as well.

    With one replica no kube-apiserver registers itself, and the last that did has removed its address as it ended.
    Clients that still read Endpoints, as many a Prometheus does, would find no API server. With several replicas there
    is no such slice, and nothing to do. A refused write is noted: kube-proxy and most clients read slices.
    """
    try:
        fixed = kube.get(_SLICES, _FIXED, _NAMESPACE)
        if fixed is None:
            return
        addresses = [{"ip": address} for each in fixed["endpoints"] for address in each["addresses"]]
        wanted = [{"addresses": addresses, "ports": fixed["ports"]}]
        found = kube.get(_ENDPOINTS, _SERVICE, _NAMESPACE)
        if found and found.get("subsets") == wanted:
            return
        # Without the label, a controller would copy the object into one more slice.
        changes = {"metadata": {"labels": {_SKIP_MIRROR: "true"}}, "subsets": wanted}
        if found:
            kube.patch(_ENDPOINTS, _SERVICE, changes, _NAMESPACE)
        else:
            metadata = {"name": _SERVICE, "namespace": _NAMESPACE, "labels": {_SKIP_MIRROR: "true"}}
            manifest = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": wanted}
            kube.create(_ENDPOINTS, manifest, _NAMESPACE)
        note(f"Endpoints {_NAMESPACE}/{_SERVICE}: {', '.join(each['ip'] for each in addresses)}")
    except ApiError as error:
        note(f"Endpoints {_NAMESPACE}/{_SERVICE} could not be updated and may have no address: {error.message}")


@dataclass(frozen=True)
class PublishEndpointStep(OneWay):
    """The same, once all but one controller have left."""

    kube: Kube
    name: str = "endpoints"

    def summary(self) -> str:
        return f"Endpoints {_NAMESPACE}/{_SERVICE} has only the controller that stays"

    def apply(self, note: Callable[[str], None]) -> None:
        publish_fixed_endpoint(self.kube, note)
