"""What the page, the calendar and the terminal say of waits and times, in the same words."""

from __future__ import annotations

from datetime import datetime

from upgrader.fleet.decide import Decision, Wait
from upgrader.fleet.state import ClusterState

__all__ = ["detail", "first_line", "minute", "until"]


def minute(time: datetime) -> str:
    """A time in UTC: `2026-12-01 22:00Z`."""
    return f"{time:%Y-%m-%d %H:%M}Z"


def until(wait: Wait) -> str:
    """`, until 2026-12-01 22:00Z`; "" where no time is known."""
    return f", until {minute(wait.until)}" if wait.until else ""


def first_line(text: str) -> str:
    """What a reason begins with."""
    return text.partition("\n")[0]


def detail(each: ClusterState, decision: Decision) -> str:
    """What a cluster waits for, or why it is where it is; "" where its phase says all."""
    wait = decision.waits.get(each.name)
    if wait is not None:
        return f"{wait.said('waits')}{until(wait)}"
    if each.phase == "running" and each.since is not None:
        return f"since {minute(each.since)}"
    if any(start.cluster == each.name for start in decision.starts):
        return "next to be resumed" if each.unended else "next to begin"
    return "" if each.phase in ("waiting", "succeeded") else first_line(each.reason)
