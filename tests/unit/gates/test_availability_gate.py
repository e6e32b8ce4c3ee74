"""The gate on what the API's clients saw."""

from __future__ import annotations

import pytest

from upgrader.gates.availability_gate import AvailabilityGate
from upgrader.model.availability import Availability, Failure, Limits, Phase
from upgrader.model.outcome import Verdict, VerdictKind

LIMITS = Limits(max_failed=2, max_gap_seconds=1.5)


def look(seen: Availability | None) -> Verdict:
    """What the gate of the step `a` says."""
    return AvailabilityGate("a", LIMITS, lambda: seen).check()


def counted(failed: int, gap_ms: float, name: str = "a") -> Availability:
    """A hundred requests in a step."""
    failures = (
        Failure("2026-01-01T00:00:00.000Z", "10.0.0.1:6443", "kept HTTP/2", "write PUT /x", "refused", phase="b"),
        Failure("2026-01-01T00:00:01.000Z", "10.0.0.1:6443", "kept HTTP/2", "write PUT /x", "reset", phase=name),
    )
    return Availability(requests=200, failed=50, failures=failures, phases=(Phase(name, 100, failed, failed, gap_ms),))


@pytest.mark.parametrize(("failed", "gap_ms"), [(0, 100.0), (2, 1500.0)])
def test_it_holds_within_the_limits(failed: int, gap_ms: float) -> None:
    """A step may cost as much as its limits say, whatever other steps of the run have cost."""
    assert look(counted(failed, gap_ms)).kind is VerdictKind.HOLDS


@pytest.mark.parametrize(("failed", "gap_ms"), [(3, 100.0), (0, 1500.1)])
def test_a_breach_is_broken(failed: int, gap_ms: float) -> None:
    """One failure or a moment too many is a breach that no waiting mends; it is told with this step's failures."""
    verdict = look(counted(failed, gap_ms))
    assert verdict.kind is VerdictKind.BROKEN and verdict.certain
    assert f"{failed} of 100 requests failed" in verdict.reason
    assert "allowed: 2, and 1.5 s" in verdict.reason
    assert len(verdict.details) == 1
    assert "reset" in verdict.details[0]


def test_a_silent_prober_is_not_a_good_sign() -> None:
    """When nobody counts, it is unknown whether clients fail, and unknown is not healthy."""
    assert look(None).kind is VerdictKind.UNKNOWN


def test_no_answer_yet_is_not_a_good_sign() -> None:
    """A step in which nothing was counted yet has not shown that it disturbs nobody."""
    assert look(counted(0, 0.0, name="b")).kind is VerdictKind.PENDING
