"""The steps at which the run will wait for an approval are known before it starts."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.preflight.context import PreflightContext

__all__ = ["check_approvals"]


def check_approvals(context: PreflightContext) -> Iterator[Finding]:
    """Each step that changes something and has an approval before it."""
    for step in context.plan.steps if context.plan else ():
        seconds = context.approvals.get(step.name)
        if seconds is not None and step.action != "unchanged":
            yield Finding(
                "approvals.needed",
                "info",
                f"the run waits for an approval before the step {step.name}",
                f"It waits {seconds / 60:.0f} min, then ends: the step is not started, and earlier steps stay in "
                "place.",
                f"Have someone ready to run `upgrader approve {step.name} --reason WHY`.",
            )
