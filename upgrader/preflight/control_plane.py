"""The control plane is self-hosted, and healthy, before it is upgraded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from upgrader.model.components import COMPONENTS
from upgrader.model.finding import Finding
from upgrader.model.left_out import CONTROL_PLANE
from upgrader.model.manifest import objects_in
from upgrader.model.workload import Pod, Workload
from upgrader.ports import KubeObject
from upgrader.preflight.context import DEPLOYMENTS, MIRROR, PODS, SYSTEM, PreflightContext

__all__ = ["check_control_plane"]

_API_SERVER = "kube-apiserver"
_UNREGISTERED = "--endpoint-reconciler-type=none"
"""The flag with which an instance doesn't register itself behind Service `kubernetes`."""
_STOPPED = (0, 143, 255)
"""The exit codes of containers that a shutdown or a power cut has ended."""
_START_SECONDS = 120.0
"""How long a container of a component may take to be Ready on a slow machine."""


def check_control_plane(context: PreflightContext) -> Iterator[Finding]:
    """Each component is a Deployment with Ready pods; kubeadm's static pods must be adopted first."""
    static = _static_components(context)
    deployments = {name: context.kube.get(DEPLOYMENTS, name, SYSTEM) for name in COMPONENTS}
    if static and any(deployments.values()):
        yield from _left_or_new(static)
    elif static:
        yield Finding(
            "control-plane.static",
            "error",
            f"{', '.join(sorted(static))}: runs as static pods, not as pods of Helm releases",
            "Only a control plane that runs as ordinary pods can be upgraded with Helm.",
            "Move it into Helm releases: upgrader adopt",
        )
    yield from _replicas(context)
    yield from _endpoints(context)
    for name, found in deployments.items():
        if found is not None:
            yield from _workload(context, Workload.parse("Deployment", found))
        elif name not in static:
            yield Finding(
                "control-plane.missing",
                "warning",
                f"there is no Deployment {SYSTEM}/{name}",
                "Its release is not installed, or the Deployment was deleted manually.",
                "The run installs it.",
            )


def _static_components(context: PreflightContext) -> Mapping[str, Sequence[str]]:
    """Component → the nodes where a static pod runs it that is no checkpoint: of the inventory's controllers, and of
    nodes that kubeadm has made controllers meanwhile.
    """
    labelled = {name for name, node in context.nodes.items() if CONTROL_PLANE in (node["metadata"].get("labels") or {})}
    found: dict[str, list[str]] = {}
    for node in sorted(labelled | context.controllers):
        pods = (pod for pod in context.pods_on(node) if pod["metadata"].get("namespace") == SYSTEM and _is_static(pod))
        for name in sorted({_component(pod) for pod in pods} & set(COMPONENTS)):
            found.setdefault(name, []).append(node)
    return found


def _left_or_new(static: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """One finding for each node of an adopted cluster on which kubeadm's static pods run."""
    for node in sorted({node for nodes in static.values() for node in nodes}):
        components = [name for name in COMPONENTS if node in static.get(name, ())]
        yield Finding(
            "control-plane.not-adopted",
            "error",
            f"{node}: {', '.join(components)} run as static pods in addition to the releases",
            "Either kubeadm wrote these manifests after the adoption (as `kubeadm join --control-plane` does), or the "
            "adoption was interrupted before this controller. Upgrades don't update static pods.",
            "Adopt it: upgrader adopt --new-controllers. If the first adoption was interrupted, complete it: upgrader "
            "adopt.",
        )


def _replicas(context: PreflightContext) -> Iterator[Finding]:
    """kube-apiserver's gate requires one instance on each controller: no other number ever passes."""
    controllers = len(context.cluster.controllers)
    replicas = _instances(context.planned(_API_SERVER))
    if replicas is not None and replicas != controllers:
        yield Finding(
            "control-plane.replicas",
            "error",
            f"kube-apiserver has {replicas} replica(s), but the inventory has {controllers} controller(s)",
            "Each controller runs exactly one.",
            f"Set `replicas: {controllers}` in values/kube-apiserver.yaml, or correct the group `controllers` "
            "of the inventory.",
        )


def _endpoints(context: PreflightContext) -> Iterator[Finding]:
    """The fixed endpoint that one instance needs is only kept for the run that makes several of it."""
    manifest = context.planned(_API_SERVER)
    fixed = objects_in(manifest).get(f"EndpointSlice default/{_API_SERVER}")
    several = all((_instances(text) or 0) > 1 for text in (context.installed(_API_SERVER), manifest))
    if fixed is not None and several and _UNREGISTERED not in manifest:
        addresses = ", ".join(one for endpoint in fixed["endpoints"] for one in endpoint["addresses"])
        yield Finding(
            "control-plane.endpoints",
            "warning",
            f"Service kubernetes has the fixed endpoint {addresses}, which stays even if no kube-apiserver runs there",
            "The instances register themselves, so the fixed endpoint isn't needed. If that controller is down, pods "
            "still send some of their requests there.",
            "Remove `endpoints.addresses` from values/kube-apiserver.yaml: it is only needed during the run that goes "
            "from one replica to several.",
        )


def _instances(manifest: str) -> int | None:
    """The number of kube-apiserver's replicas in a release's manifest; None if it has no such Deployment."""
    for item in objects_in(manifest).values():
        if item["kind"] == "Deployment" and item["metadata"]["name"] == _API_SERVER:
            return int(item["spec"].get("replicas", 1))
    return None


def _component(pod: KubeObject) -> str:
    return str((pod["metadata"].get("labels") or {}).get("component", ""))


def _is_static(pod: KubeObject) -> bool:
    """Whether it is a static pod, but not one of the pod-checkpointer's."""
    return MIRROR in (pod["metadata"].get("annotations") or {}) and not Pod.parse(pod).is_checkpoint


def _workload(context: PreflightContext, workload: Workload) -> Iterator[Finding]:
    pods = [Pod.parse(pod) for pod in context.kube.list(PODS, SYSTEM, labels=workload.selector)]
    pods = [pod for pod in pods if not (pod.is_checkpoint or pod.finished or pod.deleting)]
    # Those of a controller that the run leaves out go with it: until it is left out, the Deployment still counts them.
    gone = [pod for pod in pods if pod.node in context.left_out and not pod.ready]
    pods = [pod for pod in pods if pod not in gone]
    desired = workload.desired - len(gone)
    ready = [pod for pod in pods if pod.ready]
    controllers = context.controllers
    see = f"kubectl -n {SYSTEM} describe pods -l {workload.selector}"
    name = workload.ref.name
    unexpected = sorted({pod.node for pod in ready} - controllers)
    if unexpected:
        yield Finding(
            "control-plane.unexpected",
            "warning",
            f"{name} runs on {', '.join(unexpected)}",
            "These nodes aren't in the group `controllers` of the inventory.",
            "Add these nodes to the group.",
        )
    if len(ready) >= max(1, desired):
        if unready := [pod for pod in pods if not pod.ready]:
            yield Finding(
                "control-plane.leftover",
                "warning",
                f"{name}: {_names(unready)} not Ready, although enough others are",
                "",
                see,
            )
        return
    unready = [pod for pod in pods if not pod.ready]
    if unready and all(_starts(pod, context.clock.now()) for pod in unready):
        see = (
            f"They are starting, as after a boot. `upgrader check --wait` (or `run --wait`) waits for them. See: {see}"
        )
    # The controller-manager does every rollout and the scheduler places every pod: no upgrade works without them.
    yield Finding(
        "control-plane.not-ready",
        "error" if not ready or name == "kube-apiserver" else "warning",
        f"{name}: {len(ready)} of {desired} pods Ready",
        _described(pods) or workload.trouble or "It has no pods.",
        see,
    )


def _starts(pod: Pod, now: datetime) -> bool:
    """Whether all that it lacks is some time: each container has been started, and was not ended by an error before."""
    left = [each for each in pod.containers if not each.ready]
    return bool(left) and all(
        each.running_since is not None
        and (now - each.running_since).total_seconds() < _START_SECONDS
        and (each.last is None or each.last.exit_code in _STOPPED)
        for each in left
    )


def _names(pods: Sequence[Pod]) -> str:
    return ", ".join(pod.name for pod in pods)


def _described(pods: Sequence[Pod]) -> str:
    """Each pod that isn't Ready, and why its containers are waiting."""
    lines = []
    for pod in pods:
        if not pod.ready:
            waits = [c.waiting_reason or (c.last.reason if c.last else "") for c in pod.containers if not c.ready]
            why = pod.unschedulable or pod.message or ", ".join(filter(None, waits)) or pod.phase
            lines.append(f"{pod.name} on {pod.node or 'no node'}: {why}")
    return "\n".join(lines)
