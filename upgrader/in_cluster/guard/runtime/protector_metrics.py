"""What the roles of PodProtectors count, under the names that podseidon's dashboards know. Times are in seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import Gauge, Histogram

from upgrader.in_cluster.guard.runtime.metrics import Metrics

__all__ = ["ProtectorMetrics"]

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_COUNTS = (0, 1, 2, 4, 8, 16, 32, 64, 128)


class ProtectorMetrics:
    """Those of one process, in the registry of the rest."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        begun, registry, self._clock = clock(), metrics.registry, clock
        age = Gauge("heartbeat", "Age of this process.", registry=registry)
        age.set_function(lambda: clock() - begun)
        self._leader = Gauge(
            "leader_heartbeat",
            "Time since this process became the leader; only the leader has it.",
            ["component"],
            registry=registry,
        )
        self.generator = Histogram(
            "generator_reconcile",
            "Duration of the reconciliation of a workload and its PodProtector.",
            ["error"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.aggregator = Histogram(
            "aggregator_reconcile",
            "Duration of counting a PodProtector's pods and writing the result.",
            ["error"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.waiting = Gauge(
            "aggregator_next_event_pool_current_size",
            "PodProtectors with allowed deletions that aren't counted yet.",
            registry=registry,
        )
        self.waiting_seconds = Gauge(
            "aggregator_next_event_pool_current_latency", "Time since the oldest of those deletions.", registry=registry
        )
        self.requests = Histogram(
            "webhook_request",
            "Duration of answering an admission request.",
            ["cell", "status", "cause"],
            buckets=_SECONDS,
            registry=registry,
        )
        self.pod_in_protector = Histogram(
            "webhook_handle_pod_in_ppr",
            "Duration of evaluating one PodProtector for a pod.",
            ["pod_cell", "request_type", "rejected"],
            buckets=_SECONDS,
            registry=registry,
        )
        # A gauge that only grows: a counter's name would end in _total, and podseidon's doesn't.
        self.errors = Gauge(
            "webhook_http_error",
            "Requests that failed, and were neither allowed nor refused.",
            ["cell", "error"],
            registry=registry,
        )
        self.unreadable = Gauge(
            "guard_unreadable_podprotectors",
            "PodProtectors that can't be read: no Ready pod of their namespaces may be deleted.",
            registry=registry,
        )
        self.retries = Histogram(
            "retrybatch_submit_retry_count",
            "How often a write that reserves deletions was retried.",
            buckets=_COUNTS,
            registry=registry,
        )
        self.batch_size = Histogram(
            "retrybatch_execute_batch_size", "How many deletions shared a write.", buckets=_COUNTS, registry=registry
        )

    @contextmanager
    def leading(self, component: str) -> Iterator[None]:
        """Until the end of the block, this process leads."""
        begun = self._clock()
        self._leader.labels(component).set_function(lambda: self._clock() - begun)
        try:
            yield
        finally:
            self._leader.remove(component)
