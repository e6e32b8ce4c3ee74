"""The operator of an upgrade at the command line: sees each hop's plan, and confirms before the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from upgrader.cli.command_line import mention_needless
from upgrader.cli.notices import say
from upgrader.cli.questions import START, conclude, confirm
from upgrader.model.check_ids import LEFT_OUT_ID
from upgrader.model.skips import NO_SKIPS, Skips
from upgrader.model.version import KubernetesVersion

if TYPE_CHECKING:
    from upgrader.app.execution import FinishedRun
    from upgrader.app.upgrade import CheckedPlan
    from upgrader.model.finding import Finding

__all__ = ["Operator"]


@dataclass
class Operator:
    """The person, or the job, at the command line: sees each hop's plan, and is asked before the first."""

    yes: bool
    skips: Skips = NO_SKIPS
    pause_seconds: float = 0.0
    started: bool = False
    reached: KubernetesVersion | None = None
    """The target of the last hop that has succeeded."""
    left_out: tuple[Finding, ...] = ()
    """The findings on controllers that the last hop leaves out."""

    def approve(self, checked: CheckedPlan, *, foreseen: bool) -> None:
        """Show the plan; ask before the first hop, and before one that differs from what was shown of it."""
        from upgrader.cli.events_option import event_stream
        from upgrader.cli.ui.findings import on_screen
        from upgrader.cli.ui.plan import print_plan

        self.left_out = tuple(finding for finding in checked.findings if finding.id == LEFT_OUT_ID)
        if not self.started:
            mention_needless(self.skips, checked.all_findings)
        document = checked.document
        print_plan(document, diff=False)
        # A stream of events ends with the error, which is all that its reader has.
        seen = event_stream() is None and not checked.ahead and on_screen(checked.findings)
        checked.refuse_if_blocked(seen=seen)
        if not self.started:
            confirm(START if document.to_do else "Nothing would change. Only check all gates?", yes=self.yes)
        elif not foreseen:
            target = checked.plan.target
            say(f"The plan to {target} differs from the one shown at the start: the cluster or its folder has changed.")
            confirm("Go on?", yes=self.yes)
        self.started = True

    def ended(self, finished: FinishedRun) -> None:
        """Print the run's report, and raise its error."""
        conclude(finished)
        self.reached = finished.state.target

    def pause(self, checked: CheckedPlan) -> None:
        """Wait as long as was asked for."""
        from upgrader.app.wiring import system_clock
        from upgrader.cli.ui.terminal import duration

        upcoming = f"next: {checked.ahead[0].plan.target}, on the way to {checked.goal}"
        if not self.pause_seconds:
            say(f"{checked.plan.target} is done; {upcoming}")
            return
        say(
            f"{checked.plan.target} is done; {upcoming}, in {duration(self.pause_seconds)} (--pause-between). Ctrl-C "
            "stops here; run the same command to continue later."
        )
        system_clock().sleep(self.pause_seconds)
