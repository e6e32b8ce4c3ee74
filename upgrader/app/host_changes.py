"""What a plan's playbooks would change, by Ansible's check mode."""

from __future__ import annotations

from collections.abc import Mapping

from upgrader.app.wiring import Session
from upgrader.errors import UpgraderError
from upgrader.steps.plan import Plan, planned_of
from upgrader.steps.playbook.plan import PlannedPlaybook
from upgrader.steps.step_document import HostChange, HostChanges

__all__ = ["host_changes"]

_SECONDS = 120.0
"""For one playbook: a plan is waited for by somebody."""


def host_changes(session: Session, plan: Plan) -> Mapping[str, HostChanges]:
    """By the names of the playbooks' steps. A playbook that can't be asked says why: there is a plan all the same."""
    return {step.name: _of(session, step) for step in planned_of(plan, PlannedPlaybook)}


def _of(session: Session, step: PlannedPlaybook) -> HostChanges:
    try:
        found = session.tools.playbooks.run(
            step.playbook, inventory=session.cluster.inventory, variables={}, timeout_seconds=_SECONDS, check=True
        )
    except UpgraderError as error:
        return HostChanges(unknown=error.message)
    return HostChanges(tuple(HostChange(host, tasks) for host, tasks in found.tasks.items()))
