"""`upgrader migrate-storage`: store every object as the version that runs now stores it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from upgrader.app.execution import FinishedRun, NewRun, execute_run
from upgrader.app.finalize import locked_as_it_runs, refuse_unended
from upgrader.app.front_end import FrontEnd
from upgrader.app.locking import HeldLock
from upgrader.app.wiring import Session
from upgrader.errors import Blocked
from upgrader.model.emulation import minor_text
from upgrader.model.observed import Observed
from upgrader.model.run_kind import RunKind
from upgrader.pipeline import Pipeline, PipelineStep
from upgrader.steps.intended import plan_run
from upgrader.steps.migrate_storage import MigrateStorageStep
from upgrader.steps.plan import Plan

__all__ = ["ProposedMigration", "propose_migration"]


@dataclass(frozen=True)
class ProposedMigration:
    """A control plane that is as upgrader.yaml has it, and emulates nothing; the cluster is locked."""

    plan: Plan
    session: Session
    front_end: FrontEnd
    held: HeldLock

    def execute(self) -> FinishedRun:
        """Run it to its end. What fails is left as it is: an older minor may not read what is written by then."""
        session = self.session
        health_before = session.read_health_before()
        verified = session.builder.since(health_before).forward(self.plan)
        step = MigrateStorageStep(session.tools.kube, session.tools.clock)
        migration = PipelineStep(step, verified.gates, (), watched=lambda check: replace(step, check=check))
        return execute_run(
            session,
            self.front_end,
            NewRun(
                RunKind.MIGRATE_STORAGE,
                Pipeline((*verified.steps, migration)),
                on_failure="stop",
                plan=self.plan,
                health_before=health_before,
            ),
            held=self.held,
        )


@contextmanager
def propose_migration(folder: Path, front_end: FrontEnd, *, take_over: bool) -> Iterator[ProposedMigration]:
    """Lock the cluster and look at it. Changes nothing.

    Raises Blocked where the control plane emulates an older minor, an upgrade has not reached its end, or a release
    is not what upgrader.yaml has at the version that runs.
    """
    with locked_as_it_runs(folder, front_end, take_over=take_over) as (session, observed, held):
        _refuse_emulation(observed)
        refuse_unended(session.find_runs())
        plan = plan_run(session.intended(None), observed, observed.server)
        _refuse_changes(plan)
        front_end.doing("")
        yield ProposedMigration(plan, session, front_end, held)


def _refuse_emulation(observed: Observed) -> None:
    if observed.emulated is not None:
        raise Blocked(
            f"the control plane emulates {minor_text(observed.emulated)}, and stores objects in the versions of that "
            "minor; nothing was changed",
            remedy="Run `upgrader finalize` first.",
        )


def _refuse_changes(plan: Plan) -> None:
    others = [step.name for step in plan.steps if step.action != "unchanged"]
    if others:
        raise Blocked(
            f"release {', '.join(others)} differs from what upgrader.yaml says for {plan.target}, so the storage "
            "versions are uncertain; nothing was changed",
            remedy=f"Complete the upgrade first: upgrader run --to {plan.target}",
        )
