"""Each controller has memory for a second API server, while the old and the new one run side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from upgrader.model.finding import Finding
from upgrader.model.quantity import quantity
from upgrader.model.workload import Pod
from upgrader.ports import KubeObject
from upgrader.preflight.context import DEPLOYMENTS, SYSTEM, PreflightContext

__all__ = ["APISERVER_BYTES", "check_memory"]

APISERVER_BYTES = 500 * 2**20
"""The least memory of an idle API server, independent of its requests."""


def check_memory(context: PreflightContext) -> Iterator[Finding]:
    """A controller's memory, minus all requests, is enough for another API server."""
    needed = max(APISERVER_BYTES, _apiserver_request(context))
    nodes = context.nodes
    for host in context.cluster.controllers:
        status = nodes.get(host.name, {}).get("status") or {}
        if "memory" not in (status.get("allocatable") or {}):
            continue  # no node, or its kubelet has never reported: the check of nodes reports it
        total = quantity(status["allocatable"]["memory"])
        left = total - sum(_request(pod["spec"]) for pod in context.pods_on(host.name) if not Pod.parse(pod).finished)
        if left < needed:
            yield Finding(
                "memory.tight",
                "warning",
                f"{host.name} has {_mebibytes(left)} of memory left for a second API server",
                f"{_mebibytes(needed)} are needed. Pods there request the rest of {_mebibytes(total)}.",
                "Lower other pods' requests, move them to another node, or give the machine more memory.",
            )


def _apiserver_request(context: PreflightContext) -> float:
    deployment = context.kube.get(DEPLOYMENTS, "kube-apiserver", SYSTEM)
    return _request(deployment["spec"]["template"]["spec"]) if deployment else 0.0


def _request(spec: KubeObject) -> float:
    """As the scheduler counts: all containers and sidecars, or the largest init container if that is more."""
    sidecars = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"]
    inits = [c for c in spec.get("initContainers") or () if c.get("restartPolicy") != "Always"]
    running = _sum((*(spec.get("containers") or ()), *sidecars))
    starting = max((_sum([c]) for c in inits), default=0.0) + _sum(sidecars)
    return max(running, starting) + quantity((spec.get("overhead") or {}).get("memory", "0"))


def _sum(containers: Iterable[KubeObject]) -> float:
    requests = ((c.get("resources") or {}).get("requests") or {} for c in containers)
    return sum(quantity(request.get("memory", "0")) for request in requests)


def _mebibytes(value: float) -> str:
    return f"{value / 2**20:,.0f} MiB"
