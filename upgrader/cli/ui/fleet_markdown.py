"""A fleet's plans in Markdown, for a merge request: each class of equal plans with the plan of its first cluster."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from upgrader.cli.ui.fleet import (
    print_fleet,
    print_new_traits,
    print_shared,
    print_unrehearsed,
    print_without_room,
)
from upgrader.cli.ui.plan_markdown import plan_markdown
from upgrader.fleet.model import Fleet
from upgrader.fleet.plans import FleetPlan, NoRoom, PlanClass, SharedCause
from upgrader.fleet.reports.words import some
from upgrader.model.counted import counted
from upgrader.model.redaction.markdown import block, code

__all__ = ["fleet_plan_markdown"]


def fleet_plan_markdown(
    fleet: Fleet, planned: FleetPlan, without_room: tuple[NoRoom, ...], shared: tuple[SharedCause, ...]
) -> str:
    """The plans, with no text of others that could become markup."""
    stages, warnings = StringIO(), StringIO()
    print_fleet(fleet, stages)
    print_new_traits(planned.new, warnings)
    print_unrehearsed(planned.unrehearsed, fleet, warnings)
    print_without_room(without_room, warnings)
    print_shared(shared, warnings)
    parts = [f"# Fleet {fleet.goal}", block(stages.getvalue().rstrip("\n"))]
    if warnings.getvalue():
        parts.append(block(warnings.getvalue().rstrip("\n")))
    return "\n\n".join([*parts, *(part for each in planned.classes for part in _class(each))])


def _class(each: PlanClass) -> Iterator[str]:
    yield f"## {counted(len(each.clusters), 'cluster')} of {', '.join(map(code, each.stages))}"
    yield code(some(each.clusters))
    if each.digests:
        yield f"Digests of the folders: {code(some(each.digests))}"
    if each.plan is not None:
        yield plan_markdown(each.plan)
    else:
        yield f"Can't be planned:\n\n{block(each.problem)}" if each.problem else "Nothing to do."
