"""What an instance reports of itself: the last pass, folded into what health checks and metrics need."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from upgrader.in_cluster.checkpointer.observed_values import ApiState
from upgrader.onhost.node.workload_policy import Workload


@dataclass(frozen=True)
class WorkloadReport:
    """One workload on disk. `generation`: number of the last-known-good, 0 when there is none. `failed`: how many
    generations didn't stay up as standby pods. `reason`: why it is as it is.
    """

    generation: int
    kept: int
    damaged: int
    failed: int
    active: bool
    reason: str


@dataclass(frozen=True)
class Report:
    """`at`: monotonic seconds of the pass. `pending`: pods without a current checkpoint, each with the reason.
    `down`: standby pods that should run and don't. `ignored`: how many pods ask for a checkpoint and may have none.
    `urgent`: the API is unreachable and no standby pod is active: the next pass may be what restores it.
    """

    at: float
    acting: bool
    api: ApiState = ApiState.UNKNOWN
    runtime_known: bool = False
    pending: Mapping[str, str] = field(default_factory=dict)
    workloads: Mapping[Workload, WorkloadReport] = field(default_factory=dict)
    down: tuple[str, ...] = ()
    ignored: int = 0
    failure: str = ""
    urgent: bool = False
    seconds: float = 0.0

    def unready(self) -> list[str]:
        """Why the acting instance is not ready; empty when it is."""
        reasons = [*(f"{pod}: {reason}" for pod, reason in sorted(self.pending.items())), *self.down]
        if self.api is not ApiState.ANSWERING:
            state = "unreachable" if self.api is ApiState.AWAY else self.api.value
            reasons.append(f"the API server is {state}")
        if not self.runtime_known:
            reasons.append("the container runtime doesn't answer")
        if self.failure:
            reasons.append(self.failure)
        return reasons


@dataclass(frozen=True)
class Counters:
    """Totals since this process started."""

    passes: int = 0
    failures: int = 0
    captures: int = 0
    activations: int = 0
    releases: int = 0
    invariant_violations: int = 0


class Board:
    """The last report, handed from the loop to the endpoints."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._report: Report | None = None
        self._counters = Counters()

    def put(self, report: Report, counters: Counters) -> None:
        """Publish a pass."""
        with self._lock:
            self._report, self._counters = report, counters

    def get(self) -> tuple[Report | None, Counters]:
        """The last pass; None before the first."""
        with self._lock:
            return self._report, self._counters
