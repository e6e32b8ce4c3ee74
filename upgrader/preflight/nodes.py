"""The nodes are Ready, and the controllers of the inventory are nodes."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.ports import KubeObject
from upgrader.preflight.context import NODES, PreflightContext

__all__ = ["check_nodes"]


def check_nodes(context: PreflightContext) -> Iterator[Finding]:
    """Every node is Ready and not being deleted, and every controller of the inventory is a node."""
    nodes = {node["metadata"]["name"]: node for node in context.kube.list(NODES)}
    for host in context.cluster.controllers:
        if host.name not in nodes:
            yield Finding(
                "nodes.missing",
                "error",
                f"controller {host.name} is not a node of this cluster",
                f"The API knows {', '.join(sorted(nodes)) or 'no node'}.",
                "Name the controllers in the inventory as their nodes are named, or check the kubeconfig.",
            )
    controllers = {host.name for host in context.cluster.controllers}
    for name, node in sorted(nodes.items()):
        yield from _node(name, node, controller=name in controllers)


def _node(name: str, node: KubeObject, *, controller: bool) -> Iterator[Finding]:
    conditions = {item["type"]: item for item in node.get("status", {}).get("conditions") or ()}
    ready = conditions.get("Ready", {})
    see = f"kubectl describe node {name}"
    if controller:
        see += ". No run skips a controller: repair it, or remove it from the cluster (docs/troubleshooting.md)."
    what = f"{'controller' if controller else 'node'} {name}"
    if ready.get("status") == "False":
        yield Finding("nodes.not-ready", "error", f"{what} is not Ready", ready.get("message", ""), see)
    elif ready.get("status") != "True":
        why = ready.get("message") or "Its kubelet has never reported."
        yield Finding("nodes.unknown", "unknown", f"it is unknown whether {what} is Ready", why, see)
    if "deletionTimestamp" in node["metadata"]:
        since = node["metadata"]["deletionTimestamp"]
        yield Finding(
            "nodes.deleting",
            "error",
            f"node {name} is being deleted",
            f"Since {since}; finalizers: {', '.join(node['metadata'].get('finalizers') or ['none'])}.",
            "Wait until it is deleted.",
        )
    if node.get("spec", {}).get("unschedulable"):
        yield Finding(
            "nodes.cordoned",
            "warning",
            f"node {name} is cordoned",
            "New pods are not placed there.",
            f"kubectl uncordon {name}",
        )
