"""PodProtectors as the API holds them: read, and their status to be written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upgrader.contract.times import micro_timestamp, seconds_of
from upgrader.in_cluster.guard.core.admission_history import bucket
from upgrader.in_cluster.guard.core.protector import Cell, Counts, Protector, Tuning
from upgrader.in_cluster.guard.core.selectors import Selector

__all__ = ["read", "status"]

_MOST_SINGLE, _LEAST_RATE = 200, 0.1
"""What a PodProtector's own tuning reaches: deletions that are recorded one by one, some 800 bytes each; seconds."""


def read(item: Mapping[str, Any], defaults: Tuning) -> Protector:
    """A protector from the API's object, whose CRD makes sure of its spec. Raises `InvalidSelector`."""
    metadata, spec = item["metadata"], item["spec"]
    selector = Selector.of(spec.get("selector"))
    wider = spec.get("aggregationSelector")
    tuning = spec.get("admissionHistoryConfig") or {}
    threshold, rate = tuning.get("compactThreshold"), tuning.get("aggregationRateMillis")
    return Protector(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        min_available=spec.get("minAvailable", 0),
        selector=selector,
        aggregation=selector if wider is None else Selector.of(wider),
        min_ready_seconds=spec.get("minReadySeconds", 0),
        tuning=Tuning(
            tuning.get("maxConcurrentLag", defaults.max_concurrent_lag),
            defaults.compact_threshold if threshold is None else min(threshold, _MOST_SINGLE),
            defaults.aggregation_rate if rate is None else max(rate / 1000, _LEAST_RATE),
        ),
        cells=tuple(_cell(c) for c in (item.get("status") or {}).get("cells") or ()),
    )


def status(protector: Protector, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The status to be written: its cells and what they add up to; the rest as it was."""
    counts = protector.counts
    return {
        **(before or {}),
        "cells": [_content(c) for c in protector.cells],
        "summary": {
            "totalReplicas": counts.total,
            "aggregatedAvailableReplicas": counts.available,
            "estimatedAvailableReplicas": protector.estimate,
            "maxLatencyMillis": max((_latency(c) for c in protector.cells), default=0),
            "aggregatedReady": counts.ready,
            "aggregatedScheduled": counts.scheduled,
            "aggregatedRunning": counts.running,
        },
    }


def _latency(cell: Cell) -> int:
    """Milliseconds from the cell's last event to the last deletion that it hasn't seen."""
    if not cell.buckets or cell.last_event is None:
        return 0
    return max(0, int((max(b.last for b in cell.buckets) - cell.last_event) * 1000))


def _cell(content: Mapping[str, Any]) -> Cell:
    counts = content.get("aggregation") or {}
    return Cell(
        name=content["cellID"],
        counts=Counts(
            total=counts.get("totalReplicas", 0),
            available=counts.get("availableReplicas", 0),
            ready=counts.get("readyReplicas", 0),
            scheduled=counts.get("scheduledReplicas", 0),
            running=counts.get("runningReplicas", 0),
        ),
        last_event=seconds_of(counts.get("lastEventTime")),
        young=frozenset(uid for uid in counts.get("recentlyReadyUIDs") or () if isinstance(uid, str)),
        buckets=tuple(bucket(b) for b in (content.get("admissionHistory") or {}).get("buckets") or ()),
        counted_by=str(counts.get("selectorHash") or ""),
    )


def _content(cell: Cell) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "totalReplicas": cell.counts.total,
        "availableReplicas": cell.counts.available,
        "readyReplicas": cell.counts.ready,
        "scheduledReplicas": cell.counts.scheduled,
        "runningReplicas": cell.counts.running,
    }
    if cell.last_event is not None:
        counts["lastEventTime"] = micro_timestamp(cell.last_event)
    if cell.young:
        counts["recentlyReadyUIDs"] = sorted(cell.young)
    if cell.counted_by:
        counts["selectorHash"] = cell.counted_by
    return {
        "cellID": cell.name,
        "aggregation": counts,
        "admissionHistory": {"buckets": [b.content for b in cell.buckets]},
    }
