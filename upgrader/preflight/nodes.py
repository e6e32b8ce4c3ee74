"""The nodes are Ready, and the controllers of the inventory are nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from upgrader.gates.manifest_workloads import daemon_sets_on
from upgrader.gates.node_health import condition_problem, is_unreachable
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.left_out import CONTROL_PLANE, LeftOut
from upgrader.model.manifest import objects_in
from upgrader.model.node_mark import MARK, NodeMark
from upgrader.ports import KubeObject
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.down_controllers import check_left_out, is_down, told_as_down
from upgrader.preflight.left_alone import check_left_alone
from upgrader.preflight.node_upgrades import check_node_upgrades
from upgrader.preflight.surge_nodes import check_surge_nodes, surge_nodes
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.plan import planned_of

__all__ = ["check_nodes", "check_workers"]


def check_nodes(context: PreflightContext) -> Iterator[Finding]:
    """Every controller is a node, Ready and not being deleted, as are the nodes that are upgraded; and those can be."""
    nodes = context.nodes
    for host in context.cluster.controllers:
        if host.name not in nodes:
            yield Finding(
                "nodes.missing",
                "error",
                f"controller {host.name} is not a node of this cluster",
                f"The API knows {', '.join(sorted(nodes)) or 'no node'}.",
                "In the inventory, give each controller the name of its node; or check the kubeconfig.",
            )
    controllers, asked = context.controllers, context.controllers | _planned(context)
    down = {
        host.name
        for host in context.cluster.controllers
        if is_down(context.kube, context.hosts, host, nodes.get(host.name))
    }
    yield from told_as_down(context, down)
    surging = {name for names in surge_nodes(context).values() for name in names}
    yield from _labels(context, controllers)
    for name, node in sorted(nodes.items()):
        if name in asked and name not in down:
            yield from _node(name, node, "nodes", controller=name in controllers)
        yield from _pressure(name, node, controller=name in controllers, upgraded=name in asked)
        # The cordon of a surge node's removal is told with the node itself.
        if node.get("spec", {}).get("unschedulable") and not (name in surging and NodeMark.of(node)):
            yield _cordoned(context, name, node, controller=name in controllers)
    yield from check_left_out(context)
    yield from check_left_alone(context)
    yield from check_node_upgrades(context)
    yield from check_surge_nodes(context)


def check_workers(context: PreflightContext) -> Iterator[Finding]:
    """Every worker that the run doesn't upgrade is Ready, and not being deleted: a run completes without it, and may be
    started anyway. One that is down needs no skip: nothing of a run needs it.
    """
    asked = context.controllers | context.left_out.keys() | _planned(context)
    workers = {name: node for name, node in sorted(context.nodes.items()) if name not in asked}
    down = {
        name: node
        for name, node in workers.items()
        if is_unreachable(node) and "deletionTimestamp" not in node["metadata"]
    }
    wanted = [daemon_sets_on(release.after, release.spec.namespace, down.values()) for release in context.changing]
    for name, node in workers.items():
        if name in down:
            yield _down(name, node, [str(ref) for refs in wanted for ref in refs.get(name, ())])
        else:
            yield from _node(name, node, "workers", controller=False)


def _down(name: str, node: KubeObject, refs: Sequence[str]) -> Finding:
    ready = next(item for item in node["status"]["conditions"] if item["type"] == "Ready")
    since = f" since {ready['lastTransitionTime']}" if "lastTransitionTime" in ready else ""
    left = (
        f" The run doesn't wait for the pods of {first_few(refs)} there. They get their new version when the worker is "
        "back, if it can pull their images; if these come from a bundle, import them into the worker before that."
        if refs
        else ""
    )
    return Finding(
        "workers.down",
        "warning",
        f"worker {name} is down{since}: the run leaves it out",
        f"{ready.get('message', '')}{left}".strip(),
        f"If its machine is permanently gone: kubectl delete node {name}, and remove it from the inventory.",
    )


def _planned(context: PreflightContext) -> set[str]:
    """The nodes that the run upgrades."""
    return {item.node for step in planned_of(context.plan, PlannedNodes) for item in step.nodes}


def _labels(context: PreflightContext, controllers: frozenset[str]) -> Iterator[Finding]:
    """The inventory's controllers are the nodes on which the control plane is placed."""
    wanted = _selector(context)
    chosen = {name for name, node in context.nodes.items() if wanted.items() <= _labels_of(node).items()}
    label = ",".join(f"{key}={value}" for key, value in wanted.items())
    if unlisted := sorted(chosen - controllers - context.left_out.keys()):
        yield Finding(
            "nodes.unlisted",
            "error",
            f"{', '.join(unlisted)}: a control-plane node that is not in the inventory",
            f"Its label {label} allows control-plane pods there, but no gate checks them.",
            f"Add it to the group `controllers` of the inventory, or: kubectl label node {unlisted[0]} "
            f"{next(iter(wanted), '')}-",
        )
    marked = {name for name in controllers & context.nodes.keys() if LeftOut.of(context.nodes[name])}
    for name in sorted(marked):
        yield Finding(
            "nodes.still-left-out",
            "error",
            f"controller {name} was left out of runs while it was down",
            "The control plane was upgraded, or will be upgraded, without it.",
            f"When it is back: upgrader resume. If it is permanently gone: upgrader controllers remove {name} "
            "--dead. To run without it for now: `policy.degraded: allow`.",
        )
    if unlabelled := sorted(controllers & context.nodes.keys() - chosen - marked):
        yield Finding(
            "nodes.unlabelled",
            "error",
            f"controller {', '.join(unlabelled)}: no control-plane pod can be scheduled there",
            f"Its node doesn't have the label {label}.",
            f"kubectl label node {unlabelled[0]} {label}; or remove it from the group `controllers` of the inventory.",
        )


def _selector(context: PreflightContext) -> Mapping[str, str]:
    """The node selector of the planned kube-apiserver."""
    for item in objects_in(context.planned("kube-apiserver")).values():
        if item["metadata"]["name"] == "kube-apiserver" and item["kind"] in ("Deployment", "DaemonSet"):
            return item["spec"]["template"]["spec"].get("nodeSelector") or {}
    return {CONTROL_PLANE: ""}


def _labels_of(node: KubeObject) -> Mapping[str, str]:
    return node["metadata"].get("labels") or {}


def _see(name: str, *, controller: bool, upgraded: bool = False) -> str:
    see = f"kubectl describe node {name}. "
    if controller:
        return (
            see + "A run leaves out only a controller that is down: repair it, or remove it (docs/troubleshooting.md)."
        )
    gone = f"If its machine is permanently gone: kubectl delete node {name}, and remove it from the inventory."
    return see + gone + (f" {_leave_alone(name)}" if upgraded else "")


def _leave_alone(name: str) -> str:
    return f"To upgrade the others first, name it in `nodes.leftAlone` of upgrader.yaml: `- nodes: [{name}]`."


def _node(name: str, node: KubeObject, family: str, *, controller: bool) -> Iterator[Finding]:
    conditions = {item["type"]: item for item in node.get("status", {}).get("conditions") or ()}
    ready, see = conditions.get("Ready", {}), _see(name, controller=controller, upgraded=family == "nodes")
    what = f"{'controller' if controller else 'node'} {name}"
    if ready.get("status") == "False":
        yield Finding(f"{family}.not-ready", "error", f"{what} is not Ready", ready.get("message", ""), see)
    elif ready.get("status") != "True":
        why = ready.get("message") or "Its kubelet has never reported."
        yield Finding(f"{family}.unknown", "unknown", f"it is unknown whether {what} is Ready", why, see)
    if "deletionTimestamp" in node["metadata"]:
        since = node["metadata"]["deletionTimestamp"]
        yield Finding(
            f"{family}.deleting",
            "error",
            f"node {name} is being deleted",
            f"Since {since}; finalizers: {', '.join(node['metadata'].get('finalizers') or ['none'])}.",
            "Wait until it is deleted, or find out why its finalizers aren't removed by the controller that set them.",
        )


def _pressure(name: str, node: KubeObject, *, controller: bool, upgraded: bool) -> Iterator[Finding]:
    """After an upgrade, a node under pressure isn't back, also not with its old programs: no upgrade of it begins."""
    ready = {item["type"]: item.get("status") for item in node.get("status", {}).get("conditions") or ()}.get("Ready")
    if ready != "True" or not (problem := condition_problem(node)):
        return
    why, see = "", f"kubectl describe node {name}"
    if controller:
        why, see = "No step passes its gates until this is fixed.", _see(name, controller=True)
    elif upgraded:
        why = "Its upgrade would fail, and the run would be rolled back."
        see = f"Free the resource that is short there: {see}. {_leave_alone(name)}"
    yield Finding(
        "nodes.pressure",
        "error" if upgraded else "warning",
        f"{'controller' if controller else 'node'} {name} {problem}",
        why,
        see,
    )


def _cordoned(context: PreflightContext, name: str, node: KubeObject, *, controller: bool) -> Finding:
    """A cordon that an interrupted upgrade of nodes has left is lifted by the run that takes the node up."""
    what = f"{'controller' if controller else 'node'} {name}"
    mark = NodeMark.of(node)
    ours = mark is not None and mark.cordoned
    planned = any(item.node == name for step in planned_of(context.plan, PlannedNodes) for item in step.nodes)
    # The releases come first, and a controller that takes no new pods would fail their gates.
    changed = bool(context.changing)
    lifted = ours and planned and not (controller and changed)
    why = "New pods are not placed there."
    if lifted:
        why = "The run continues this node's upgrade, and uncordons it when it is Ready."
    elif ours:
        why += f" Its programs may be old or new (annotation {MARK}). This run can't continue the node's upgrade: "
        why += "it needs the node earlier, or doesn't upgrade it."
    return Finding(
        "nodes.cordoned",
        "info" if lifted else "error" if controller else "warning",
        f"{what} is cordoned{' by an upgrade that was interrupted' if ours else ''}",
        why,
        "Leave it as it is."
        if lifted
        else "`upgrader resume` completes that upgrade, `upgrader rollback` undoes it."
        if ours
        else f"kubectl uncordon {name}",
    )
