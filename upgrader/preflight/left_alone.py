"""`nodes.leftAlone` selects only existing nodes that are in no pool, and includes all Windows nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.node_settings import LeftAlone, NodesSettings
from upgrader.preflight.context import PreflightContext
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.plan import planned_of

__all__ = ["check_left_alone"]

_OS, _WINDOWS = "kubernetes.io/os", "windows"


def check_left_alone(context: PreflightContext) -> Iterator[Finding]:
    """Nothing where upgrader.yaml has no section `nodes`: a run leaves all nodes alone then."""
    settings = context.node_settings
    if settings is None:
        return
    nodes = {name: node["metadata"].get("labels") or {} for name, node in context.nodes.items()}
    for each in settings.left_alone:
        yield from _selects_nothing(each, nodes)
        yield from _has_a_pool(each, nodes, settings, context.controllers)
    yield from _windows(context, nodes)


def _selects_nothing(each: LeftAlone, nodes: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    missing = [name for name in each.names if name not in nodes]
    if each.selector and not any(each.has(name, labels) for name, labels in nodes.items()):
        missing = [f"nodes with the labels {','.join(f'{key}={value}' for key, value in each.selector.items())}"]
    if missing:
        yield Finding(
            "nodes.left-alone-missing",
            "warning" if each.selector else "error",  # an autoscaler's pool may have no node now
            f"{each.where}: `nodes.leftAlone` selects {first_few(missing)}, but the cluster has none",
            "If this is a typing error, the run upgrades the nodes that it should leave alone.",
            "Correct it, or remove it if the cluster no longer has such nodes: kubectl get nodes --show-labels",
        )


def _has_a_pool(
    each: LeftAlone, nodes: Mapping[str, Mapping[str, str]], settings: NodesSettings, controllers: frozenset[str]
) -> Iterator[Finding]:
    twice = []
    for name, labels in sorted(nodes.items()):
        pool = settings.selected_by(labels)
        if each.has(name, labels) and name in controllers:
            twice.append(f"{name} (a controller)")
        elif each.has(name, labels) and pool is not None:
            twice.append(f"{name} (in the pool {pool.name})")
    if twice:
        yield Finding(
            "nodes.left-alone-in-pool",
            "error",
            f"{each.where}: `nodes.leftAlone` selects nodes that are also upgraded: {first_few(twice)}",
            "Controllers, and nodes with the labels of a pool, are always upgraded.",
            "Correct the labels in `nodes.leftAlone` or `nodes.pools` of upgrader.yaml, or the node's own labels.",
        )


def _windows(context: PreflightContext, nodes: Mapping[str, Mapping[str, str]]) -> Iterator[Finding]:
    planned = (change.node for step in planned_of(context.plan, PlannedNodes) for change in step.nodes)
    windows = sorted(name for name in planned if nodes.get(name, {}).get(_OS) == _WINDOWS)
    if windows:
        yield Finding(
            "nodes.windows",
            "error",
            f"{first_few(windows)}: a Windows node: upgrader can't upgrade its kubelet",
            "upgrader's playbooks support only Linux with systemd.",
            f"Exclude it in upgrader.yaml: `nodes: {{leftAlone: [{{selector: {{{_OS}: {_WINDOWS}}}}}]}}`. Upgrade its "
            "kubelet yourself, after the run.",
        )
