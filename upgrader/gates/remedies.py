"""The commands by which an operator sees more of what failed a gate."""

from __future__ import annotations

from collections.abc import Sequence

from upgrader.model.workload import Container, Pod, WorkloadRef

__all__ = ["delete_pods", "describe_node", "describe_workload", "inspect_pod"]


def describe_workload(ref: WorkloadRef) -> str:
    """How to see a workload's conditions and events."""
    return f"Check its conditions and events: kubectl -n {ref.namespace} describe {ref.kind.lower()} {ref.name}"


def delete_pods(ref: WorkloadRef, names: Sequence[str]) -> str:
    """How to have pods replaced that no controller replaces by itself."""
    return (
        f"Find out why nobody replaces them: kubectl -n {ref.namespace} describe {ref.kind.lower()} {ref.name}. "
        f"To do it by hand: kubectl -n {ref.namespace} delete pod {names[0]}{' …' if names[1:] else ''}"
    )


def inspect_pod(pod: Pod, container: Container | None) -> str:
    """How to see a pod's events, and the log of the container at fault, where it has one."""
    see = [f"kubectl -n {pod.namespace} describe pod {pod.name}"]
    if container is not None and container.waiting_reason and container.last is not None:
        see.append(f"kubectl -n {pod.namespace} logs {pod.name} -c {container.name} --previous")
    elif container is not None and (container.running_since or container.terminated or container.last) is not None:
        see.append(f"kubectl -n {pod.namespace} logs {pod.name} -c {container.name}")
    return f"Fix the cause above. To see more while the pod exists: {'; '.join(see)}"


def describe_node(name: str) -> str:
    """How to see a node's conditions."""
    return f"Check the node, and the kubelet on it: kubectl describe node {name}"
