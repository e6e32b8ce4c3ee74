"""A plan as it is shown, to people and to programs; `docs/reference/plan.schema.json` describes its JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from upgrader.model.finding import Finding
from upgrader.model.plan import Action, ObjectChange, Plan, PlannedPlaybook, PlannedStep
from upgrader.model.version import KubernetesVersion

__all__ = ["FORMAT_VERSION", "PlanDocument", "StepDocument"]

FORMAT_VERSION: Literal["1.0"] = "1.0"
"""Of the JSON: the second number goes up when fields are added, the first when a reader would misunderstand them."""


@dataclass(frozen=True)
class StepDocument:
    """One step of a run."""

    name: str
    kind: Literal["release", "playbook"]
    action: Action | Literal["playbook"]
    summary: str
    changes: tuple[ObjectChange, ...]

    @classmethod
    def of(cls, step: PlannedStep) -> StepDocument:
        """How a planned step is shown. A playbook is named without its folder."""
        if isinstance(step, PlannedPlaybook):
            return cls(step.name, "playbook", step.action, step.playbook.name, ())
        return cls(step.name, "release", step.action, step.summary, step.changes)


@dataclass(frozen=True)
class PlanDocument:
    """What a run would change, and what the checks found. No secret has its value in it."""

    current: KubernetesVersion
    target: KubernetesVersion
    digest: str
    """Equal digests mean the same run from the same start, but for secrets' values."""
    blocked: bool
    """Whether a check forbids the run."""
    steps: tuple[StepDocument, ...]
    findings: tuple[Finding, ...]
    format_version: Literal["1.0"] = FORMAT_VERSION
    offline: Literal[False] = False

    @classmethod
    def of(cls, plan: Plan, findings: Sequence[Finding]) -> PlanDocument:
        """How a plan is shown."""
        return cls(
            plan.current,
            plan.target,
            plan.digest,
            any(finding.inhibits for finding in findings),
            tuple(map(StepDocument.of, plan.steps)),
            tuple(findings),
        )
