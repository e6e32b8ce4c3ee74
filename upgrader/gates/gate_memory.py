"""What the gates of one process have seen so far, and need not find out again."""

from __future__ import annotations

from dataclasses import dataclass, field

from upgrader.gates.node_health import NodeMemory
from upgrader.gates.protector_gate import ProtectorMemory
from upgrader.gates.shared_reads import ReadMemory
from upgrader.gates.started_version import VersionMemory

__all__ = ["GateMemory"]


@dataclass(frozen=True)
class GateMemory:
    """Shared by all gates, before and behind every step."""

    nodes: NodeMemory = field(default_factory=NodeMemory)
    reads: ReadMemory = field(default_factory=ReadMemory)
    protectors: ProtectorMemory = field(default_factory=ProtectorMemory)
    unreachable: set[str] = field(default_factory=set)
    """Instances of kube-apiserver that can't be reached from here, and are asked through the API."""
    versions: VersionMemory = field(default_factory=VersionMemory)
    """What components have said of their versions, once for each start."""
