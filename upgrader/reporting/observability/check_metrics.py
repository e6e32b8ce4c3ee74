"""The metrics of a check: how much it found, and when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import get_args

from upgrader.model.finding import Finding, Severity
from upgrader.reporting.observability.exposition import Family, Sample

__all__ = ["check_metrics"]


def check_metrics(findings: Sequence[Finding], cluster: str, now: datetime, *, blocked: bool) -> tuple[Family, ...]:
    """The metrics of these findings, of which those that were skipped don't count. `blocked`: no run may start."""
    labels = {"cluster": cluster}
    counted = [finding.severity for finding in findings if not finding.skipped]
    return (
        Family(
            "upgrader_check_findings",
            "gauge",
            "Findings of the newest check, by severity.",
            tuple(Sample({**labels, "severity": each}, float(counted.count(each))) for each in get_args(Severity)),
        ),
        Family(
            "upgrader_check_blocked",
            "gauge",
            "Whether findings of the newest check block a run: 1 or 0.",
            (Sample(labels, float(blocked)),),
        ),
        Family(
            "upgrader_check_timestamp_seconds",
            "gauge",
            "When the newest completed check ended.",
            (Sample(labels, now.timestamp()),),
        ),
    )
