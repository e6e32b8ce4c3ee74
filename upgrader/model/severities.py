"""Findings with the severities that the operator set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from upgrader.model.finding import Finding, Severity

__all__ = ["with_policy"]


def with_policy(findings: Iterable[Finding], severities: Mapping[str, Severity]) -> Iterator[Finding]:
    """The findings; those with a named id get that severity, and keep the one of their check."""
    for finding in findings:
        wanted = severities.get(finding.id, finding.severity)
        changed = wanted != finding.severity
        yield replace(finding, severity=wanted, changed_from=finding.severity) if changed else finding
