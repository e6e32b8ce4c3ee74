"""The planned control plane requests CPU and memory, and no limit is too low."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.components import API_SERVER_CPU, RELEASE_AND_SECTION
from upgrader.model.finding import Finding
from upgrader.model.manifest import Manifest, objects_in
from upgrader.model.quantity import quantity
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.memory import APISERVER_BYTES

__all__ = ["check_resources"]

_API_SERVER = "kube-apiserver"


def check_resources(context: PreflightContext) -> Iterator[Finding]:
    """The components' own containers in what the run installs or changes."""
    for release in context.changing:
        for name, item in objects_in(release.after).items():
            if item["kind"] in ("Deployment", "DaemonSet"):
                for container in item["spec"]["template"]["spec"].get("containers") or ():
                    # Another release may run one for a cluster of its own, such as a tenant's.
                    if RELEASE_AND_SECTION.get(container["name"], ("",))[0] == release.name:
                        yield from _judged(release.name, name, container)


def _judged(release: str, workload: str, container: Manifest) -> Iterator[Finding]:
    component, resources = container["name"], container.get("resources") or {}
    limits = resources.get("limits") or {}
    # A limit without a request is the request, too.
    requests = {**limits, **(resources.get("requests") or {})}
    missing = [kind for kind in ("cpu", "memory") if not requests.get(kind)]
    if missing:
        yield Finding(
            "resources.no-request",
            "warning",
            f"release {release}: {component} requests no {' and no '.join(missing)}",
            f"{workload} is scheduled as if it used none, and is among the first to be throttled or killed when the "
            "node runs out.",
            f"Set resources.requests of {component} in the values of release {release}.",
        )
    cpu = limits.get("cpu")
    if component == _API_SERVER and cpu and quantity(str(cpu)) < API_SERVER_CPU:
        yield Finding(
            "resources.low-cpu-limit",
            "error",
            f"release {release}: {component} is limited to {cpu} of CPU",
            f"Even without clients, {component} needs {API_SERVER_CPU * 1000:.0f}m: with less, requests take seconds, "
            "kube-controller-manager and kube-scheduler lose their Leases, and Helm can't roll the release back.",
            f"Remove the CPU limit from the values of release {release}; a request is enough.",
        )
    elif cpu:
        yield Finding(
            "resources.cpu-limit",
            "warning",
            f"release {release}: {component} is limited to {cpu} of CPU",
            "At its limit it is throttled even on an idle node: requests and leases time out, most likely during "
            "startup.",
            f"Remove the CPU limit from the values of release {release}; a request is enough.",
        )
    memory = limits.get("memory")
    if component == _API_SERVER and memory and quantity(str(memory)) < APISERVER_BYTES:
        yield Finding(
            "resources.memory-limit",
            "error",
            f"release {release}: {component} has a memory limit of {memory}",
            f"An idle kube-apiserver needs {APISERVER_BYTES / 2**20:,.0f} MiB: it would be OOM-killed again and again.",
            f"Remove the limit from the values of release {release}, or raise it.",
        )
