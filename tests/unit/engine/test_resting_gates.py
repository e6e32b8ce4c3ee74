"""On a large cluster, gates that hold rest while another one is waited for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from testkit.fakes.clock import FakeClock
from tests.unit.engine.conftest import Bench
from upgrader.engine.execution.gatekeeper import hold_all
from upgrader.errors import GateFailed
from upgrader.gates.api_absence import ApiAbsence
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.outcome import Verdict, broken, holds, pending, unknown
from upgrader.pipeline import GateRun

LARGE = GatePolicy(consecutive=3, interval_seconds=1.0, deadline_seconds=120.0).at_scale(1_000)


@dataclass
class TimedGate:
    """A gate whose verdict depends on the time; it notes when it was checked."""

    name: str
    clock: FakeClock
    says: Callable[[float], Verdict]
    asked: list[float] = field(default_factory=list)

    def check(self) -> Verdict:
        now = self.clock.monotonic()
        self.asked.append(round(now, 1))
        return self.says(now)


def until(seconds: float, verdict: Verdict) -> Callable[[float], Verdict]:
    """This verdict, and `holds` from then on."""
    return lambda now: verdict if now < seconds else holds("up")


def hold(bench: Bench, *gates: tuple[TimedGate, GatePolicy]) -> None:
    """Check these gates, each by its policy."""
    absence = ApiAbsence(bench.kube, bench.clock, 600.0, LARGE.recheck_seconds)
    runs = tuple(GateRun(gate, policy) for gate, policy in gates)
    hold_all("step", runs, clock=bench.clock, reporter=bench.recorder, absence=absence)


def test_gate_that_holds_is_asked_in_every_third_round_and_in_all_that_decide(bench: Bench) -> None:
    """It is checked three times beside the one that was waited for, none of them before that one held.

    So no pass is older than the state it judges, and nothing takes longer than if it had been checked all the time.
    """
    slow = TimedGate("slow", bench.clock, until(29.0, pending("an old pod is still terminating")))
    well = TimedGate("well", bench.clock, lambda _: holds("up"))
    hold(bench, (slow, LARGE), (well, LARGE))
    deciding = [time for time in slow.asked if time >= 29.0]
    assert len(deciding) == 3
    assert well.asked[-3:] == deciding
    assert well.asked[:-3] == [0.0, 10.0, 20.0]
    assert len(slow.asked) == 12


def test_fault_of_a_gate_that_rests_is_found_and_then_asked_for_in_each_round(bench: Bench) -> None:
    """Once a gate doesn't hold any more it has no rest: broken three times in a row, it fails the step."""
    slow = TimedGate("slow", bench.clock, lambda _: pending("starting"))
    other = TimedGate("other", bench.clock, lambda now: broken("crashes") if now >= 12.0 else holds("up"))
    with pytest.raises(GateFailed, match="crashes"):
        hold(bench, (slow, LARGE), (other, LARGE))
    assert other.asked == [0.0, 10.0, 20.0, 23.3, 26.7]


@pytest.mark.parametrize("verdict", [broken("refused"), unknown("no answer")])
def test_nothing_rests_beside_what_is_broken_or_unknown(bench: Bench, verdict: Verdict) -> None:
    """One fault may show in several gates: all are asked at once, and all in the round after it has passed."""
    once = TimedGate(
        "once", bench.clock, lambda now: verdict if 3.0 < now < 4.0 else until(8.0, pending("starts"))(now)
    )
    well = TimedGate("well", bench.clock, lambda _: holds("up"))
    hold(bench, (once, LARGE), (well, LARGE))
    assert well.asked[:2] == [0.0, 3.3]


def test_gate_that_needs_more_checks_than_the_awaited_one_does_not_rest(bench: Bench) -> None:
    """It counts anew after a rest, which would take longer than what is waited for."""
    once = TimedGate("once", bench.clock, until(20.0, pending("its pod starts")))
    well = TimedGate("well", bench.clock, lambda _: holds("up"))
    hold(bench, (once, GatePolicy(1, 1.0, 120.0).at_scale(1_000)), (well, LARGE))
    assert well.asked == once.asked
    assert once.asked[-1] < 24.0


def test_nothing_rests_in_the_second_half_of_its_time(bench: Bench) -> None:
    """What is awaited may come just before the deadline: whoever counted anew then would miss it."""
    slow = TimedGate("slow", bench.clock, until(112.0, pending("starting")))
    well = TimedGate("well", bench.clock, lambda _: holds("up"))
    hold(bench, (slow, LARGE), (well, LARGE))
    assert [time for time in well.asked if time > 60.0] == [time for time in slow.asked if time > 60.0]


@pytest.mark.parametrize(("nodes", "rest"), [(3, 0.0), (300, 0.0), (600, 5.0), (1_000, 8.33), (5_000, 12.5)])
def test_no_gate_rests_on_a_cluster_of_ordinary_size(nodes: int, rest: float) -> None:
    """Up to 300 nodes, every round asks everything; beyond, a rest is two of three rounds."""
    assert GatePolicy().at_scale(nodes).recheck_seconds == pytest.approx(rest, abs=0.01)
