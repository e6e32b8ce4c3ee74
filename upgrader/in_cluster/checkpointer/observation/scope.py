"""Which pods may have a checkpoint: a static pod bypasses admission and quotas, and its files are root's on the node.

So the annotation alone isn't enough: any user who may create pods in some namespace can set it.
"""

from __future__ import annotations

from dataclasses import dataclass

from upgrader.in_cluster.checkpointer.checkpointer_errors import Refused
from upgrader.in_cluster.checkpointer.static_pods.pods import Pod, workload_of
from upgrader.onhost.node.workload_policy import Workload


@dataclass(frozen=True)
class Scope:
    """`namespaces`: those whose pods may have one. `workloads`: as NAMESPACE/NAME, only these; empty for all there."""

    namespaces: frozenset[str] = frozenset({"kube-system"})
    workloads: frozenset[str] = frozenset()

    def allows(self, workload: Workload) -> bool:
        """Whether this workload may have a checkpoint."""
        return workload.namespace in self.namespaces and (not self.workloads or str(workload) in self.workloads)

    def admits(self, pod: Pod) -> bool:
        """Whether this pod may."""
        try:
            return self.allows(workload_of(pod))
        except Refused:  # whose pod it is isn't known: it is refused with the reason where that doesn't matter
            return pod["metadata"]["namespace"] in self.namespaces and not self.workloads
