"""The queries of metric gates return values before anything changes: a gate without a value would roll back the run."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.errors import ServiceError
from upgrader.gates.metric_gate import judge, resolution_seconds
from upgrader.model.finding import Finding
from upgrader.model.gate_settings import MetricGateSettings
from upgrader.model.outcome import Verdict, VerdictKind, unknown
from upgrader.ports import Prometheus
from upgrader.preflight.context import PreflightContext

__all__ = ["check_metric_gates"]


def check_metric_gates(context: PreflightContext) -> Iterator[Finding]:
    """Each query is asked once, for its newest value."""
    if context.prometheus is None:
        return
    for gate in context.metric_gates:
        verdict = _asked(context.prometheus, gate)
        if verdict.kind is VerdictKind.UNKNOWN:
            yield Finding(
                "metrics.unanswered",
                "error",
                f"metric gate {gate.name} has no value now",
                f"It would not pass after a step, and the run would be rolled back. {verdict.reason}",
                f"{verdict.remedy} If only the new version has the metric: `--skip metrics`.",
            )
        elif verdict.kind is not VerdictKind.HOLDS:
            yield Finding(
                "metrics.outside",
                "warning",
                f"metric gate {gate.name} is outside its limits before the run",
                f"It would not pass after a step either, unless the step changes the value. {verdict.reason}",
                "Find out why, or change the gate's `min` or `max` in upgrader.yaml.",
            )


def _asked(prometheus: Prometheus, gate: MetricGateSettings) -> Verdict:
    try:
        found = prometheus.values(gate.query, points=1, step_seconds=resolution_seconds(gate))
    except ServiceError as error:
        return unknown(error.message, remedy="Check that Prometheus is up, and that this machine can reach it.")
    return judge(gate, found, 1)
