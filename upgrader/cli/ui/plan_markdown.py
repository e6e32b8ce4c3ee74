"""A plan in Markdown, for a merge request: a table of the steps, their diffs folded, then the checks."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from upgrader.app.offline_plan import OfflinePlan
from upgrader.cli.ui.findings import draw_findings
from upgrader.cli.ui.offline_plan import summary
from upgrader.cli.ui.plan import distinct_images
from upgrader.cli.ui.terminal import console, duration, show
from upgrader.model.finding import Finding
from upgrader.model.redaction.markdown import block, code, details, one_line, table
from upgrader.steps.plan_document import Emulation, HopDocument, PlanDocument
from upgrader.steps.step_document import ObjectChange, StepDocument

__all__ = ["plan_markdown"]


def plan_markdown(plan: PlanDocument | OfflinePlan) -> str:
    """The plan, with no text of others that could become markup."""
    return _offline(plan) if isinstance(plan, OfflinePlan) else _live(plan)


def _live(plan: PlanDocument) -> str:
    several = f" (hop {{}} of {len(plan.hops)})" if plan.ahead else ""
    return "\n\n".join(_hop(hop, several.format(number)) for number, hop in enumerate(plan.hops, 1))


def _hop(plan: HopDocument, place: str) -> str:
    parts = [
        f"### Plan: Kubernetes {plan.start} → {plan.target}{' (a downgrade)' if plan.downgrade else ''}{place}",
        table(
            ("step", "action", "change", "images", "undo", "time before"),
            [_row(step, downgrade=plan.downgrade) for step in plan.steps],
        ),
        *([_no_return(plan.point_of_no_return)] if plan.point_of_no_return is not None else []),
        *([_emulation(plan.emulation)] if plan.emulation is not None else []),
        *(part for step in plan.steps for part in _folded(step.name, step.changes)),
        "#### Checks: they block the run"
        if any(item.blocking for item in plan.findings)
        else "#### Checks: none blocks the run",
        _checks(plan.findings),
    ]
    return "\n\n".join(parts)


def _row(step: StepDocument, *, downgrade: bool) -> tuple[str, ...]:
    images = "<br>".join(map(code, distinct_images(step)))
    took = duration(step.usual_seconds) if step.usual_seconds is not None else ""
    change = code(step.summary) + (f"<br>would change {code(str(step.hosts))}" if step.hosts is not None else "")
    change += "".join(f"<br>{code(str(node))}" for node in step.nodes or ())
    action = "change" if downgrade and step.action == "upgrade" else step.action
    return code(step.name), action, change, images, code(str(step.undo)), took


def _no_return(step: str) -> str:
    return (
        f"**Point of no return:** {code(step)}; once it has started, neither it nor an earlier step can be rolled back."
    )


def _emulation(emulation: Emulation) -> str:
    return "\n".join(
        [f"**Emulation:** {emulation}. Not covered:", "", *(f"- {item}" for item in emulation.not_covered)]
    )


def _offline(plan: OfflinePlan) -> str:
    compared = plan.before is not None
    rows = [[code(step.name), code(summary(step, compared=compared))] for step in plan.steps]
    rows += [[code(name), "no longer in the pipeline; a run leaves it as it is"] for name in plan.removed]
    before = f"{plan.before} → " if plan.before else ""
    parts = [
        f"### Plan: Kubernetes {before}{plan.target} (offline)",
        table(("step", "change"), rows),
        *(part for step in plan.steps for part in _folded(step.name, step.changes)),
        "#### Inventory",
        block("\n".join(one_line(f"{group}: {', '.join(names)}") for group, names in plan.hosts.items() if names)),
        "#### Not known offline",
        "\n".join(f"- {line}" for line in plan.unknown),
    ]
    return "\n\n".join(parts)


def _folded(name: str, changes: Sequence[ObjectChange]) -> Iterator[str]:
    """A step's diff; nothing if nothing changes."""
    if changes:
        counted = f"{len(changes)} object{'s' if len(changes) > 1 else ''}"
        shown = "\n\n".join(f"# {one_line(change.object)} ({change.change})\n{change.diff}" for change in changes)
        yield details(name, counted, block(shown, "diff"))


def _checks(findings: Sequence[Finding]) -> str:
    """Masked and printable as on a terminal: a finding quotes messages of pods and webhooks."""
    out = io.StringIO()
    show(console(out), draw_findings(findings))
    return block(out.getvalue().rstrip("\n"))
