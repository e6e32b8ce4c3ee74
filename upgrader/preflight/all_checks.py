"""Runs every check. The families are listed here, in the order in which they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from upgrader.errors import ApiError, HelmError, HostError, UpgraderError
from upgrader.model.finding import Finding
from upgrader.preflight.certificates import check_certificates
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.control_plane import check_control_plane
from upgrader.preflight.helm_client import check_helm
from upgrader.preflight.memory import check_memory
from upgrader.preflight.nodes import check_nodes
from upgrader.preflight.pod_checkpointer import check_checkpointer
from upgrader.preflight.releases import check_releases
from upgrader.preflight.ssh_access import check_hosts
from upgrader.preflight.version_skew import check_version

__all__ = ["CHECKS", "Check", "PreflightContext", "inhibits", "run_checks"]

Check = Callable[[PreflightContext], Iterator[Finding]]

CHECKS: tuple[tuple[str, Check], ...] = (
    ("version", check_version),
    ("hosts", check_hosts),
    ("nodes", check_nodes),
    ("control-plane", check_control_plane),
    ("checkpointer", check_checkpointer),
    ("releases", check_releases),
    ("helm", check_helm),
    ("memory", check_memory),
    ("certificates", check_certificates),
)


def run_checks(context: PreflightContext, checks: Iterable[tuple[str, Check]] = CHECKS) -> tuple[Finding, ...]:
    """Every finding of every check. A check that fails itself is a finding `FAMILY.unknown`, which inhibits."""
    findings: list[Finding] = []
    for family, check in checks:
        try:
            # What a check found before it failed counts too.
            for finding in check(context):
                findings.append(finding)  # noqa: PERF402
        except (ApiError, HelmError, HostError) as error:
            findings.append(_unknown(family, error))
    return tuple(findings)


def inhibits(findings: Iterable[Finding]) -> bool:
    """Whether any finding forbids a run."""
    return any(finding.inhibits for finding in findings)


def _unknown(family: str, error: UpgraderError) -> Finding:
    title = f"the {family.replace('-', ' ')} could not be checked"
    return Finding(f"{family}.unknown", "unknown", title, error.message, error.remedy)
