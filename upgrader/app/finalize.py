"""`upgrader finalize`: end the emulation of the old minor, the point of no return of a minor upgrade."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from upgrader.app.execution import FinishedRun, NewRun, execute_run
from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import HeldLock, cluster_lock, locked_folder
from upgrader.app.resumable import built_on, newest_upgrade
from upgrader.app.resume_or_start import known_to_campaign, refuse_newer
from upgrader.app.upgrade import CheckedPlan
from upgrader.app.wiring import Session, open_session
from upgrader.engine.history.run_discovery import DiscoveredRun, DiscoveredRuns
from upgrader.errors import Blocked
from upgrader.model.api_lifecycle import Minor
from upgrader.model.emulation import emulated_in, minor_text
from upgrader.model.observed import Observed
from upgrader.model.run_kind import RunKind
from upgrader.model.settings import BUILT_IN_CHARTS, ReleaseSettings
from upgrader.model.version import KubernetesVersion
from upgrader.steps.intended import plan_run
from upgrader.steps.pipeline_builder import with_every_step
from upgrader.steps.release.plan import IntendedRelease, object_changes

__all__ = ["ProposedFinalize", "locked_as_it_runs", "plan_finalize", "propose_finalize", "refuse_unended"]


@dataclass(frozen=True)
class ProposedFinalize:
    """What ends the emulation of `emulated`, checked; the cluster is locked."""

    emulated: Minor | None
    """None: an interrupted run has ended all of it, whose gates are asked again."""
    checked: CheckedPlan
    session: Session
    front_end: FrontEnd
    held: HeldLock
    continues: bool
    """Whether an interrupted run of this kind is continued."""
    campaign: str

    def execute(self) -> FinishedRun:
        """Run it to its end. Raises Blocked where a check forbids it."""
        self.checked.refuse_if_blocked()
        plan, session = self.checked.plan, self.session
        health_before = session.read_health_before()
        builder = session.builder.since(health_before)
        return execute_run(
            session,
            self.front_end,
            NewRun(
                RunKind.FINALIZE,
                builder.with_bake(builder.forward(plan)),
                plan=plan,
                health_before=health_before,
                findings=self.checked.findings,
                campaign=self.campaign,
            ),
            held=self.held,
        )


@contextmanager
def propose_finalize(
    folder: Path,
    front_end: FrontEnd,
    *,
    take_over: bool,
    campaign: str = "",
    after: str | None = None,
    only_at: KubernetesVersion | None = None,
) -> Iterator[ProposedFinalize | None]:
    """Lock the cluster, plan and check; None where nothing is emulated.

    At the version that runs, whatever the folder asks for. Raises Blocked where more than the emulation would change,
    or the newest upgrade has not reached an end. An interrupted one is begun again: each step is safe to repeat.

    `campaign` is the fleet's that begins it; raises Blocked where it was to follow the run `after` ("none": to be the
    first), but a newer one of this kind has ended; or where the cluster doesn't run the version `only_at`.
    """
    with locked_as_it_runs(folder, front_end, take_over=take_over) as (session, observed, held):
        if only_at is not None:
            _refuse_other_version(observed, only_at)
        emulated, found = _emulated(session, observed), session.find_runs()
        continues = _interrupted(found)
        if emulated is None and not continues:
            front_end.doing("")
            yield None
            return
        # Of one that was interrupted after its last change, the gates have not passed yet.
        checked = _planned(session, observed, emulated, found)
        front_end.doing("")
        told = known_to_campaign(found, session.find_brief_runs()) if after is not None else found
        if not continues and (ended := _newest(told)) is not None:
            refuse_newer(ended, told, after)
        yield ProposedFinalize(emulated, checked, session, front_end, held, continues, campaign)


def _newest(found: DiscoveredRuns) -> DiscoveredRun | None:
    return next((run for run in reversed(found.runs) if run.state.kind is RunKind.FINALIZE), None)


def _interrupted(found: DiscoveredRuns) -> bool:
    """Whether the newest run of this kind has no end, and can be continued."""
    newest = _newest(found)
    if newest is None or newest.state.outcome not in (None, "interrupted"):
        return False
    return built_on(newest, found) is None


def plan_finalize(folder: Path, target: KubernetesVersion, kubeconfig: Path) -> CheckedPlan | None:
    """As `propose_finalize`, without a lock; changes nothing. Raises Blocked if the cluster doesn't run `target`."""
    with open_session(folder, None, kubeconfig) as opened:
        observed = opened.observe()
        _refuse_other_version(observed, target)
        session = _built_in(opened.at(observed.server))
        emulated, found = _emulated(session, observed), session.find_runs()
        if emulated is None and not _interrupted(found):
            return None
        return _planned(session, observed, emulated, found)


def _refuse_other_version(observed: Observed, target: KubernetesVersion) -> None:
    if observed.server != target:
        raise Blocked(f"it runs {observed.server}; only a cluster that runs {target} can be finalized")


def _planned(session: Session, observed: Observed, emulated: Minor | None, found: DiscoveredRuns) -> CheckedPlan:
    refuse_unended(found)
    _refuse_other_changes(session, observed, emulated)
    plan = plan_run(session.intended(None), observed, observed.server)
    plan = with_every_step(plan, session.builder.with_bake(session.builder.forward(plan)))
    return CheckedPlan(plan, session.preflight(observed, plan))


@contextmanager
def locked_as_it_runs(
    folder: Path, front_end: FrontEnd, *, take_over: bool
) -> Iterator[tuple[Session, Observed, HeldLock]]:
    """Lock the cluster and look at it: at the version that runs, with the built-in charts alone, as nothing else
    emulates, and playbooks and images are a run's.
    """
    with (
        front_end.busy(),
        open_session(folder) as untold,
        locked_folder(folder),
        cluster_lock(untold, front_end, take_over=take_over) as held,
    ):
        opened = untold.telling(front_end.doing)
        observed = opened.observe()
        yield _built_in(opened.at(observed.server)), observed, held


def _built_in(session: Session) -> Session:
    pipeline = tuple(
        item
        for item in session.settings.pipeline
        if isinstance(item, ReleaseSettings) and item.chart is None and item.name in BUILT_IN_CHARTS
    )
    images = replace(session.settings.images, pull=False)
    return replace(session, settings=replace(session.settings, pipeline=pipeline, images=images))


def _emulated(session: Session, observed: Observed) -> Minor | None:
    """The oldest minor that anything emulates: an interrupted run of this kind has ended it for some components."""
    names = [item.name for item in session.settings.pipeline]
    found = [emulated_in(observed.releases[name].manifest) for name in names]
    return min((minor for minor in (observed.emulated, *found) if minor is not None), default=None)


def refuse_unended(found: DiscoveredRuns, *, without: str = "") -> None:
    """Raise Blocked where the newest upgrade of a cluster's runs has not reached its end.

    `without`: a controller that is dead. One that has failed is at its end then: without that controller, no gate of it
    passes, neither forward nor back. So is one that can't be continued.
    """
    newest = newest_upgrade(found)
    if newest is None or newest.state.over:
        return
    later = built_on(newest, found)
    if without and (later is not None or newest.state.outcome == "failed"):
        return
    if later is not None:
        remedy = (
            f"Start a new run (upgrader run): the earlier one can't be continued, because the changes of {later.name} "
            "build on it. If a controller was left out and is up again, first run `upgrader resume`."
        )
    else:
        remedy = "Complete it with `upgrader resume`, or undo it with `upgrader rollback`."
        if without:
            remedy += f" If that fails because {without} is dead, run the same command again: it continues from there."
    raise Blocked(f"upgrade {newest.name} is not complete ({newest.state.result}); nothing was changed", remedy=remedy)


def _refuse_other_changes(session: Session, observed: Observed, emulated: Minor | None) -> None:
    """Each release is as it was with the emulation, or already as it is without."""
    others = []
    for kept, final in zip(session.intended(emulated), session.intended(None), strict=True):
        assert isinstance(kept, IntendedRelease) and isinstance(final, IntendedRelease)
        name, now = final.spec.name, observed.releases[final.spec.name].manifest
        if emulated is not None and emulated_in(final.manifest) is not None:
            raise Blocked(
                f"release {name} would still emulate {minor_text(emulated)}: its values set the flag "
                "emulated-version themselves; nothing was changed",
                remedy=f"Remove emulated-version from `extraArgs` in the values of release {name}.",
            )
        if object_changes(now, kept.manifest) and object_changes(now, final.manifest):
            others.append(name)
    if others:
        raise Blocked(
            f"`finalize` would change more than the emulated version of release {', '.join(others)}: its values or "
            "chart differ from those of the last run; nothing was changed",
            remedy=f"Apply these changes first, so that they can be rolled back: upgrader run --to {observed.server}",
        )
