"""How long the pod-checkpointer waits before it acts, and how much it keeps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Durations in seconds. `keep`: how many distinct good generations stay on disk for each workload."""

    ready_for: float = 20.0
    grace: float = 20.0
    release_after: float = 30.0
    keep: int = 3

    @property
    def crash_grace(self) -> float:
        """How long a workload may fail to stay up, with a living kubelet restarting it, before its standby pod starts;
        and how long a standby pod may, before an older one takes its place.
        """
        return 3 * self.grace

    @property
    def expire_after(self) -> float:
        """How long a workload may be unneeded here before its checkpoint is removed: a node's pod that is being
        replaced, or waits for the scheduler, is back long before.
        """
        return 10 * self.release_after
