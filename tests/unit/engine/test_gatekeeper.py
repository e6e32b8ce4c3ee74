"""Gates held together."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.engine.conftest import Bench, ScriptedGate
from upgrader.engine.gatekeeper import hold_all
from upgrader.errors import GateFailed
from upgrader.model.event import GatePassed
from upgrader.model.outcome import Verdict, holds, pending
from upgrader.pipeline import GateRun


def hold(bench: Bench, *gates: ScriptedGate) -> None:
    """Hold these gates: three looks in a row, one second apart, within ten seconds."""
    runs = tuple(GateRun(gate, needed=3, interval_seconds=1.0, deadline_seconds=10.0) for gate in gates)
    hold_all("step", runs, clock=bench.clock, reporter=bench.recorder)


def test_gates_are_held_at_the_same_time(bench: Bench) -> None:
    """Three gates that all hold cost as much time as one."""
    hold(bench, ScriptedGate("a"), ScriptedGate("b"), ScriptedGate("c"))
    assert bench.clock.monotonic() == 2.0


def test_gate_that_stops_holding_while_another_is_waited_for_counts_anew(bench: Bench) -> None:
    """What must be healthy must be healthy together: an early gate that breaks later isn't forgotten."""

    def flapping() -> Iterator[Verdict]:
        yield from (holds("up"),) * 4
        yield from (pending("down"),) * 2
        yield from (holds("up"),) * 3

    slow = ScriptedGate("slow", iter([pending("starting")] * 3), holds("up"))
    slow.last = pending("starting")
    slow.verdicts = iter([pending("starting")] * 2 + [holds("up")] * 20)
    hold(bench, ScriptedGate("flapping", flapping()), slow)
    assert bench.clock.monotonic() == 8.0
    passed = [event.gate for event in bench.recorder.events if isinstance(event, GatePassed)]
    assert passed == ["flapping", "slow", "flapping"]


def test_gate_that_lost_its_hold_can_still_fail(bench: Bench) -> None:
    """A gate that held once and then doesn't any more fails at its deadline, as if it never had."""
    once = ScriptedGate("once", iter([holds("up")] * 3), pending("down"))
    once.verdicts = iter([holds("up")] * 3 + [pending("down")] * 20)
    never = ScriptedGate("never", last=pending("starting"))
    with pytest.raises(GateFailed):
        hold(bench, never, once)


def test_no_gates_is_no_wait(bench: Bench) -> None:
    """A step without gates passes at once."""
    hold(bench)
    assert bench.clock.monotonic() == 0.0
