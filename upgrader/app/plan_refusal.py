"""Why a planned run would be refused: what the run itself says, and what a fleet's clusters are compared by."""

from __future__ import annotations

from upgrader.errors import Blocked
from upgrader.preflight.all_checks import blocking
from upgrader.preflight.refusal import refusal
from upgrader.steps.plan_document import PlanDocument

__all__ = ["plan_refusal"]


def plan_refusal(document: PlanDocument, *, seen: bool = False) -> Blocked | None:
    """The error of a plan of which a check forbids the run, or is known to forbid a later hop; None for any other.
    `seen`: the findings are still on the screen.
    """
    blocked = next((hop for hop in document.hops if blocking(hop.findings)), None)
    if blocked is None:
        return None
    later = blocked.target != document.target
    return refusal(
        f"a check blocks the run to {blocked.target}; the cluster stays at {document.current}",
        blocked.findings,
        "Then run this command again."
        + (f" Or upgrade only to {blocked.current}: --to {blocked.current}" if later else ""),
        seen=seen,
    )
