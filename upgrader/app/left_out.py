"""A controller that is down: `upgrader run` leaves it out where that is allowed, `upgrader resume` takes it back.

Each is a run of its own. So the upgrade between them is that of a healthy cluster with fewer controllers: its plan, its
gates, its rollback and its resumption know of nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from upgrader.adopt.left_out_pipeline import LeavingOut, Return
from upgrader.adopt.node_withdrawal import check_chosen_by_label
from upgrader.app.as_installed import observe_installed
from upgrader.app.execution import FinishedRun, NewRun, execute_run
from upgrader.app.expired_certificates import refuse_expired
from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import HeldLock, cluster_lock, locked_folder
from upgrader.app.resumable import upgrade_to_resume
from upgrader.app.upgrade import CheckedPlan, PlannedUpgrade, refuse_over_interrupted
from upgrader.app.wiring import Session, open_session
from upgrader.config.load import load_settings
from upgrader.engine.state.run_state import RunState
from upgrader.errors import ApiUnavailable, Blocked
from upgrader.gates.kubernetes_kinds import NODES, PODS
from upgrader.gates.node_health import condition_problem
from upgrader.gates.started_version import image_version
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.health_before import HealthBefore
from upgrader.model.left_out import LeftOut
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import RehearsalSettings
from upgrader.model.skips import NO_SKIPS, Skips
from upgrader.model.version import KubernetesVersion
from upgrader.onhost.sending.collect import examine_all
from upgrader.onhost.sending.host_facts import Examined
from upgrader.pipeline import Pipeline
from upgrader.ports import KubeObject
from upgrader.preflight.all_checks import CHECKS, run_checks
from upgrader.preflight.down_controllers import etcd_problem, is_down, left_out_of, may_be_left_out
from upgrader.preflight.refusal import refuse_if_blocked

__all__ = ["ProposedChange", "WantedUpgrade", "propose_leaving_out", "propose_return", "refuse_not_back"]

_API_SERVER = "kube-apiserver"
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

    @property
    def ends_rehearsal(self) -> bool:
        """Whether the upgrade needs a rehearsal after it, whatever was rehearsed before."""
        return self.session.settings.rehearsal.mode == "require"

    def check_allowed(self) -> None:
        """Raises Blocked where a check forbids it."""
        refuse_if_blocked("this; nothing was changed", self.findings)

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


@dataclass(frozen=True)
class WantedUpgrade:
    """The upgrade for which a controller is left out, as `propose_upgrade` has it."""

    target: KubernetesVersion | None = None
    skips: Skips = NO_SKIPS
    most: int | None = None
    bundled_in: Path | None = None
    anew: bool = False
    refuse: Callable[[CheckedPlan, Session], None] | None = None
    """Raises Blocked for its plan; the later one, without that controller, is of other releases."""

    def check(self, session: Session, host: Host, mark: LeftOut) -> bool:
        """Whether there is anything to upgrade. Raises Blocked where a check forbids it without that controller.

        A rehearsal isn't asked for yet: to leave a controller out changes the releases that each one is of.
        """
        session = session.with_bundle(self.bundled_in)
        without = session.without({host.name: mark.in_phase("out")})
        with session.bundle() as bundle:
            # With all the replicas that are installed: to leave one out is no upgrade. That one isn't asked.
            planned = PlannedUpgrade.of(replace(session, cluster=without.cluster), bundle, self.most)
            plan = CheckedPlan(planned.plan, ())
            if not planned.later and not plan.document.to_do:
                return False
            if self.refuse is not None:
                self.refuse(plan, session)
            unrehearsed = replace(without, settings=replace(without.settings, rehearsal=RehearsalSettings("ignore")))
            PlannedUpgrade.of(unrehearsed, bundle, self.most).checked(self.skips).refuse_if_blocked()
        return True


@contextmanager
def propose_leaving_out(
    folder: Path, wanted: WantedUpgrade, front_end: FrontEnd, *, take_over: bool
) -> Iterator[ProposedChange | None]:
    """Lock the cluster, and plan how to leave out the controller that is down, or to complete that.

    None if upgrader.yaml doesn't allow it, none is down, one is left out already, too many are down, or there is
    nothing to upgrade: the checks of the upgrade tell. Raises Blocked where etcd has no majority without it, where a
    check forbids the upgrade, or where an interrupted one has left changes.
    """
    if load_settings(folder, os.environ).degraded != "allow":
        yield None
        return
    with front_end.busy(), open_session(folder, wanted.target) as opened, locked_folder(folder):
        session = opened.telling(front_end.doing)
        if _to_leave_out(session) is None:
            yield None
            return
        with cluster_lock(session, front_end, take_over=take_over) as held:
            host = _to_leave_out(session)
            found = _leaving_out(session, front_end, held, host, wanted) if host is not None else None
            front_end.doing("")
            yield found


def _to_leave_out(session: Session) -> Host | None:
    """The one that is down; None where none is to be left out. Raises ApiError."""
    kube, cluster = session.tools.kube, session.cluster
    marks = left_out_of(kube, cluster)
    hosts = session.tools.hosts
    down = [host for host in cluster.controllers if is_down(kube, hosts, host, kube.get(NODES, host.name))]
    if any(mark.phase == "out" for mark in marks.values()):
        return None
    names = {host.name for host in down} | marks.keys()
    return down[0] if down and may_be_left_out(cluster, names) else None


def _leaving_out(
    session: Session, front_end: FrontEnd, held: HeldLock, host: Host, wanted: WantedUpgrade
) -> ProposedChange | None:
    tools = session.tools
    check_chosen_by_label(tools.kube)
    begun = bool(left_out_of(tools.kube, session.cluster))
    refuse_over_interrupted(session, front_end, anew=wanted.anew or begun, down=host.name)
    staying = session.without({host.name: LeftOut("leaving", None)})
    installed = observe_installed(staying)
    version = installed.version
    mark = _mark(session, host, version)
    staying = staying.at(version)
    examined = examine_all(tools.hosts, staying.cluster)
    facts = {item.host.name: item.facts for item in examined if item.facts is not None}
    if problem := etcd_problem(facts, staying.cluster):
        raise Blocked(
            f"controller {host.name} is down, and etcd isn't healthy enough to leave it out: {problem}; nothing was "
            "changed",
            remedy="All remaining etcd members must be healthy. Repair them, or bring that controller back.",
        )
    # What was begun is completed, whatever is to follow: half left out is no state to stay in.
    if not begun and not wanted.check(session, host, mark):
        return None
    findings = run_checks(staying.preflight_context(installed.observed), _CHECKS, session.doing)
    health = staying.read_health_before()
    build = staying.builder.since(health).context
    pipeline = LeavingOut(host, tools, mark).pipeline(installed.plans(staying), build)
    return ProposedChange(RunKind.LEAVE_OUT_CONTROLLER, host, pipeline, findings, staying, front_end, held, health)


def _mark(session: Session, host: Host, version: KubernetesVersion) -> LeftOut:
    """With every version of kube-apiserver that its checkpoints may start.

    In the middle of an upgrade, the releases' version is one that the controller may never have had: it died with the
    older one, or its checkpoint is still of that one while a newer pod is listed.
    """
    kube = session.tools.kube
    pods = kube.list(PODS, "kube-system", fields=f"spec.nodeName={host.name}")
    containers = (each for pod in pods for each in pod["spec"]["containers"])
    images = [str(each.get("image", "")) for each in containers if each["name"] == _API_SERVER]
    listed = (image_version(_API_SERVER, image) for image in images)
    found = LeftOut("leaving", version).starting(*(each for each in listed if each is not None))
    for state in _unended_upgrades(session):
        if state.current is None:
            return replace(found, version=None, newest=found.newest or found.version)
        begun = state.step(_API_SERVER) is not None
        found = found.starting(state.current, *([state.target] if begun and state.target else ()))
    return found


def _unended_upgrades(session: Session) -> Iterator[RunState]:
    """The upgrades since the one by which every controller got one version."""
    for run in reversed(session.find_runs().runs):
        if run.state.is_upgrade:
            if run.state.over:
                return
            yield run.state


@contextmanager
def propose_return(folder: Path, front_end: FrontEnd, *, take_over: bool) -> Iterator[ProposedChange | None]:
    """Lock the cluster, and plan how the controller that was left out gets its turn, or how to complete that.

    None where none is left out, or the newest upgrade is to be resumed first. Raises Blocked if it isn't back yet.
    """
    with front_end.busy(), open_session(folder) as opened, locked_folder(folder):
        session = opened.telling(front_end.doing)
        marks = _marks(session)
        if not marks or _upgrade_comes_first(session, marks):
            yield None
            return
        with cluster_lock(session, front_end, take_over=take_over) as held:
            found = _return(session, front_end, held)
            front_end.doing("")
            yield found


def _marks(session: Session) -> Mapping[str, LeftOut]:
    """The controllers that are known to be left out. Without the API nothing returns: resuming a run says what to
    do.
    """
    try:
        return left_out_of(session.tools.kube, session.cluster)
    except ApiUnavailable:
        return {}


def _upgrade_comes_first(session: Session, marks: Mapping[str, LeftOut]) -> bool:
    """Whether the newest upgrade is to be resumed: it began without the controller, and ends without it. One from
    before can't be: the controller returns to what that upgrade has left, and the next one goes on from there. What is
    half done comes before everything else.
    """
    half = any(mark.phase != "out" for mark in marks.values())
    return not half and bool(upgrade_to_resume(session.find_runs(), session.tools.clock.now()))


def _return(session: Session, front_end: FrontEnd, held: HeldLock) -> ProposedChange | None:
    tools = session.tools
    marks = left_out_of(tools.kube, session.cluster)
    if not marks or _upgrade_comes_first(session, marks):
        return None
    host = next(each for each in session.cluster.controllers if each.name in marks)
    refuse_not_back(session, host)
    installed = observe_installed(session)
    whole = session.at(installed.version)
    findings = run_checks(whole.preflight_context(installed.observed), _CHECKS, session.doing)
    health = whole.read_health_before()
    before = whole.without(marks).builder.since(health).context
    build = whole.builder.since(health).context
    pipeline = Return(host, tools, before).pipeline(installed.plans(whole), build)
    return ProposedChange(RunKind.RETURN_CONTROLLER, host, pipeline, findings, whole, front_end, held, health)


def refuse_not_back(session: Session, host: Host) -> None:
    """Raise Blocked where a controller that was left out can't take part again, as it or another one isn't healthy.

    The session is of all controllers that take part once it does.
    """
    examined = {item.host.name: item for item in examine_all(session.tools.hosts, session.cluster)}
    if examined[host.name].facts is not None:
        refuse_expired(session.tools.hosts, host, session.tools.clock.now())
    if problem := _not_back(session.tools.kube.get(NODES, host.name), examined[host.name]):
        raise Blocked(
            f"controller {host.name} is left out of runs, and not back yet: {problem}; nothing was changed",
            remedy="Repair it, then run the same command again. If it is permanently gone: upgrader controllers "
            f"remove {host.name} --dead",
        )
    if away := [name for name, item in examined.items() if item.facts is None]:
        raise Blocked(
            f"controller {host.name} was left out of runs, and is back, but {first_few(away)} can't be examined: "
            f"{examined[away[0]].error}; nothing was changed",
            remedy=f"Repair {away[0]}, then run the same command again. If it is permanently gone: upgrader "
            f"controllers remove {away[0]} --dead, which also brings {host.name} back.",
        )
    facts = {name: item.facts for name, item in examined.items() if item.facts is not None}
    if problem := etcd_problem(facts, session.cluster):
        raise Blocked(
            f"controller {host.name} was left out of runs, and can't return yet: in etcd, {problem}; nothing was "
            "changed",
            remedy="Repair etcd there, then run the same command again.",
        )


def _not_back(node: KubeObject | None, examined: Examined) -> str:
    """What its machine lacks; "" for nothing."""
    if node is None:
        return "it is not a node of the cluster"
    if problem := condition_problem(node):
        return f"its node {problem}"
    return examined.error if examined.facts is None else ""
