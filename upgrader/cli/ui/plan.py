"""Shows a plan before a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from upgrader.cli.ui.findings import draw_findings
from upgrader.cli.ui.terminal import console, duration, print_line, show
from upgrader.steps.plan_document import HopDocument, PlanDocument
from upgrader.steps.step_document import ObjectChange, StepDocument

__all__ = ["diff_lines", "distinct_images", "print_plan"]

_ACTIONS = {
    "install": ("+ install", "green"),
    "upgrade": ("~ upgrade", "yellow"),
    "unchanged": ("= unchanged", "dim"),
    "playbook": ("> playbook", "cyan"),
    "add": ("+ add", "green"),
    "remove": ("- remove", "red"),
    "prepare": ("> prepare", "cyan"),
    "free": ("~ free", "yellow"),
    "bake": ("> bake", "cyan"),
}
_DOWNGRADED = ("~ change", "yellow")
_CHANGES = {"added": ("+", "green"), "changed": ("~", "yellow"), "removed": ("-", "red")}


def print_plan(plan: PlanDocument, *, diff: bool, stream: TextIO | None = None) -> None:
    """Print every step and the objects that it changes (`diff`: how), then the findings that block the run; for each
    hop.
    """
    out = console(stream)
    for number, hop in enumerate(plan.hops, 1):
        _print_hop(hop, out, _place(number, plan), diff=diff)


def _place(number: int, plan: PlanDocument) -> str:
    """Which of several hops it is; "" for the only one."""
    if not plan.ahead:
        return ""
    again = ", as far as known now" if number > 1 else ""
    return f"  hop {number} of {len(plan.hops)}{again}"


def _print_hop(plan: HopDocument, out: Console, place: str, *, diff: bool) -> None:
    title = Text.assemble((" Kubernetes ", "bold"), plan.start, " → ", (str(plan.target), "bold cyan"))
    title.append(f"{'  a downgrade' if plan.downgrade else ''}{place}", style="dim")
    out.print("\n", title, "\n", sep="")
    show(out, _steps(plan))
    if plan.point_of_no_return is not None:
        means = f"{plan.point_of_no_return}; once it has started, neither it nor an earlier step can be rolled back"
        out.print()
        print_line(out, Text.assemble((" Point of no return: ", "bold"), means), 3)
    if plan.emulation is not None:
        out.print()
        print_line(out, Text.assemble((" Emulation: ", "bold"), str(plan.emulation)), 3)
        for item in plan.emulation.not_covered:
            print_line(out, Text(f"   not covered: {item}", style="dim"), 5)
    if diff:
        for line in _diffs(plan):
            out.print(line, soft_wrap=True)
    out.print("\n", Text(" Checks", style="bold"), sep="")
    show(out, draw_findings(plan.findings))
    out.print()


def _steps(plan: HopDocument) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for step in plan.steps:
        text, style = _DOWNGRADED if plan.downgrade and step.action == "upgrade" else _ACTIONS[step.action]
        described = Text(step.summary)
        for line in _more(step):
            described.append(f"\n{line}", style="dim")
        table.add_row(Text(f" {text}", style=style), Text(step.name, style="bold"), described)
    return table


def _more(step: StepDocument) -> Iterator[str]:
    """The details of a step that the run carries out."""
    yield from distinct_images(step)
    yield from map(str, step.nodes or ())
    if step.hosts is not None:
        yield f"would change {step.hosts}"
    if step.action != "unchanged":
        took = f"; took {duration(step.usual_seconds)} in earlier runs" if step.usual_seconds is not None else ""
        yield f"undo: {step.undo}{took}"


def distinct_images(step: StepDocument) -> tuple[str, ...]:
    """The images that change, each once, whatever the number of containers."""
    return tuple(dict.fromkeys(map(str, step.images)))


def _diffs(plan: HopDocument) -> Iterator[Text]:
    for step in plan.steps:
        yield from diff_lines(step.changes)


def diff_lines(changes: Sequence[ObjectChange]) -> Iterator[Text]:
    """The diff of each object, in colour."""
    for change in changes:
        sign, style = _CHANGES[change.change]
        yield Text(f"\n {sign} {change.object}", style=f"bold {style}")
        for line in change.diff.splitlines():
            yield Text(f"   {line}", style=_diff_style(line))


def _diff_style(line: str) -> str:
    if line.startswith("@@"):
        return "cyan"
    return {"+": "green", "-": "red"}.get(line[:1], "dim")
