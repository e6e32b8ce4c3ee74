"""A controller that is down, at the command line: left out before an upgrade, and taken back by `upgrader resume`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from upgrader.cli.notices import say
from upgrader.cli.questions import start

if TYPE_CHECKING:
    from upgrader.app.front_end import FrontEnd
    from upgrader.app.left_out import ProposedChange, WantedUpgrade

__all__ = ["leave_out", "take_back"]


def leave_out(folder: Path, wanted: WantedUpgrade, shown: FrontEnd, *, yes: bool, take_over: bool) -> bool:
    """Leave out the controller that is down, where upgrader.yaml allows it and the upgrade needs it; whether it did."""
    from upgrader.app.left_out import propose_leaving_out

    with propose_leaving_out(folder, wanted, shown, take_over=take_over) as proposed:
        if proposed is None:
            return False
        name = proposed.host.name
        say(
            f"Controller {name} is down. First, it is left out of runs (policy.degraded: allow); then the upgrade "
            "starts."
        )
        if proposed.ends_rehearsal:
            say(
                f"policy.rehearsal requires a rehearsal without {name}: once {name} is left out, run `upgrader "
                "rehearse` for the same version, then this command again."
            )
        _carry_out(proposed, f"Leave {name} out?", yes=yes)
    return True


def take_back(folder: Path, shown: FrontEnd, *, yes: bool, take_over: bool) -> bool:
    """Give the controller that was left out its turn; whether there is one, and no interrupted upgrade before it."""
    from upgrader.app.left_out import propose_return

    with propose_return(folder, shown, take_over=take_over) as proposed:
        if proposed is None:
            return False
        name = proposed.host.name
        say(f"Controller {name} was left out of runs, and is back.")
        _carry_out(proposed, f"Upgrade {name} to the version of the other controllers?", yes=yes)
    return True


def _carry_out(proposed: ProposedChange, question: str, *, yes: bool) -> None:
    from upgrader.cli.ui.proposed_steps import print_steps

    print_steps(proposed.pipeline, proposed.findings)
    proposed.check_allowed()
    start(proposed, question=question, yes=yes)
