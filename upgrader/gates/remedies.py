"""The commands by which an operator sees more of what failed a gate."""

from __future__ import annotations

from collections.abc import Sequence

from upgrader.model.workload import Container, Pod, WorkloadRef

__all__ = ["delete_pods", "describe_node", "describe_workload", "inspect_pod", "pause_writer"]


def describe_workload(ref: WorkloadRef) -> str:
    """How to see a workload's conditions and events."""
    return f"Check its conditions and events: kubectl -n {ref.namespace} describe {ref.kind.lower()} {ref.name}"


def delete_pods(ref: WorkloadRef, names: Sequence[str]) -> str:
    """How to have pods replaced that no controller replaces by itself."""
    return (
        f"Find out why they aren't replaced: kubectl -n {ref.namespace} describe {ref.kind.lower()} {ref.name}. To "
        f"replace them by hand: kubectl -n {ref.namespace} delete pod {names[0]}{' …' if names[1:] else ''}"
    )


def inspect_pod(ref: WorkloadRef | None, pod: Pod, container: Container | None) -> str:
    """How to see more of a workload's pod: the log of the container at fault, where it has one, or else its events.

    First what is left once the step is rolled back, which is when most people read this: the pod is gone by then.
    """
    see = f"describe pod {pod.name}"
    if container is not None and container.waiting_reason and container.last is not None:
        see = f"logs {pod.name} -c {container.name} --previous"
    elif container is not None and (container.running_since or container.terminated or container.last) is not None:
        see = f"logs {pod.name} -c {container.name}"
    workload = f", and kubectl -n {ref.namespace} describe {ref.kind.lower()} {ref.name} shows more" if ref else ""
    return (
        f"Fix the cause above. `upgrader report` has the recorded state of the pod{workload}. While the pod exists: "
        f"kubectl -n {pod.namespace} {see}"
    )


_PAUSED = {
    "argocd": "Argo CD: argocd app set APP --sync-policy none",
    "helm-controller": "Flux: flux suspend helmrelease NAME -n NAMESPACE",
    "kustomize-controller": "Flux: flux suspend kustomization NAME -n NAMESPACE",
}
"""How those are paused that change objects back, by how their field managers begin."""


def pause_writer(ref: WorkloadRef, manager: str) -> str:
    """How to have one writer of a workload less: two that want different things can't both have them."""
    paused = next((text for begins, text in _PAUSED.items() if manager.startswith(begins)), "")
    how = f"Pause it ({paused})" if paused else "Configure it to leave this object alone"
    see = f"kubectl -n {ref.namespace} get {ref.kind.lower()} {ref.name} --show-managed-fields -o yaml"
    return f"{how}, or set the same in the values of the release. To see which manager wrote which field: {see}"


def describe_node(name: str) -> str:
    """How to see a node's conditions."""
    return f"Check the node, and the kubelet on it: kubectl describe node {name}"
