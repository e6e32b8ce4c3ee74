"""What an operator does for clusters that have failed: the terminal and the page say the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from upgrader.errors import PlanNotApproved
from upgrader.fleet.causes import code_of
from upgrader.fleet.use_cases import FleetStatus, plan_command

__all__ = ["ToDo", "to_do"]


@dataclass(frozen=True)
class ToDo:
    """One thing to do, and its command, which can be copied."""

    what: str
    command: str


def to_do(names: Sequence[str], status: FleetStatus, home: Path | None = None) -> tuple[ToDo, ...]:
    """What has failed clusters run again; () for others, and where it would be refused. `home` is the folder in which
    the commands are typed; None: the current one.
    """
    each = status.state.clusters[names[0]]
    if status.changed or not each.failed or names[0] in status.decision.waits:
        return ()
    return tuple(_steps(names, status, home))


def _steps(names: Sequence[str], status: FleetStatus, home: Path | None) -> Iterator[ToDo]:
    clusters = [status.state.clusters[name] for name in names]
    name = names[0] if len(names) == 1 else "CLUSTER"
    retry, skip = f"upgrader fleet retry {name}", f"upgrader fleet skip {name} --reason TEXT"
    if code_of(clusters[0].cause) != PlanNotApproved.__name__:
        again = "then resume its run" if all(each.unended for each in clusters) else "then"
        yield ToDo(f"fix this, {again}", retry)
        yield ToDo("or leave it out", skip)
    elif any(each.changes for each in clusters):
        plan = plan_command(status.fleet, name, home) if len(names) == 1 else "upgrader fleet plan"
        yield ToDo("review its new plan", plan)
        yield ToDo("approve it", f"upgrader fleet approve --changes {name} --reason TEXT")
        yield ToDo("then", retry)
    else:
        yield ToDo("its new plan was approved", retry)
