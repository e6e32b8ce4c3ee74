"""`upgrader check --trial`: the checks, and what needs pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import cluster_lock, locked_folder
from upgrader.app.upgrade import CheckedPlan, PlannedUpgrade
from upgrader.app.wiring import open_session
from upgrader.errors import ApiError
from upgrader.model.finding import Finding
from upgrader.model.skips import NO_SKIPS, Skips
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.audit_log_files import given_audit_log
from upgrader.steps.trial.findings import untried
from upgrader.steps.trial.kind import TrialKind
from upgrader.steps.trial.trial import remove_left

__all__ = ["check_and_try"]


def check_and_try(
    folder: Path,
    target: KubernetesVersion | None,
    front_end: FrontEnd,
    skips: Skips = NO_SKIPS,
    audit_logs: Sequence[Path] = (),
) -> CheckedPlan:
    """As `check_upgrade`, and what the components of the first hop make of their flags and files.

    Locks the cluster: a run's own pods would be taken for left behind. Raises Locked where another process works on it.
    """
    with front_end.busy():  # before the lock, as others wait for that
        log = given_audit_log(audit_logs, front_end.doing)
    with (
        front_end.busy(),
        open_session(folder, target) as opened,
        locked_folder(folder),
        cluster_lock(opened, front_end, take_over=False),
    ):
        planned = PlannedUpgrade.of(opened.telling(front_end.doing).with_audit_log(log), None)
        checked = planned.checked(skips)
        step = TrialKind(planned.session.builder.context).step(planned.plan, skips)
        found: tuple[Finding, ...] = ()
        try:
            if step is None:
                remove_left(opened.tools.kube, opened.tools.clock, front_end.notify)
            else:
                found = step.findings(front_end.notify)
        except ApiError as error:
            found = (untried(error),)
        return replace(checked, findings=(*checked.findings, *found))
