"""What upstream's upgrade tests expect of a cloud, and the lab can stand in for: volumes, and load balancers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from upgrader.errors import ApiError
from upgrader.ports import Kind, Kube, KubeObject

__all__ = ["FINALIZER", "answer_for", "load_balancers", "volume", "volumes"]

FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
_SERVICES = Kind("v1", "services")
_VOLUMES = Kind("v1", "persistentvolumes", namespaced=False)
_MARK = "upgrader-conformance"
_PERIOD_SECONDS = 1.0
_SIZE = "16Gi"
"""Not reserved: a folder. Upstream's StatefulSets claim 10Gi."""


def volume(number: int, node: str) -> KubeObject:
    """A PersistentVolume without a class on a node's disk: claims without a class are bound to such ones."""
    on_the_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"{_MARK}-{number}", "labels": {_MARK: "volume"}},
        "spec": {
            "capacity": {"storage": _SIZE},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": f"/var/lib/kubelet/{_MARK}/{number}", "type": "DirectoryOrCreate"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_the_node]}]}},
        },
    }


@contextmanager
def volumes(kube: Kube, nodes: Sequence[str], number: int) -> Iterator[None]:
    """So many volumes, on one node after the other, while this lasts."""
    made = [volume(index, nodes[index % len(nodes)]) for index in range(number)]
    for each in made:
        kube.apply(_VOLUMES, each)
    try:
        yield
    finally:
        for each in made:
            kube.delete(_VOLUMES, each["metadata"]["name"])


def answer_for(service: KubeObject, address: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a cloud's controller would change at a Service: (metadata, status); empty where nothing.

    The load balancer's address is a node's: kube-proxy there serves it as it would any other.
    """
    metadata, finalizers = service["metadata"], list(service["metadata"].get("finalizers") or ())
    balanced = service["spec"].get("type") == "LoadBalancer" and "deletionTimestamp" not in metadata
    if not balanced:
        left = [name for name in finalizers if name != FINALIZER]
        return ({"finalizers": left} if left != finalizers else {}), {}
    wanted = {} if FINALIZER in finalizers else {"finalizers": [*finalizers, FINALIZER]}
    has = (service.get("status") or {}).get("loadBalancer") or {}
    return wanted, ({} if has.get("ingress") else {"loadBalancer": {"ingress": [{"ip": address}]}})


@contextmanager
def load_balancers(kube: Kube, address: str) -> Iterator[None]:
    """Every Service of type LoadBalancer gets an address, and its finalizer taken away when it goes, meanwhile."""
    stop = threading.Event()

    def serve() -> None:
        while not stop.wait(_PERIOD_SECONDS):
            try:
                for service in kube.list(_SERVICES):
                    _give(kube, service, address)
            except ApiError:
                continue  # kube-apiserver is being replaced, or the Service has changed: the next round sees

    worker = threading.Thread(target=serve, name="load-balancers")
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join()


def _give(kube: Kube, service: KubeObject, address: str) -> None:
    name, namespace = service["metadata"]["name"], service["metadata"]["namespace"]
    metadata, status = answer_for(service, address)
    if metadata:
        kube.patch(_SERVICES, name, {"metadata": metadata}, namespace)
    if status:
        kube.patch(_SERVICES, name, {"status": status}, namespace, subresource="status")
