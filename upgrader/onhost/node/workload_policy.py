"""The workload of a checkpoint, and when a checkpoint is started."""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Workload:
    """The workload of a checkpoint, independent of its pods' names: the owner's namespace and name.

    The kind is left out on purpose: a DaemonSet that becomes a Deployment of the same name is the same workload, of
    which only one standby pod may run.
    """

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Policy(enum.Enum):
    """When a workload's standby pod runs."""

    API_AWAY = "api-away"
    """While the API is unreachable and the workload doesn't run on this node: kube-apiserver."""
    LEASE = "lease"
    """While the API answers and nothing in the cluster holds the workload's lease: controller-manager, scheduler."""
    ALWAYS = "always"
    """The checkpointer itself."""
