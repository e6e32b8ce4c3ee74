"""The section `nodes` of `upgrader.yaml` as settings."""

from __future__ import annotations

from pathlib import Path

from upgrader.config.nodes_yaml import DrainSection, NodePoolSection, NodesSection
from upgrader.model.node_configuration import NodeConfiguration
from upgrader.model.node_settings import CONTROLLERS, WORKERS, DrainPolicy, NodePool, NodeSource, NodesSettings

__all__ = ["nodes_settings"]


def nodes_settings(section: NodesSection, folder: Path) -> NodesSettings:
    """The settings; the pools `controllers` and `workers` are there whether the file names them or not."""
    source = section.source
    path = str(folder / source.path) if source.path else ""
    sums = {version: {str(name): sum_ for name, sum_ in each.items()} for version, each in source.sha256.items()}
    named = {pool.name: _pool(pool, section.drain) for pool in section.pools}
    workers = named.pop(WORKERS, NodePool(WORKERS, drain=_drain(section.drain)))
    return NodesSettings(
        NodeSource(source.kind, path, source.url, sums),
        (NodePool(CONTROLLERS, drain=_drain(section.drain)), *named.values(), workers),
        section.ready_deadline,
        NodeConfiguration(section.kubelet_configuration),
    )


def _pool(pool: NodePoolSection, drain: DrainSection) -> NodePool:
    return NodePool(pool.name, pool.selector, pool.max_unavailable, pool.max_failed, _drain(pool.drain or drain))


def _drain(section: DrainSection) -> DrainPolicy:
    return DrainPolicy(section.deadline, section.on_blocked)
