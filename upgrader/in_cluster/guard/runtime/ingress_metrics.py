"""What the role of IngressDaemonSets counts."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import Counter, Gauge

from upgrader.in_cluster.guard.runtime.metrics import Metrics

__all__ = ["IngressMetrics"]

_WHICH = ["namespace", "name"]


class IngressMetrics:
    """Those of one process, in the registry of the rest."""

    def __init__(self, metrics: Metrics) -> None:
        self._counted: dict[tuple[str, str], frozenset[str]] = {}
        self._ended: dict[tuple[str, str], set[str]] = {}
        self.reconciles = Counter(
            "guard_ingress_reconciles",
            "Reconciliations of an IngressDaemonSet, by result: done, waits, invalid, failed.",
            [*_WHICH, "result"],
            registry=metrics.registry,
        )
        self.nodes = Gauge(
            "guard_ingress_nodes",
            "Nodes of an IngressDaemonSet, as the leader counts them: desired, updated, ready, updating.",
            [*_WHICH, "state"],
            registry=metrics.registry,
        )

    def count(self, namespace: str, name: str, nodes: Mapping[str, int]) -> None:
        """By state."""
        self._counted[namespace, name] = frozenset(nodes)
        for state, number in nodes.items():
            self.nodes.labels(namespace, name, state).set(number)

    def looked_at(self, namespace: str, name: str, result: str) -> None:
        """Once more."""
        self._ended.setdefault((namespace, name), set()).add(result)
        self.reconciles.labels(namespace, name, result).inc()

    def forget(self, namespace: str, name: str) -> None:
        """Remove the series of a deleted object: otherwise, names of objects could fill the memory."""
        for result in self._ended.pop((namespace, name), set()):
            self.reconciles.remove(namespace, name, result)
        for state in self._counted.pop((namespace, name), frozenset()):
            self.nodes.remove(namespace, name, state)
