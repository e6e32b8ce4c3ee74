"""`upgrader plan` and `upgrader run`: plan an upgrade, check it, and execute it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from upgrader.app.execution import FinishedRun, execute_run
from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import HeldLock, cluster_lock, locked_folder
from upgrader.app.wiring import Session, open_session
from upgrader.engine.history.past_runs import newest_run, past_runs
from upgrader.engine.history.step_times import usual_seconds
from upgrader.errors import Inhibited
from upgrader.model.finding import Finding
from upgrader.model.plan import Plan
from upgrader.model.plan_document import PlanDocument
from upgrader.model.run_kind import RunKind
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.all_checks import inhibits
from upgrader.preflight.skipping import NO_SKIPS, Skips

__all__ = ["CheckedPlan", "ProposedUpgrade", "plan_upgrade", "propose_upgrade"]


@dataclass(frozen=True)
class CheckedPlan:
    """A plan, and every check's findings on it."""

    plan: Plan
    findings: tuple[Finding, ...]
    usual_seconds: Mapping[str, float] = field(default_factory=dict)
    """How long steps took in earlier runs of the folder, by their names."""

    @property
    def inhibited(self) -> bool:
        """Whether a check forbids the run."""
        return inhibits(self.findings)

    @property
    def document(self) -> PlanDocument:
        """As it is shown."""
        return PlanDocument.of(self.plan, self.findings, self.usual_seconds)

    def refuse_if_blocked(self) -> None:
        """Raise Inhibited where a check forbids the run."""
        if self.inhibited:
            raise Inhibited(
                "a check blocks the run; nothing was changed",
                remedy="Fix the checks marked error or unknown, then run this command again.",
            )


@dataclass(frozen=True)
class ProposedUpgrade:
    """A checked plan, with the cluster locked: it is executed as it is, or not at all."""

    checked: CheckedPlan
    session: Session
    front_end: FrontEnd
    held: HeldLock

    def execute(self) -> FinishedRun:
        """Run it to its end. Raises Inhibited where a check forbids it."""
        plan, session = self.checked.plan, self.session
        self.checked.refuse_if_blocked()
        health_before = session.read_health_before()
        pipeline = session.builder.since(health_before).forward(plan)
        return execute_run(
            session,
            self.front_end,
            pipeline,
            kind=RunKind.UPGRADE,
            plan=plan,
            health_before=health_before,
            findings=self.checked.findings,
            held=self.held,
        )


def plan_upgrade(folder: Path, target: KubernetesVersion | None, skips: Skips = NO_SKIPS) -> CheckedPlan:
    """What an upgrade would change, and what the checks find. Changes nothing. `target` None means the file's."""
    with open_session(folder, target) as session:
        return _checked(session, skips)


@contextmanager
def propose_upgrade(
    folder: Path,
    target: KubernetesVersion | None,
    front_end: FrontEnd,
    *,
    take_over: bool,
    skips: Skips = NO_SKIPS,
) -> Iterator[ProposedUpgrade]:
    """Lock the cluster, plan and check. Raises Locked where another process works on the cluster."""
    with (
        open_session(folder, target) as session,
        locked_folder(folder),
        cluster_lock(session, front_end, take_over=take_over) as held,
    ):
        _mention_interrupted(folder, front_end)
        yield ProposedUpgrade(_checked(session, skips), session, front_end, held)


def _checked(session: Session, skips: Skips) -> CheckedPlan:
    observed = session.observe()
    plan = session.plan(observed)
    usual = usual_seconds(run.state for run in past_runs(session.settings.folder / "runs"))
    return CheckedPlan(plan, skips.apply(session.preflight(observed, plan)), usual)


def _mention_interrupted(folder: Path, front_end: FrontEnd) -> None:
    """A resumed run and a new one roll back to different states."""
    newest = newest_run(folder / "runs")
    if newest and newest.outcome == "interrupted" and newest.state.is_upgrade:
        front_end.notify(
            f"Run {newest.name} was interrupted. `upgrader resume` continues it, and can roll back to the state before "
            "it; this starts a new run, which rolls back to the cluster as it is now."
        )
