"""What the page, the calendar and the terminal say of waits and times, in the same words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from upgrader.fleet.decide import Decision, Wait
from upgrader.fleet.state import ClusterState
from upgrader.model.first_few import first_few
from upgrader.model.natural_order import in_natural_order

__all__ = ["awaited", "detail", "first_line", "minute", "soaking", "some", "until", "waiting"]


def minute(time: datetime) -> str:
    """A time in UTC: `2026-12-01 22:00Z`."""
    return f"{time:%Y-%m-%d %H:%M}Z"


def until(wait: Wait) -> str:
    """`, until 2026-12-01 22:00Z`; "" where no time is known."""
    return f", until {minute(wait.until)}" if wait.until else ""


def waiting(wait: Wait, waits: str = "waits") -> str:
    """`waits for its window, until 2026-12-01 22:00Z`; `soaking until 2026-12-02 03:00Z`."""
    return soaking(wait) or f"{wait.said(waits)}{until(wait)}"


def soaking(wait: Wait) -> str:
    """`soaking until 2026-12-02 03:00Z`, with the gate that doesn't pass; "" for any other wait."""
    if wait.gate is None or wait.until is None:
        return ""
    return f"soaking until {minute(wait.until)}" + (f"; {wait.gate}" if wait.gate else "")


def awaited(wait: Wait) -> str:
    """What is waited for, without its time: `its window`; `the end of its soak`."""
    return f"the end of its {wait.reason}" if soaking(wait) else wait.reason


def some(names: Iterable[str]) -> str:
    """The first few of these clusters, as they are listed for people: `eu-1, eu-2, eu-10 and 7 more`."""
    return first_few(in_natural_order(names))


def first_line(text: str) -> str:
    """What a reason begins with."""
    return text.partition("\n")[0]


def detail(each: ClusterState, decision: Decision) -> str:
    """What a cluster waits for, or why it is where it is; "" where its phase says all."""
    wait = decision.waits.get(each.name)
    if wait is not None:
        return waiting(wait)
    if each.phase == "running" and each.since is not None:
        return f"since {minute(each.since)}"
    if any(start.cluster == each.name for start in decision.starts):
        return "next to be resumed" if each.unended else "next to begin"
    return "" if each.phase in ("waiting", "succeeded") else first_line(each.reason)
