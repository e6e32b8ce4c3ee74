"""`upgrader check`: the findings that would block an upgrade."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upgrader.cli.command_line import REASON, SKIP, TARGET, TIMEOUT, WAIT, front_end, mention_needless, wait_seconds
from upgrader.cli.notices import say
from upgrader.cli.output import OUTPUT, Output, print_plain
from upgrader.errors import UsageError
from upgrader.model.skips import Skips
from upgrader.model.version import KubernetesVersion

if TYPE_CHECKING:
    from upgrader.app.offline_check import CheckedFolder
    from upgrader.app.upgrade import CheckedPlan
    from upgrader.model.finding import Finding
    from upgrader.steps.plan import Plan

__all__ = ["check"]


@click.command()
@TARGET
@OUTPUT
@click.option(
    "--offline",
    is_flag=True,
    help="Check only the folder, and execute nothing in it: needs no credentials, so it is safe for merge requests.",
)
@click.option(
    "--trial",
    is_flag=True,
    help="Also start the planned components in short-lived pods on the controllers, to check their flags and files.",
)
@click.option(
    "--audit-log",
    "audit_logs",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Find clients of APIs that the target removes in this audit log of kube-apiserver, or in all files of a "
    "folder; may be repeated.",
)
@click.option(
    "--metrics",
    is_flag=True,
    help="Export the number of findings as metrics, as `observability` in upgrader.yaml says.",
)
@WAIT
@TIMEOUT
@SKIP
@REASON
@click.pass_obj
def check(
    folder: Path,
    target: KubernetesVersion | None,
    output: Output,
    offline: bool,
    trial: bool,
    audit_logs: tuple[Path, ...],
    metrics: bool,
    wait: bool,
    timeout: float | None,
    skipped: tuple[str, ...],
    reason: str | None,
) -> None:
    """Check everything that could stop an upgrade. Changes nothing.

    These are the checks that `upgrader run` begins with. All of them run, even if one fails. Each finding has an id,
    which `upgrader explain ID` explains. Exits with 3 when a check blocks the run.

    With --trial, it also does what a run's step "trial" does: it creates pods, which pull images that their controller
    lacks, and deletes them. Meanwhile, it holds the cluster's lock.

    With --audit-log, it names each client (user agent and user) that calls an API which the target no longer serves.
    The log is read on this machine, and nothing of it is kept.

    With --offline, no cluster is contacted, and the report ends with what was not checked. Exits with 3 when the folder
    is wrong, or something in it can't be checked.
    """
    if offline and trial:
        raise UsageError("--trial needs a cluster, and --offline doesn't use one", remedy="Use only one of them.")
    if offline and metrics:
        raise UsageError("--metrics needs a cluster, and --offline doesn't use one", remedy="Use only one of them.")
    if offline and wait:
        raise UsageError("--wait needs a cluster, and --offline doesn't use one", remedy="Use only one of them.")
    patience = wait_seconds(wait=wait, timeout=timeout)
    skips = Skips.of(skipped, reason)
    shown = front_end(busy=not offline or bool(audit_logs))  # before the imports, which take seconds

    from upgrader.app.check_metrics import publish_check
    from upgrader.app.offline_check import CheckedFolder, check_offline
    from upgrader.app.trial_check import check_and_try
    from upgrader.app.upgrade import CheckedPlan, check_upgrade
    from upgrader.app.wait_for_start import wait_for_start
    from upgrader.cli.ui.findings import on_screen, print_findings
    from upgrader.cli.ui.offline_check import print_folder

    checked: CheckedFolder | CheckedPlan
    if patience is not None:
        wait_for_start(folder, target, patience, shown)
    if offline:
        checked = check_offline(folder, target, skips, audit_logs)
    elif trial:
        checked = check_and_try(folder, target, shown, skips, audit_logs)
    else:
        checked = check_upgrade(folder, target, skips, shown, audit_logs)
    mention_needless(skips, checked.findings if isinstance(checked, CheckedFolder) else checked.all_findings)
    if metrics and isinstance(checked, CheckedPlan):
        publish_check(folder, checked, say)
    seen = False
    if output != "table":
        print_plain(_described(checked), output)
    elif isinstance(checked, CheckedFolder):
        seen = print_folder(checked, sys.stdout)
    else:
        seen = not checked.ahead and on_screen(checked.findings, sys.stdout)
        print_findings(checked.findings, f"{checked.plan.current} → {checked.plan.target}", sys.stdout)
        for hop in checked.ahead:
            print_findings(hop.findings, f"{hop.plan.current} → {hop.plan.target}, as far as known now", sys.stdout)
    checked.refuse_if_blocked(seen=seen)


def _described(checked: CheckedPlan | CheckedFolder) -> dict[str, object]:
    from upgrader.app.offline_check import CheckedFolder

    findings = {"blocked": checked.blocked, "findings": _plain(checked.findings)}
    if isinstance(checked, CheckedFolder):
        target = str(checked.target) if checked.target else None
        not_asked = [asdict(item) for item in checked.not_asked]
        return {"offline": True, "target": target, **findings, "not_asked": not_asked}
    ahead = [{**_versions(hop.plan), "findings": _plain(hop.findings)} for hop in checked.ahead]
    return {**_versions(checked.plan), **findings, "ahead": ahead}


def _versions(plan: Plan) -> dict[str, str]:
    return {"current": str(plan.current), "target": str(plan.target)}


def _plain(findings: Sequence[Finding]) -> list[dict[str, object]]:
    return [asdict(finding) for finding in findings]
