"""Each instance of kube-apiserver can be queried from this machine, as its gate will."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.errors import ApiError, ApiUnavailable, Blocked
from upgrader.gates.apiserver_instance import API_SERVER, ask_instance, instance_address, secure_port
from upgrader.model.finding import Finding
from upgrader.model.workload import Pod, Workload
from upgrader.preflight.context import DEPLOYMENTS, PODS, SYSTEM, PreflightContext

__all__ = ["check_instances"]


def check_instances(context: PreflightContext) -> Iterator[Finding]:
    """An instance that can't be queried would fail every step's gate, after the change."""
    found = context.kube.get(DEPLOYMENTS, API_SERVER, SYSTEM)
    if found is None:
        return
    try:
        port = secure_port(found["spec"]["template"].get("spec") or {})
    except Blocked as error:
        yield Finding(
            "instances.port", "error", error.message, "The gate queries each instance at its port.", error.remedy
        )
        return
    pods = context.kube.list(PODS, SYSTEM, labels=Workload.parse("Deployment", found).selector)
    for pod in map(Pod.parse, pods):
        if pod.ready and not (pod.is_checkpoint or pod.deleting):
            yield from _instance(context, pod, port)


def _instance(context: PreflightContext, pod: Pod, port: int) -> Iterator[Finding]:
    try:
        ask_instance(context.kube, pod, port, "/readyz", unreachable=context.unreachable)
    except ApiUnavailable as error:
        yield Finding(
            "instances.unreachable",
            "error",
            f"the kube-apiserver on {pod.node} can't be queried directly",
            error.message,
            f"Allow connections from this machine to {instance_address(pod, port)}. {error.remedy}",
        )
        return
    except ApiError:
        return  # it answers; whether it is healthy is the control plane's check
    server = instance_address(pod, port)
    if server in context.unreachable:
        yield Finding(
            "instances.proxied",
            "info",
            f"the kube-apiserver on {pod.node} can't be reached from here ({server})",
            "The gate queries it through the API instead.",
        )
