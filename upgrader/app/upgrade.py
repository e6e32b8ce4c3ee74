"""`upgrader plan` and `upgrader run`: plan an upgrade, check it, and execute it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from upgrader.app.forecast import Forecast, forecast
from upgrader.app.front_end import SILENT, FrontEnd
from upgrader.app.host_changes import host_changes
from upgrader.app.locking import HeldLock, cluster_lock, locked_folder
from upgrader.app.plan_refusal import plan_refusal
from upgrader.app.rehearsal_records import known_rehearsal
from upgrader.app.resumable import upgrade_to_resume
from upgrader.app.resume_or_start import newest_without_end
from upgrader.app.saved_plans import BoundPlan, SavedFile, bind, read_plan, write_plan
from upgrader.app.wiring import Session, open_session
from upgrader.engine.history.past_runs import past_runs
from upgrader.engine.history.step_times import usual_seconds
from upgrader.errors import Blocked, ChartRefused, UsageError
from upgrader.model.finding import Finding
from upgrader.model.observed import Observed
from upgrader.model.rehearsal_record import KnownRehearsal
from upgrader.model.run_kind import RunKind
from upgrader.model.skips import NO_SKIPS, Skips
from upgrader.model.upgrade_path import upgrade_path
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.all_checks import blocking
from upgrader.preflight.audit_log_files import given_audit_log
from upgrader.steps.images.bundle.reading import Bundle
from upgrader.steps.intended import left_behind
from upgrader.steps.plan import Plan
from upgrader.steps.plan_document import HopDocument, PlanDocument
from upgrader.steps.step_document import HostChanges

if TYPE_CHECKING:
    from upgrader.app.execution import FinishedRun

__all__ = [
    "CheckedPlan",
    "PlannedUpgrade",
    "ProposedUpgrade",
    "check_upgrade",
    "plan_upgrade",
    "propose_upgrade",
    "refuse_over_interrupted",
    "save_plan",
]


@dataclass(frozen=True)
class CheckedPlan:
    """A plan, and every check's findings on it."""

    plan: Plan
    findings: tuple[Finding, ...]
    usual_seconds: Mapping[str, float] = field(default_factory=dict)
    """How long steps took in earlier runs of the folder, by their names."""
    host_changes: Mapping[str, HostChanges] = field(default_factory=dict)
    """What playbooks would change, by their steps' names; only a plan asks for it."""
    ahead: tuple[Forecast, ...] = ()
    """The hops after this one, on the way to a target that is several minors ahead."""

    @property
    def goal(self) -> KubernetesVersion:
        """The version of the last hop."""
        return self.ahead[-1].plan.target if self.ahead else self.plan.target

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """Those on this hop, and those on later ones."""
        return (*self.findings, *(finding for hop in self.ahead for finding in hop.findings))

    @property
    def blocked(self) -> bool:
        """Whether a check forbids the run, or is known to forbid a later hop."""
        return blocking(self.all_findings)

    @property
    def document(self) -> PlanDocument:
        """As it is shown."""
        later = tuple(HopDocument.of(hop.plan, hop.findings, self.usual_seconds) for hop in self.ahead)
        document = PlanDocument.of(self.plan, self.findings, self.usual_seconds, self.host_changes)
        return replace(document, ahead=later, blocked=self.blocked)

    def refuse_if_blocked(self, *, seen: bool = False) -> None:
        """Raise Blocked where a check forbids the run. `seen`: the findings are still on the screen."""
        if refused := plan_refusal(self.document, seen=seen):
            raise refused


@dataclass(frozen=True)
class ProposedUpgrade:
    """A checked plan, with the cluster locked: it is executed as it is, or not at all."""

    checked: CheckedPlan
    session: Session
    front_end: FrontEnd
    held: HeldLock
    bound: BoundPlan | None = None
    """What a saved plan is bound to, where this is one."""
    bundle: Bundle | None = None
    """Where images come from that a node lacks."""
    skips: Skips = NO_SKIPS
    """The findings that the run skips, including those that only its own steps find."""
    campaign: str = ""
    """The fleet's campaign that begins it; "": none."""

    def execute(self) -> FinishedRun:
        """Run it to its end. Raises Blocked where a check forbids it."""
        from upgrader.app.execution import NewRun, execute_run  # a plan would wait for what it doesn't execute

        plan, session = self.checked.plan, self.session
        self.checked.refuse_if_blocked()
        health_before = session.read_health_before()
        pipeline = session.builder.since(health_before).upgrade(plan, bundle=self.bundle, skips=self.skips)
        if self.bound is not None:
            pipeline = pipeline.each_if(self.bound.refuse_changes)
        return execute_run(
            session,
            self.front_end,
            NewRun(
                RunKind.UPGRADE,
                pipeline,
                plan=plan,
                health_before=health_before,
                findings=self.checked.all_findings,
                skips=self.skips,
                goal=self.checked.goal,
                campaign=self.campaign,
                usual_seconds=self.checked.usual_seconds,
            ),
            held=self.held,
        )


def check_upgrade(
    folder: Path,
    target: KubernetesVersion | None,
    skips: Skips = NO_SKIPS,
    front_end: FrontEnd = SILENT,
    audit_logs: Sequence[Path] = (),
) -> CheckedPlan:
    """What the checks find, also of the clients in audit logs. Changes nothing. `target` None means the file's."""
    with front_end.busy():
        log = given_audit_log(audit_logs, front_end.doing)
        with open_session(folder, target) as session:
            told = session.telling(front_end.doing).with_audit_log(log)
            return PlannedUpgrade.of(told, None).checked(skips)


def plan_upgrade(
    folder: Path, target: KubernetesVersion | None, front_end: FrontEnd = SILENT, kubeconfig: Path | None = None
) -> CheckedPlan:
    """What an upgrade would change, on the hosts as well, and what the checks find. Changes nothing. `kubeconfig` None:
    the folder's.

    Raises UsageError for a bundle whose checksums are wrong.
    """
    with front_end.busy(), open_session(folder, target, kubeconfig) as session, session.bundle() as bundle:
        planned = PlannedUpgrade.of(session.telling(front_end.doing), bundle)
        return _asked(planned.session, planned.checked(NO_SKIPS))


def save_plan(folder: Path, target: KubernetesVersion | None, path: Path, front_end: FrontEnd = SILENT) -> CheckedPlan:
    """As `plan_upgrade`, and write the plan to a file, also where a check blocks it: a run makes the checks again.

    Raises UsageError where the file can't be written, and for a target that is several minors ahead.
    """
    with front_end.busy(), open_session(folder, target) as opened, opened.bundle() as bundle:
        planned = PlannedUpgrade.of(opened.telling(front_end.doing), bundle)
        session, plan = planned.session, planned.plan
        if planned.later:
            raise UsageError(
                f"a saved plan covers one minor version, but {planned.later[-1]} is several ahead of {plan.current}: "
                "later changes aren't certain yet",
                remedy=f"Plan one minor at a time: upgrader plan --to {plan.target} --out {path}",
            )
        bound = bind(session, planned.observed, plan, bundle, path)
        checked = _asked(session, planned.checked(NO_SKIPS))
        write_plan(path, bound, checked.document, session.tools.clock.now())
        return checked


@contextmanager
def propose_upgrade(
    folder: Path,
    target: KubernetesVersion | None,
    front_end: FrontEnd,
    *,
    take_over: bool,
    skips: Skips = NO_SKIPS,
    saved_in: Path | None = None,
    most: int | None = None,
    bundled_in: Path | None = None,
    anew: bool = False,
) -> Iterator[ProposedUpgrade]:
    """Lock the cluster, plan and check. Raises Locked where another process works on the cluster.

    `saved_in`: the file of a saved plan. Raises UsageError where it is none, or for another target; Blocked, before
    the checks, unless the plan is made again from what that one was made from. Each step compares its inputs again.
    `most`: how many minor versions a run may go through, where the target is several ahead. `bundled_in`: the file of a
    bundle, in place of upgrader.yaml's. Raises UsageError where its checksums are wrong. `anew`: begin also where an
    interrupted upgrade has left changes, which raises Blocked otherwise.
    """
    saved = read_plan(saved_in) if saved_in is not None else None
    if saved is not None:
        if target not in (None, saved.target):
            raise UsageError(
                f"--to {target}, but the saved plan is for {saved.target}",
                remedy="Omit --to, or plan again.",
            )
        target = saved.target
    with (
        front_end.busy(),
        open_session(folder, target) as opened,
        (session := _not_expired(opened, saved).with_bundle(bundled_in).telling(front_end.doing)).bundle() as bundle,
        locked_folder(folder),
        cluster_lock(session, front_end, take_over=take_over) as held,
    ):
        refuse_over_interrupted(session, front_end, anew=anew)
        planned = PlannedUpgrade.of(session, bundle, most)
        bound = saved.bind_again(planned.session, planned.observed, planned.plan, bundle) if saved is not None else None
        checked = planned.checked(skips)
        front_end.doing("")
        yield ProposedUpgrade(checked, planned.session, front_end, held, bound, bundle, skips)


@dataclass(frozen=True)
class PlannedUpgrade:
    """The plan of the first hop to the session's target, made from the cluster as it is; `later` are the other hops."""

    session: Session
    """With the first hop's target."""
    observed: Observed
    plan: Plan
    later: tuple[KubernetesVersion, ...]
    bundle: Bundle | None

    @classmethod
    def of(cls, session: Session, bundle: Bundle | None, most: int | None = None) -> PlannedUpgrade:
        if session.settings.degraded == "allow":
            session = _as_marked(session)  # without that, a check refuses what is left out
        observed, settings = session.observe(), session.settings
        path = upgrade_path(observed.server, settings.target, settings.through, most)
        ahead = settings.target.minors_after(observed.server) > 0
        if ahead and left_behind(observed, lambda: session.at(observed.server).intended(None)):
            # What isn't at the API server's minor yet would skip that one.
            path = (observed.server, *path)
        first, *later = path[:most]
        if later and session.left_out:
            raise Blocked(
                f"{later[-1]} is several minor versions ahead, but {', '.join(session.left_out)} is left out of "
                "runs: its kube-apiserver may start alongside the others at any time, and all instances must be "
                "within one minor version; nothing was changed",
                remedy=f"Upgrade one minor for now: --to {first}. Before the next one, bring it back: upgrader resume.",
            )
        there = session.at(first)
        try:
            plan = there.upgrade_plan(observed, later[0] if later else None, bundle)
        except ChartRefused as error:
            raise _not_adopted(observed, error) or error from None
        return cls(there, observed, plan, tuple(later), bundle)

    def checked(self, skips: Skips) -> CheckedPlan:
        """With what every check finds, and what is known of the later hops."""
        usual = usual_seconds(run.state for run in past_runs(self.session.settings.folder / "runs"))
        session = replace(self.session, known_rehearsal=self._known_rehearsal)
        findings = skips.apply(session.preflight(self.observed, self.plan))
        hops = forecast(self.session, self.observed, self.plan, self.later, self.bundle)
        return CheckedPlan(self.plan, findings, usual, ahead=tuple(_once(findings, hops, skips)))

    def _known_rehearsal(self) -> KnownRehearsal | None:
        """As `known_rehearsal`. A rehearsal is of one hop, planned as if none followed: only the last one emulates, and
        upgrades all nodes.
        """
        plan = self.session.plan(self.observed) if self.later else self.plan
        return known_rehearsal(self.session, self.observed, plan)


def _as_marked(session: Session) -> Session:
    marked = session.as_marked()
    if not marked.left_out:
        return marked
    return replace(marked, upgrade_to_resume=upgrade_to_resume(marked.find_runs(), marked.tools.clock.now()))


def _not_adopted(observed: Observed, error: ChartRefused) -> Blocked | None:
    """Before an adoption, nothing has written the values that the charts need: that is the cause, and not the chart."""
    release = observed.releases.get("kube-apiserver")
    if release is None or release.history:
        return None
    return Blocked(
        f"release kube-apiserver does not exist: this cluster was not adopted yet ({error.message})",
        remedy="Move its control plane into Helm releases, which also writes the values: upgrader adopt",
    )


def _once(findings: Sequence[Finding], hops: Iterable[Forecast], skips: Skips) -> Iterator[Forecast]:
    """Each hop with what no hop before it has: some findings are of the cluster, and not of the version. What one hop
    warns of, such as cgroups of version 1, may be an error of a later one.
    """
    known = {(finding.id, finding.title, finding.severity) for finding in findings}
    for hop in hops:
        new = [finding for finding in hop.findings if (finding.id, finding.title, finding.severity) not in known]
        known |= {(finding.id, finding.title, finding.severity) for finding in new}
        yield replace(hop, findings=skips.apply(new))


def _not_expired(session: Session, saved: SavedFile | None) -> Session:
    """The same session, where a saved plan may still be run; before anything is asked for."""
    if saved is not None:
        saved.refuse_expired(session.tools.clock.now())
    return session


def _asked(session: Session, checked: CheckedPlan) -> CheckedPlan:
    session.doing("checking what playbooks would change on hosts…")
    return replace(checked, host_changes=host_changes(session, checked.plan))


def refuse_over_interrupted(session: Session, front_end: FrontEnd, *, anew: bool, down: str = "") -> None:
    """Raise Blocked where an interrupted upgrade has left changes, unless `anew`. `down`: a controller that is down.

    A resumed run and a new one roll back to different states: which of them is meant, only the operator knows. The
    interrupted run may have been on another machine.
    """
    found = session.find_brief_runs()
    for problem in found.may_hide:
        front_end.notify(f"An interrupted upgrade may have been missed: {problem}")
    name = newest_without_end(found)
    run = found.get(name) if name else None
    if run is None or anew or not any(step.to_undo and not step.prepares for step in run.state.steps):
        return
    raise Blocked(
        f"run {name} was interrupted, and its changes are still in place: the rollback of a new run would "
        "keep these changes; nothing was changed",
        remedy="To continue it: upgrader run --resume\nTo undo it: upgrader rollback\nTo keep its changes, and start "
        "from the current state: upgrader run --new"
        + (
            f", which first leaves out {down}. As long as that controller is down, the first two commands are "
            "unlikely to pass their gates."
            if down
            else ""
        ),
    )
