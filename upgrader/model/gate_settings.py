"""The operator's settings of gates: when one passes, and those that the file adds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["OF_GUARD", "GatePolicy", "MetricGateSettings", "StepGate", "WorkloadGate", "WorkloadGateKind"]

_NODES_A_SECOND, _SLOWEST_SECONDS = 300, 5.0
"""On 1,000 nodes, gates are checked every 3.3 s: their kubelets alone send 100 heartbeats a second."""

_ROUNDS_OF_REST = 2.5
"""While one gate is waited for, those that pass are checked in every third round: half of a round is for the checks."""


@dataclass(frozen=True)
class GatePolicy:
    """When a gate passes: after `consecutive` successful checks, `interval_seconds` apart, before the deadline."""

    consecutive: int = 3
    interval_seconds: float = 1.0
    deadline_seconds: float = 120.0
    recheck_seconds: float = 0.0
    """How long a passing gate isn't checked again while another one is waited for; 0: it is checked each time."""

    def at_scale(self, nodes: int) -> GatePolicy:
        """The same on a cluster with this many nodes: if everything takes minutes, a check a second only loads the API.

        Never so slow that the deadline leaves less than eight times the checks that have to succeed. On a cluster of up
        to 300 nodes every gate is checked each time.
        """
        scaled = min(nodes / _NODES_A_SECOND, _SLOWEST_SECONDS, self.deadline_seconds / (8 * self.consecutive))
        rest = _ROUNDS_OF_REST * scaled if nodes > _NODES_A_SECOND else 0.0
        return replace(self, interval_seconds=max(self.interval_seconds, scaled), recheck_seconds=rest)


WorkloadGateKind = Literal["daemonset", "deployment", "statefulset", "rolloutGroup", "protector"]
"""The object of a gate, as `upgrader.yaml` names it."""

OF_GUARD: frozenset[WorkloadGateKind] = frozenset({"statefulset", "rolloutGroup", "protector"})
"""Gates on workloads that clients other than Helm change: a rollback waits for them, too."""


@dataclass(frozen=True)
class WorkloadGate:
    """A gate that the file adds to a step: a workload, a group of workloads or a protector that must be healthy."""

    kind: WorkloadGateKind
    namespace: str
    name: str
    policy: GatePolicy


@dataclass(frozen=True)
class MetricGateSettings:
    """A gate that the file adds to a step: the result of a Prometheus query must stay within limits for a time."""

    name: str
    query: str
    """PromQL that returns one series."""
    policy: GatePolicy
    minimum: float | None = None
    maximum: float | None = None
    """At least one of the two; a value equal to a limit passes."""
    window_seconds: float = 60.0
    """How long it must stay within them, entirely after the step's change."""


StepGate = WorkloadGate | MetricGateSettings
