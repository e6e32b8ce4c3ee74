"""Shows the plan of a folder, and what is unknown without the cluster."""

from __future__ import annotations

from collections import Counter
from typing import TextIO

from rich.table import Table
from rich.text import Text

from upgrader.app.offline_plan import OfflinePlan, OfflineStep
from upgrader.cli.ui.plan import diff_lines
from upgrader.cli.ui.terminal import console, filled, show

__all__ = ["print_offline_plan", "summary"]


def print_offline_plan(plan: OfflinePlan, *, diff: bool, stream: TextIO | None = None) -> None:
    """Print every step with its objects (`diff`: in full), then the inventory's groups and what is not known."""
    out = console(stream)
    before = f"{plan.before} → " if plan.before else ""
    title = Text.assemble((" Kubernetes ", "bold"), before, (str(plan.target), "bold cyan"), "  (offline)")
    out.print("\n", title, "\n", sep="")
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for step in plan.steps:
        table.add_row(Text(f" {step.name}", style="bold"), Text(summary(step, compared=plan.before is not None)))
    for name in plan.removed:
        table.add_row(Text(f" {name}", style="bold"), Text("no longer in the pipeline; a run leaves it as it is"))
    show(out, table)
    if diff:
        for step in plan.steps:
            for part in diff_lines(step.changes):
                out.print(part, soft_wrap=True)
    groups = (_counted(len(names), group) for group, names in plan.hosts.items() if names)
    out.print("\n", Text(" Inventory", style="bold"), f"  {', '.join(groups)}", sep="")
    out.print("\n", Text(" Not known offline", style="bold"), sep="")
    for line in plan.unknown:
        out.print(filled(Text(f" ? {line}"), out, 3), soft_wrap=True)
    out.print()


def _counted(number: int, group: str) -> str:
    """`2 load balancers`: groups have names in the plural."""
    name = group.replace("_", " ")
    return f"{number} {name.removesuffix('s') if number == 1 else name}"


def summary(step: OfflineStep, *, compared: bool) -> str:
    """One line that describes a step; with `compared`, how many objects differ from the other folder's."""
    if step.kind == "playbook":
        return f"playbook {step.source}"
    if not compared:
        return f"{len(step.changes)} objects of {step.source}"
    counts = Counter(change.change for change in step.changes)
    numbers = ", ".join(f"{count} {change}" for change, count in counts.items())
    return f"objects: {numbers}" if numbers else "unchanged"
