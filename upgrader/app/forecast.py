"""What the later hops of an upgrade over several minors will do, as far as it can be known before the first one.

Nothing that a forecast says is executed: each hop is planned and checked again, when it begins, from the cluster as it
is then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

from upgrader.app.wiring import Session
from upgrader.errors import HelmError
from upgrader.model.finding import Finding
from upgrader.model.observed import Observed
from upgrader.model.version import KubernetesVersion
from upgrader.steps.images.bundle.reading import Bundle
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.plan import Plan, observed_after, planned_of
from upgrader.steps.playbook.plan import PlannedPlaybook

__all__ = ["Forecast", "forecast"]

_ABOUT_THE_TARGET = (
    "version",
    "apis",
    "audit-log",
    "removed-apis",
    "rehearsal",
    "flags",
    "feature-gates",
    "kubeadm-config",
)
"""The families of checks whose question is about the version: their answer doesn't wait for the hop."""

_ABOUT_NEW_KUBELETS = ("os-support", "node-sources")
"""The same of a hop that upgrades nodes: their systems, and where their programs are, stay what they are. A hop that
leaves nodes alone has no answer of its own, and containerd isn't seen as the hop before it will leave it.
"""


@dataclass(frozen=True)
class Forecast:
    """The plan of one later hop, and the findings that already block it."""

    plan: Plan
    findings: tuple[Finding, ...]


def forecast(
    session: Session, observed: Observed, first: Plan, later: Sequence[KubernetesVersion], bundle: Bundle | None
) -> Iterator[Forecast]:
    """The hops after `first`, each from what the one before it leaves behind. Raises HelmError or ApiError."""
    plan = first
    for version, then in zip_longest(later, later[1:]):
        observed = observed_after(plan, observed)
        # A rehearsal compares with the version that runs: of a later hop, there can't be one yet.
        there = replace(session.at(version), known_rehearsal=lambda: None)
        try:
            plan = there.upgrade_plan(observed, then, bundle)
        except HelmError as error:
            raise type(error)(
                f"the hop to {version}, after {plan.target}, can't be planned: {error.message}",
                remedy=f"{error.remedy} Or upgrade only to {plan.target} for now: --to {plan.target}".strip(),
            ) from error
        upgrades = any(step.nodes for step in planned_of(plan, PlannedNodes))
        families = (*_ABOUT_THE_TARGET, *(_ABOUT_NEW_KUBELETS if upgrades else ()))
        findings = there.preflight(observed, plan, families)
        yield Forecast(plan, tuple(_ahead(finding, plan) for finding in findings))


def _ahead(finding: Finding, plan: Plan) -> Finding:
    """A kubelet can't be upgraded before the API server is: only between two hops. A playbook of an earlier hop may do
    that, or upgrade what a system lacks, and no plan knows it.
    """
    if finding.id == "rehearsal.missing":
        return replace(
            finding,
            diagnosis=f"It can only be rehearsed once the cluster is at {plan.current}.",
            remedy=f"Upgrade one minor at a time: first to {plan.current} (--to {plan.current}). "
            f"Then: upgrader rehearse --to {plan.target}",
        )
    unsure = finding.severity == "error" and bool(planned_of(plan, PlannedPlaybook))
    if finding.id.startswith("os-support."):
        return replace(finding, severity="warning") if unsure else finding
    if finding.id != "version.kubelet-older":
        return finding
    remedy = (
        f"Upgrade to {plan.current} first (--to {plan.current}), then the kubelet: it must not be newer than the API "
        "server."
    )
    return replace(finding, remedy=remedy, severity="warning" if unsure else finding.severity)
