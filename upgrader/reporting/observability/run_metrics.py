"""The metrics of a run, from its state. Each label has few values: clusters, kinds of run, steps, gates, outcomes."""

from __future__ import annotations

from datetime import datetime

from upgrader.engine.state.run_state import RunState
from upgrader.reporting.observability.exposition import Family, Sample

__all__ = ["OUTCOMES", "run_metrics"]

OUTCOMES = ("running", "succeeded", "rolled-back", "failed", "interrupted")
"""The values of the label `outcome`; exactly one of them is 1."""


def run_metrics(state: RunState, cluster: str, last_success: datetime | None, *, over: bool) -> tuple[Family, ...]:
    """The metrics of this run. `over`: its process ends here, so that a run without an end was interrupted.

    `last_success` is when the newest run of its kind that succeeded ended, unless this one has; None: unknown.
    """
    labels = {"cluster": cluster, "kind": str(state.kind)}
    outcome = state.outcome or ("interrupted" if over else "running")
    if state.outcome == "succeeded":
        last_success = state.updated
    failed = state.availability.failed if state.availability else None
    return (
        Family(
            "upgrader_run_outcome",
            "gauge",
            "Outcome of the newest run of its kind, or that it is running: 1 for this outcome, 0 for the others.",
            tuple(Sample({**labels, "outcome": each}, float(each == outcome)) for each in OUTCOMES),
        ),
        Family(
            "upgrader_step_duration_seconds",
            "gauge",
            "Duration of a step of the newest run with its gates, until it passed or failed.",
            tuple(Sample({**labels, "step": step.name}, step.seconds) for step in state.steps if step.seconds),
        ),
        Family(
            "upgrader_gate_wait_seconds",
            "gauge",
            "How long the newest run has waited for a gate, until the gate passed or failed.",
            tuple(
                Sample({**labels, "step": step, "gate": gate}, seconds)
                for (step, gate), seconds in _waits(state).items()
            ),
        ),
        Family(
            "upgrader_api_requests_failed_total",
            "counter",
            "Requests to the Kubernetes API that the newest run's prober sent, and that failed after all retries.",
            () if failed is None else (Sample(labels, float(failed)),),
        ),
        Family(
            "upgrader_last_success_timestamp_seconds",
            "gauge",
            "When the newest successful run of its kind ended.",
            (Sample(labels, last_success.timestamp()),) if last_success else (),
        ),
    )


def _waits(state: RunState) -> dict[tuple[str, str], float]:
    """By step and gate: all its waits in this run, after the step and after its undo."""
    found: dict[tuple[str, str], float] = {}
    for span in state.spans:
        end = span.ended or state.updated
        if span.kind == "gate" and end is not None:
            place = (span.step, span.gate)
            # A machine's clock may be set back.
            found[place] = found.get(place, 0.0) + max(0.0, (end - span.began).total_seconds())
    return found
