"""Components use the current certificates of their kubeconfigs, not those from before a renewal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from upgrader.contract.flags import command_line, last_values
from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.model.host_path import on_node
from upgrader.model.workload import Pod
from upgrader.ports import Hosts, KubeObject
from upgrader.preflight.context import SYSTEM, PreflightContext

__all__ = ["COMPONENTS", "UsedKubeconfig", "changed_at", "check_renewed", "used_kubeconfigs"]

COMPONENTS = ("kube-controller-manager", "kube-scheduler")
"""Both read the certificate in their kubeconfig once, at their start. kube-apiserver and etcd read theirs again."""


@dataclass(frozen=True)
class UsedKubeconfig:
    """A kubeconfig on a controller that a container there has read at its start."""

    pod: str
    component: str
    path: str
    started: datetime


def used_kubeconfigs(pods: Iterable[KubeObject]) -> Iterator[UsedKubeconfig]:
    """Those of the components among a controller's pods; pods that end don't count, nor do standby pods."""
    for found in pods:
        pod = Pod.parse(found)
        if pod.namespace != SYSTEM or pod.finished or pod.deleting or pod.is_checkpoint:
            continue
        for container in pod.containers:
            path = _kubeconfig(found, container.name) if container.name in COMPONENTS else ""
            if path and container.running_since:
                yield UsedKubeconfig(pod.name, container.name, path, container.running_since)


def changed_at(hosts: Hosts, host: Host, path: str) -> datetime:
    """When a file of a controller was changed, by that controller's clock. Raises HostError."""
    # Short options: BusyBox has no others.
    text = hosts.run(host, ["stat", "-L", "-c", "%Y", "--", path]).stdout.strip()
    try:
        return datetime.fromtimestamp(int(text), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise HostError(f"{host.name}: stat printed {text!r} for {path}") from error


def check_renewed(context: PreflightContext) -> Iterator[Finding]:
    """A component must be restarted after its certificate is renewed; otherwise it fails when the old one expires."""
    for host in context.cluster.controllers:
        for used in used_kubeconfigs(context.pods_on(host.name)):
            yield from _compared(context, host, used)


def _compared(context: PreflightContext, host: Host, used: UsedKubeconfig) -> Iterator[Finding]:
    try:
        changed = changed_at(context.hosts, host, used.path)
    except HostError as error:  # the other controllers are asked all the same
        title = f"{host.name}: it is unknown whether {used.pod} uses the certificate in {used.path}"
        yield Finding("certificates.unknown", "unknown", title, error.message, error.remedy)
        return
    # Both times are this controller's.
    if changed > used.started:
        yield Finding(
            "certificates.not-in-use",
            "warning",
            f"{host.name}: {used.pod} has not read {used.path} since it changed",
            f"It changed {_shown(changed)}, and the container has run since {_shown(used.started)}. If the certificate "
            "was renewed, the component still uses the old one, and loses the API when it expires.",
            # Not the pod: without its only scheduler, a cluster has nobody who places the next one.
            f"Restart it: upgrader certs renew --within 1s; or restart its container, on {host.name}: crictl stop "
            f"$(crictl ps --quiet --name '^{used.component}$')",
        )


def _kubeconfig(pod: KubeObject, component: str) -> str:
    """Its kubeconfig, as a path on the controller; "" where it has none, or has it from elsewhere."""
    container = next((item for item in pod["spec"]["containers"] if item["name"] == component), None)
    if container is None:  # an init container of that name
        return ""
    flags = last_values(command_line(container))
    try:
        return on_node(pod["spec"], container, flags.get("kubeconfig", "")) or ""
    except KeyError:
        return ""


def _shown(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S} UTC"
