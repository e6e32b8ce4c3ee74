"""What guard counts, as Prometheus reads it; names that others' dashboards know are theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Those of one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "guard_admission_requests",
            "Admission requests, by path and answer: allowed, denied, would_deny, bad_request, failed.",
            ["path", "answer"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "guard_admission_request_duration_seconds",
            "Time from the last byte of an admission request to its answer.",
            ["path"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
            registry=self.registry,
        )
        self.certificate_ends = Gauge(
            "guard_certificate_expiry_timestamp_seconds",
            "When the webhooks' certificate expires.",
            registry=self.registry,
        )
        group = ["rollout_group"]
        self.reconciles = Counter(
            "rollout_operator_group_reconciles", "Reconciliations of a group.", group, registry=self.registry
        )
        self.failed_reconciles = Counter(
            "rollout_operator_group_reconciles_failed",
            "Failed reconciliations of a group.",
            group,
            registry=self.registry,
        )
        self.reconcile_seconds = Histogram(
            "rollout_operator_group_reconcile_duration_seconds",
            "Duration of a group's reconciliation.",
            group,
            registry=self.registry,
        )
        self.last_reconcile = Gauge(
            "rollout_operator_last_successful_group_reconcile_timestamp_seconds",
            "When a group was last reconciled successfully.",
            group,
            registry=self.registry,
        )
        self.evictions = Counter(
            "rollout_operator_zpdb_eviction_requests",
            "Requests to a pod's zone-aware budget, by reason and HTTP status of the answer.",
            ["reason", "status"],
            registry=self.registry,
        )
        self.evictions_in_flight = Gauge(
            "rollout_operator_zpdb_inflight_eviction_requests",
            "How many of these requests wait for an answer.",
            registry=self.registry,
        )
        self.invalid_budgets = Gauge(
            "guard_invalid_zone_budgets",
            "Zone-aware budgets that are stored and invalid: evictions of their pods are refused.",
            registry=self.registry,
        )
        self._policies = _Policies()
        self.registry.register(self._policies)

    def webhooks(self, policies: Mapping[tuple[str, str], str]) -> None:
        """Which failurePolicy each webhook has now: (kind, name) → policy."""
        self._policies.found = policies

    def forget_group(self, name: str) -> None:
        """Remove the series of a group that no namespace has any more: otherwise, names of groups could fill the
        memory."""
        for metric in (self.reconciles, self.failed_reconciles, self.reconcile_seconds, self.last_reconcile):
            metric.remove(name)

    def text(self) -> str:
        """All of them."""
        return generate_latest(self.registry).decode()


class _Policies(Collector):
    def __init__(self) -> None:
        self.found: Mapping[tuple[str, str], str] = {}

    def collect(self) -> Iterator[Metric]:
        """One series a webhook."""
        family: Any = GaugeMetricFamily(
            "kube_validating_webhook_failure_policy",
            "FailurePolicy of the validating and mutating webhooks into which guard writes its CA.",
            labels=["type", "webhook", "policy"],
        )
        for (kind, name), policy in sorted(self.found.items()):
            family.add_metric([kind, name, policy], 1)
        yield family
