"""PodProtectors as the API holds them: read, and their status to be written.

guard's CustomResourceDefinition refuses a field of another type; that of others may have stored one. Nothing of such an
object is believed, as what it protects isn't known.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from upgrader.contract.times import micro_timestamp, seconds_of
from upgrader.in_cluster.guard.core.admission_history import bucket
from upgrader.in_cluster.guard.core.protector import Cell, Counts, Protector, Tuning
from upgrader.in_cluster.guard.core.selectors import Selector

__all__ = ["InvalidProtector", "corrected", "digest_of_status", "read", "selectors_of", "status"]

_MOST_SINGLE, _LEAST_RATE = 200, 0.1
"""What a PodProtector's own tuning reaches: deletions that are recorded one by one, some 800 bytes each; seconds."""
_LONGEST_REASON = 256


class InvalidProtector(ValueError):
    """Why it can't be read."""


def read(item: Mapping[str, Any], defaults: Tuning) -> Protector:
    """A protector from the API's object; raises `InvalidProtector`."""
    try:
        return _read(item, defaults)
    except KeyError as error:
        raise InvalidProtector(f"{error.args[0]} is missing") from error
    except (AttributeError, TypeError, ValueError) as error:
        raise InvalidProtector(str(error)[:_LONGEST_REASON]) from error


def corrected(item: Mapping[str, Any], defaults: Tuning) -> tuple[Protector, Mapping[str, Any]]:
    """A protector whose status alone can't be read, with the cells that can, and the rest of its status; raises
    `InvalidProtector` if its spec can't be read either.

    What was allowed in the other cells is forgotten, as what they counted is: none of their pods counts until an
    aggregator has listed them. So it may be stored only when nothing that was recorded there can happen any more.
    """
    before = item.get("status")
    before = before if isinstance(before, dict) else {}
    protector, cells, found = read({**item, "status": {}}, defaults), before.get("cells"), dict[str, Cell]()
    for each in cells if isinstance(cells, list) else ():
        try:
            cell = _cell(each)
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
        found[cell.name] = cell
    return replace(protector, cells=tuple(found[name] for name in sorted(found))), before


def selectors_of(item: Mapping[str, Any]) -> tuple[Selector, ...]:
    """Which pods a protector that can't be read protects or counts; none if that can't be read either."""
    spec = item.get("spec")
    if not isinstance(spec, dict):
        return ()
    wider = spec.get("aggregationSelector")
    try:
        return tuple(Selector.of(each) for each in (spec.get("selector"), *([] if wider is None else [wider])))
    except ValueError:
        return ()


def digest_of_status(item: Mapping[str, Any]) -> str:
    """By which two states of a status are told apart, whatever is in it."""
    return hashlib.sha256(json.dumps(item.get("status"), sort_keys=True).encode()).hexdigest()


def _read(item: Mapping[str, Any], defaults: Tuning) -> Protector:
    metadata, spec = item["metadata"], item["spec"]
    selector = Selector.of(spec.get("selector"))
    wider = spec.get("aggregationSelector")
    tuning = {key: value for key, value in (spec.get("admissionHistoryConfig") or {}).items() if value is not None}
    return Protector(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        min_available=_whole(spec, "minAvailable"),
        selector=selector,
        aggregation=selector if wider is None else Selector.of(wider),
        min_ready_seconds=_whole(spec, "minReadySeconds"),
        tuning=Tuning(
            _whole(tuning, "maxConcurrentLag", defaults.max_concurrent_lag),
            min(_whole(tuning, "compactThreshold"), _MOST_SINGLE)
            if "compactThreshold" in tuning
            else defaults.compact_threshold,
            max(_whole(tuning, "aggregationRateMillis") / 1000, _LEAST_RATE)
            if "aggregationRateMillis" in tuning
            else defaults.aggregation_rate,
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


def _whole(content: Mapping[str, Any], key: str, default: int = 0) -> int:
    value = content.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidProtector(f"{key} isn't a whole number")
    return value


def _cell(content: Mapping[str, Any]) -> Cell:
    counts = content.get("aggregation") or {}
    if not isinstance(content["cellID"], str):
        raise InvalidProtector("a cellID isn't a string")
    return Cell(
        name=content["cellID"],
        counts=Counts(
            total=_whole(counts, "totalReplicas"),
            available=_whole(counts, "availableReplicas"),
            ready=_whole(counts, "readyReplicas"),
            scheduled=_whole(counts, "scheduledReplicas"),
            running=_whole(counts, "runningReplicas"),
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
