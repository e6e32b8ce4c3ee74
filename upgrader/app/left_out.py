"""A controller that is down: `upgrader run` leaves it out where that is allowed, `upgrader resume` takes it back.

Each is a run of its own. So the upgrade between them is that of a healthy cluster with fewer controllers: its plan, its
gates, its rollback and its resumption know of nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from upgrader.adopt.joined import running_version
from upgrader.adopt.left_out_pipeline import LeavingOut, Return
from upgrader.adopt.withdrawal import check_chosen_by_label
from upgrader.app.execution import FinishedRun, NewRun, execute_run
from upgrader.app.finalize import refuse_unended
from upgrader.app.front_end import FrontEnd
from upgrader.app.interrupted_upgrade import newest_without_end
from upgrader.app.locking import HeldLock, cluster_lock, locked_folder
from upgrader.app.wiring import Session, open_session
from upgrader.config.load import load_settings
from upgrader.errors import ApiUnavailable, Blocked
from upgrader.gates.kubernetes_kinds import NODES
from upgrader.gates.node_health import condition_problem
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.model.health_before import HealthBefore
from upgrader.model.left_out import LeftOut
from upgrader.model.run_kind import RunKind
from upgrader.onhost.sending.collect import examine_all
from upgrader.pipeline import Pipeline
from upgrader.preflight.all_checks import CHECKS, blocking, run_checks
from upgrader.preflight.down_controllers import etcd_problem, is_down, left_out_of, may_be_left_out
from upgrader.preflight.refusal import refusal

__all__ = ["ProposedChange", "propose_leaving_out", "propose_return"]

_CHECKS = tuple((name, check) for name, check in CHECKS if name in ("access", "hosts", "helm", "webhooks"))


@dataclass(frozen=True)
class ProposedChange:
    """The steps that leave a controller out, or take it back; the cluster is locked."""

    kind: RunKind
    host: Host
    pipeline: Pipeline
    findings: tuple[Finding, ...]
    """Of the controllers that take part afterwards."""
    session: Session
    front_end: FrontEnd
    held: HeldLock
    health_before: HealthBefore

    def check_allowed(self) -> None:
        """Raises Blocked where a check forbids it."""
        if blocking(self.findings):
            raise refusal("a check blocks this; nothing was changed", self.findings, "Then run this command again.")

    def execute(self) -> FinishedRun:
        """Execute it. What was interrupted is completed by the same command, and never undone."""
        self.check_allowed()
        return execute_run(
            self.session,
            self.front_end,
            NewRun(
                self.kind, self.pipeline, on_failure="stop", health_before=self.health_before, findings=self.findings
            ),
            held=self.held,
        )


@contextmanager
def propose_leaving_out(folder: Path, front_end: FrontEnd, *, take_over: bool) -> Iterator[ProposedChange | None]:
    """Lock the cluster, and plan how to leave out the controller that is down, or to complete that.

    None if upgrader.yaml doesn't allow it, none is down, one is left out already, or too many are down: the checks
    of the upgrade tell. Raises Blocked where etcd has no majority without it, or the newest upgrade has no end.
    """
    if load_settings(folder, os.environ).degraded != "allow":
        yield None
        return
    with open_session(folder) as session, locked_folder(folder):
        if _to_leave_out(session) is None:
            yield None
            return
        with cluster_lock(session, front_end, take_over=take_over) as held:
            host = _to_leave_out(session)
            yield _leaving_out(session, front_end, held, host) if host is not None else None


def _to_leave_out(session: Session) -> Host | None:
    """The one that is down; None where none is to be left out. Raises ApiError."""
    kube, cluster = session.tools.kube, session.cluster
    marks = left_out_of(kube, cluster)
    down = [host for host in cluster.controllers if is_down(session.tools.hosts, host, kube.get(NODES, host.name))]
    if any(mark.phase == "out" for mark in marks.values()):
        return None
    names = {host.name for host in down} | marks.keys()
    return down[0] if down and may_be_left_out(cluster, names) else None


def _leaving_out(session: Session, front_end: FrontEnd, held: HeldLock, host: Host) -> ProposedChange:
    tools = session.tools
    check_chosen_by_label(tools.kube)
    refuse_unended(session)
    version = running_version(tools.kube)
    staying = session.at(version).without({host.name: LeftOut("leaving", version)})
    examined = examine_all(tools.hosts, staying.cluster)
    facts = {item.host.name: item.facts for item in examined if item.facts is not None}
    if problem := etcd_problem(facts, staying.cluster):
        raise Blocked(
            f"controller {host.name} is down, and etcd can't do without it: {problem}; nothing was changed",
            remedy="Every etcd member that is left must be healthy. Repair these, or bring that controller back.",
        )
    observed = staying.observe()
    findings = run_checks(staying.preflight_context(observed), _CHECKS)
    health = staying.read_health_before()
    build = staying.builder.since(health).context
    pipeline = LeavingOut(host, tools).pipeline(staying.plan(observed), build)
    return ProposedChange(RunKind.LEAVE_OUT_CONTROLLER, host, pipeline, findings, staying, front_end, held, health)


@contextmanager
def propose_return(folder: Path, front_end: FrontEnd, *, take_over: bool) -> Iterator[ProposedChange | None]:
    """Lock the cluster, and plan how the controller that was left out gets its turn, or how to complete that.

    None where none is left out, or an interrupted upgrade is to be resumed first. Raises Blocked if it isn't back yet.
    """
    with open_session(folder) as session, locked_folder(folder):
        if not _left_out(session) or newest_without_end(session.find_runs()):
            yield None
            return
        with cluster_lock(session, front_end, take_over=take_over) as held:
            yield _return(session, front_end, held)


def _left_out(session: Session) -> bool:
    """Whether a controller is known to be left out. Without the API nothing returns: resuming a run says what to do."""
    try:
        return bool(left_out_of(session.tools.kube, session.cluster))
    except ApiUnavailable:
        return False


def _return(session: Session, front_end: FrontEnd, held: HeldLock) -> ProposedChange | None:
    tools = session.tools
    marks = left_out_of(tools.kube, session.cluster)
    if not marks:
        return None
    refuse_unended(session.without(marks))
    host = next(each for each in session.cluster.controllers if each.name in marks)
    version = running_version(tools.kube)
    whole = session.at(version)
    if problem := _why_not_back(whole, host):
        raise Blocked(
            f"controller {host.name} is left out, and not back yet: {problem}; nothing was changed",
            remedy=f"Repair it, then run this again. If it is gone for good: upgrader controllers remove {host.name} "
            "--dead",
        )
    observed = whole.observe()
    findings = run_checks(whole.preflight_context(observed), _CHECKS)
    health = whole.read_health_before()
    before = whole.without(marks).builder.since(health).context
    build = whole.builder.since(health).context
    pipeline = Return(host, tools, before).pipeline(whole.plan(observed), build)
    return ProposedChange(RunKind.RETURN_CONTROLLER, host, pipeline, findings, whole, front_end, held, health)


def _why_not_back(session: Session, host: Host) -> str:
    """What a controller lacks to take part again; "" for nothing."""
    node = session.tools.kube.get(NODES, host.name)
    if node is None:
        return "it is not a node of the cluster"
    if problem := condition_problem(node):
        return f"its node {problem}"
    examined = examine_all(session.tools.hosts, session.cluster)
    if error := next((item.error for item in examined if item.host == host and item.facts is None), ""):
        return error
    facts = {item.host.name: item.facts for item in examined if item.facts is not None}
    return etcd_problem(facts, session.cluster)
