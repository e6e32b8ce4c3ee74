"""The section `nodes` of `upgrader.yaml` as settings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from upgrader.config.nodes_yaml import ContainerRuntimeSection, DrainSection, NodePoolSection, NodesSection
from upgrader.model.node_configuration import ContainerRuntime, NodeConfiguration
from upgrader.model.node_settings import CONTROLLERS, WORKERS, DrainPolicy, NodePool, NodeSource, NodesSettings

__all__ = ["nodes_settings"]


def nodes_settings(section: NodesSection, folder: Path, read: Callable[[Path], bytes]) -> NodesSettings:
    """The settings; the pools `controllers` and `workers` are there whether the file names them or not.

    `read` reads a file that the section names. Raises what that does.
    """
    source = section.source
    path = str(folder / source.path) if source.path else ""
    sums = {version: {str(name): sum_ for name, sum_ in each.items()} for version, each in source.sha256.items()}
    named = {pool.name: _pool(pool, section.drain) for pool in section.pools}
    workers = named.pop(WORKERS, NodePool(WORKERS, drain=_drain(section.drain)))
    return NodesSettings(
        NodeSource(source.kind, path, source.url, sums),
        (NodePool(CONTROLLERS, drain=_drain(section.drain)), *named.values(), workers),
        section.ready_deadline,
        NodeConfiguration(section.kubelet_configuration, _runtime(section.container_runtime, folder, read)),
    )


def _runtime(
    section: ContainerRuntimeSection | None, folder: Path, read: Callable[[Path], bytes]
) -> ContainerRuntime | None:
    if section is None:
        return None
    source, config = section.source, folder / section.config if section.config else None
    place = str(folder / source.path) if source and source.path else source.url if source else ""
    return ContainerRuntime(
        section.version,
        source.kind if source else "",
        place.replace("{version}", section.version),
        (source.sha256 or "") if source else "",
        config,
        hashlib.sha256(read(config)).hexdigest() if config else "",
    )


def _pool(pool: NodePoolSection, drain: DrainSection) -> NodePool:
    return NodePool(pool.name, pool.selector, pool.max_unavailable, pool.max_failed, _drain(pool.drain or drain))


def _drain(section: DrainSection) -> DrainPolicy:
    return DrainPolicy(section.deadline, section.on_blocked)
