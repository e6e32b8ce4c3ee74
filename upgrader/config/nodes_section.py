"""The section `nodes` of `upgrader.yaml` as settings."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from upgrader.config.copied_folder import not_copied
from upgrader.config.node_sources_yaml import (
    ContainerdArchiveSection,
    ContainerdSourceSection,
    ContainerRuntimeSection,
)
from upgrader.config.nodes_yaml import DetachSection, DrainSection, NodePoolSection, NodesSection
from upgrader.config.section import ApprovalSection
from upgrader.model.node_configuration import ContainerRuntime, NodeConfiguration
from upgrader.model.node_settings import (
    CONTROLLERS,
    WORKERS,
    ArchitectureSource,
    DetachPolicy,
    DrainPolicy,
    LeftAlone,
    NodePool,
    NodeSource,
    NodesSettings,
)
from upgrader.model.surge import Surge

__all__ = ["nodes_settings"]


def nodes_settings(
    section: NodesSection, home: Path, folder: Path, read: Callable[[Path], bytes], place: Callable[[int], str]
) -> NodesSettings:
    """The settings; the pools `controllers` and `workers` are there whether the file names them or not.

    `folder` is the cluster's, or the copy of `home` that is read instead. `read` reads a file that the section names;
    `place` is where an entry of `leftAlone` is, for messages. Raises what `read` does.
    """
    source = section.source
    own = {
        str(name): ArchitectureSource(_path(home, folder, each.path), each.url, _sums(each.sha256))
        for name, each in source.architectures.items()
    }
    named = {pool.name: _pool(pool, section, folder) for pool in section.pools}
    workers = named.pop(WORKERS, _unnamed(WORKERS, section))
    controllers = _unnamed(CONTROLLERS, section)
    return NodesSettings(
        NodeSource(source.kind, _path(home, folder, source.path), source.url, _sums(source.sha256), own),
        (controllers, *named.values(), workers),
        section.ready_deadline,
        NodeConfiguration(section.kubelet_configuration, _runtime(section.container_runtime, home, folder, read)),
        tuple(
            LeftAlone(place(index), each.selector, tuple(each.nodes)) for index, each in enumerate(section.left_alone)
        ),
    )


def _runtime(
    section: ContainerRuntimeSection | None, home: Path, folder: Path, read: Callable[[Path], bytes]
) -> ContainerRuntime | None:
    if section is None:
        return None
    config = folder / section.config if section.config else None
    made = ContainerRuntime(
        section.version, config=config, config_digest=hashlib.sha256(read(config)).hexdigest() if config else ""
    )
    source = section.source
    if source is None:
        return made

    def place(each: ContainerdSourceSection | ContainerdArchiveSection) -> str:
        return (_path(home, folder, each.path) or each.url).replace("{version}", section.version)

    own = {str(name): (place(each), each.sha256) for name, each in source.architectures.items()}
    return replace(made, kind=source.kind, place=place(source), sha256=source.sha256 or "", architectures=own)


def _path(home: Path, folder: Path, path: str) -> str:
    return str(not_copied(home, folder, path)) if path else ""


def _sums(sums: Mapping[str, Mapping[Any, str]]) -> Mapping[str, Mapping[str, str]]:
    return {version: {str(name): sum_ for name, sum_ in each.items()} for version, each in sums.items()}


def _unnamed(name: str, section: NodesSection) -> NodePool:
    """A pool that is there by itself."""
    approval, detach = _approval(name, None, section), _detach(name, None, section)
    return NodePool(name, drain=_drain(section.drain), detach=detach, approval_seconds=approval)


def _pool(pool: NodePoolSection, section: NodesSection, folder: Path) -> NodePool:
    drain, detach = _drain(pool.drain or section.drain), _detach(pool.name, pool.detach, section)
    approval = _approval(pool.name, pool.approval, section)
    made = NodePool(
        pool.name, pool.selector, pool.max_unavailable, pool.max_failed, drain, detach, approval_seconds=approval
    )
    if (own := pool.surge) is None:
        return made
    return replace(made, surge=Surge(own.nodes, folder / own.add, folder / own.remove, own.deadline))


def _drain(section: DrainSection) -> DrainPolicy:
    return DrainPolicy(section.deadline, section.on_blocked)


def _detach(pool: str, own: DetachSection | None, section: NodesSection) -> DetachPolicy | None:
    """A pool's own; else that of all, if that is for it."""
    every = section.detach
    found = own or (every if every is not None and (every.pools is None or pool in every.pools) else None)
    return DetachPolicy(found.grace_period, found.deadline) if found is not None else None


def _approval(pool: str, own: ApprovalSection | None, section: NodesSection) -> float | None:
    """The same of the approval that it waits for."""
    every = section.approval
    found = own or (every if every is not None and (every.pools is None or pool in every.pools) else None)
    return found.deadline if found is not None else None
