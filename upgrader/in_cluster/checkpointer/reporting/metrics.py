"""The last report as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from upgrader.in_cluster.checkpointer.observed_values import ApiState
from upgrader.in_cluster.checkpointer.reporting.pass_report import Counters, Report

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NAME = "upgrader_checkpointer_"
_TOTALS = {
    "passes": "Passes of this instance over the node's pods, including those in standby.",
    "failures": "Passes that could not complete all their work.",
    "captures": "Generations written.",
    "activations": "Times a standby pod's manifest was put in place.",
    "releases": "Times a standby pod's manifest was deactivated.",
    "invariant_violations": "Planned changes that were not made because they would violate an invariant (a bug).",
}
_OF_WORKLOADS = {
    "generation": ("generation", "Number of the last-known-good generation."),
    "generations": ("kept", "Intact generations on disk."),
    "damaged_generations": ("damaged", "Damaged generations on disk."),
    "failed_generations": ("failed", "Generations that did not stay up as standby pods."),
    "active": ("active", "1 while the standby pod's manifest is in place."),
}


def render(report: Report | None, counters: Counters, now: float) -> str:
    """All metrics, with the process's own memory and CPU time, as text. `now`: monotonic seconds."""
    # Imported here: a scrape can wait for it, the first pass after a power cut can't.
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
    from prometheus_client.registry import Collector

    class Families(Collector):
        def collect(self) -> Iterator[Metric]:
            return _families(report, counters, now)

    registry = CollectorRegistry()
    registry.register(Families())
    ProcessCollector(registry=registry)
    return generate_latest(registry).decode()


def _families(report: Report | None, counters: Counters, now: float) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily

    for name, text in _TOTALS.items():
        yield CounterMetricFamily(_NAME + name, text, getattr(counters, name))
    if report is None:
        return
    yield _gauge("acting", "1 for the instance that holds the node's lock.", {(): report.acting})
    yield _gauge("pass_age_seconds", "Time since the last pass.", {(): now - report.at})
    yield _gauge("pass_duration_seconds", "Duration of the last pass.", {(): report.seconds})
    if not report.acting:
        return
    states: dict[tuple[str, ...], float] = {(s.value,): s is report.api for s in ApiState}
    yield _gauge("api", "1 for the observed state of the API server.", states, ["state"])
    yield _gauge("runtime_known", "1 when the container runtime answers.", {(): report.runtime_known})
    yield _gauge("pending_pods", "Pods with the annotation that have no current checkpoint.", {(): len(report.pending)})
    yield _gauge(
        "ignored_pods",
        "Pods with the annotation that are ignored, because they are not allowed to have a checkpoint.",
        {(): report.ignored},
    )
    yield _gauge("down_copies", "Standby pods that should be running, but keep failing.", {(): len(report.down)})
    for name, (field, text) in _OF_WORKLOADS.items():
        rows: dict[tuple[str, ...], float] = {
            (w.namespace, w.name): getattr(r, field) for w, r in sorted(report.workloads.items())
        }
        yield _gauge(name, text, rows, ["namespace", "workload"])


def _gauge(name: str, text: str, samples: Mapping[tuple[str, ...], float], labels: list[str] | None = None) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(_NAME + name, text, labels=labels or [])
    for values, sample in samples.items():
        family.add_metric(values, sample)
    return family
