"""The step that brings the new programs to all nodes of a plan, before anything is changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from upgrader.model.counted import counted
from upgrader.model.own_steps import STAGE_NODES
from upgrader.steps.nodes.node_playbooks import NodePlaybooks
from upgrader.steps.one_way import OneWay

__all__ = ["StageNodesStep"]


@dataclass(frozen=True)
class StageNodesStep(OneWay):
    """A node that Ansible can't reach, or a program with a wrong checksum, ends the run before its first change."""

    playbooks: NodePlaybooks
    nodes: Sequence[str]
    name: str = STAGE_NODES

    def summary(self) -> str:
        count = len(self.nodes)
        if not count:
            return "nothing to change"
        return f"copy the binaries of {self.playbooks.target} to {counted(count, 'node')}"

    def apply(self, note: Callable[[str], None]) -> None:
        self.playbooks.stage(self.nodes)
