"""The last report as Prometheus text."""

from __future__ import annotations

from upgrader.checkpointer.model import ApiState
from upgrader.checkpointer.report import Counters, Report

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NAME = "upgrader_checkpointer_"


def render(report: Report | None, counters: Counters, now: float) -> str:
    """All metrics. ``now``: monotonic seconds."""
    lines: list[str] = []

    def metric(name: str, kind: str, text: str, *samples: tuple[str, float]) -> None:
        lines.extend((f"# HELP {_NAME}{name} {text}", f"# TYPE {_NAME}{name} {kind}"))
        lines.extend(f"{_NAME}{name}{labels} {value:g}" for labels, value in samples)

    metric("passes_total", "counter", "Passes of this instance, standby ones included.", ("", counters.passes))
    metric("failures_total", "counter", "Passes that could not do all they had to.", ("", counters.failures))
    metric("captures_total", "counter", "Generations written.", ("", counters.captures))
    metric("activations_total", "counter", "Times a copy's manifest was put in place.", ("", counters.activations))
    metric("releases_total", "counter", "Times a copy's manifest was withdrawn.", ("", counters.releases))
    if report is None:
        return "\n".join(lines) + "\n"
    metric("acting", "gauge", "1 for the instance that holds the node's lock.", ("", report.acting))
    metric("pass_age_seconds", "gauge", "Time since the last pass.", ("", now - report.at))
    metric("pass_duration_seconds", "gauge", "Duration of the last pass.", ("", report.seconds))
    if report.acting:
        states = [(f'{{state="{s.value}"}}', float(s is report.api)) for s in ApiState]
        metric("api", "gauge", "1 for the state that the API server is seen in.", *states)
        metric("runtime_known", "gauge", "1 when the container runtime answers.", ("", report.runtime_known))
        metric(
            "pending_pods",
            "gauge",
            "Pods that ask for a checkpoint and have no current one.",
            ("", len(report.pending)),
        )
        rows = [(f'{{namespace="{w.namespace}",workload="{w.name}"}}', r) for w, r in sorted(report.workloads.items())]
        metric("generation", "gauge", "Number of the last-known-good.", *((labels, r.generation) for labels, r in rows))
        metric("generations", "gauge", "Good generations on disk.", *((labels, r.kept) for labels, r in rows))
        metric(
            "damaged_generations", "gauge", "Damaged generations on disk.", *((labels, r.damaged) for labels, r in rows)
        )
        metric(
            "active", "gauge", "1 while the copy's manifest is in place.", *((labels, r.active) for labels, r in rows)
        )
    return "\n".join(lines) + "\n"
