"""The gates that `upgrader.yaml` adds to steps: workloads, and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from upgrader.config.pipeline_gates_yaml import GateSection, MetricGateSection
from upgrader.config.yaml_document import Document, KeyPath
from upgrader.errors import ConfigError
from upgrader.model.gate_settings import GatePolicy, MetricGateSettings, StepGate, WorkloadGate

__all__ = ["StepGates"]

_METRIC_INTERVAL_SECONDS = 5.0
"""Servers are rarely scraped more often than that."""

_GROUP_SECONDS = 1800.0
"""A group is rolled pod by pod."""


class StepGates:
    """Reads gates, each with the defaults of the file, and records their problems."""

    def __init__(
        self, document: Document, defaults: GatePolicy, metrics: Sequence[MetricGateSection], *, prometheus: bool
    ) -> None:
        """`metrics` are the gates of every step; `prometheus`: whether the file names one."""
        self._document, self._defaults, self._prometheus = document, defaults, prometheus
        self.problems: list[ConfigError] = []
        self.of_every_step = self._metrics(("gates", "metrics"), metrics, set())

    def of_step(self, where: KeyPath, items: Sequence[GateSection | MetricGateSection]) -> tuple[StepGate, ...]:
        """The gates of the step that stands there in the file."""
        workloads = (self._workload(item) for item in items if isinstance(item, GateSection))
        metrics = [item for item in items if isinstance(item, MetricGateSection)]
        return (*workloads, *self._metrics((*where, "gates"), metrics, {gate.name for gate in self.of_every_step}))

    def _metrics(
        self, where: KeyPath, items: Iterable[MetricGateSection], taken: set[str]
    ) -> tuple[MetricGateSettings, ...]:
        gates = []
        for item in items:
            if item.metric in taken:
                self._refuse(where, f"a step has two metric gates named '{item.metric}'")
            elif not self._prometheus:
                self._refuse(
                    where,
                    f"metric gate '{item.metric}' needs a Prometheus, and 'observability.prometheus' is not set",
                    "Set its URL: `observability: {prometheus: {url: https://…}}`.",
                )
            taken.add(item.metric)
            gates.append(self._metric(item))
        return tuple(gates)

    def _metric(self, item: MetricGateSection) -> MetricGateSettings:
        default, window = self._defaults, item.window
        policy = GatePolicy(
            1,  # the window has many values already
            item.interval or max(default.interval_seconds, _METRIC_INTERVAL_SECONDS),
            item.deadline or default.deadline_seconds + window,
        )
        return MetricGateSettings(item.metric, item.query, policy, item.min, item.max, window)

    def _workload(self, item: GateSection) -> WorkloadGate:
        kind, named = item.names
        namespace, name = named.split("/")
        default = self._defaults.deadline_seconds
        policy = GatePolicy(
            item.consecutive or self._defaults.consecutive,
            item.interval or self._defaults.interval_seconds,
            item.deadline or (max(default, _GROUP_SECONDS) if kind == "rolloutGroup" else default),
        )
        return WorkloadGate(kind, namespace, name, policy)

    def _refuse(self, where: KeyPath, text: str, remedy: str = "") -> None:
        self.problems.append(self._document.error(where, text, remedy=remedy))
