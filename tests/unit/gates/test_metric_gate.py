"""The gate of a metric passes on what Prometheus says for a whole window, and on nothing else."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.prometheus import FakePrometheus
from upgrader.gates.metric_gate import MetricGate
from upgrader.model.gate_settings import GatePolicy, MetricGateSettings
from upgrader.model.outcome import Verdict, VerdictKind

QUERY = "sum(rate(errors[1m]))"
SETTINGS = MetricGateSettings("errors", QUERY, GatePolicy(1, 5.0, 180.0), maximum=0.5, window_seconds=60.0)


class World:
    """A Prometheus, a clock, and the gate of one wait."""

    def __init__(self, value: float = 0.1, settings: MetricGateSettings = SETTINGS) -> None:
        self.prometheus = FakePrometheus({QUERY: (({}, value),)})
        self.clock = FakeClock()
        self.gate = MetricGate(self.prometheus, self.clock, settings)

    def set(self, *values: float) -> None:
        """One series for each value from now on."""
        self.prometheus.series[QUERY] = tuple(({"pod": f"p{n}"}, value) for n, value in enumerate(values))

    def after(self, seconds: float) -> Verdict:
        """A check so much later."""
        self.clock.sleep(seconds)
        return self.gate.check()


def test_holds_after_a_whole_window() -> None:
    """It waits until the window lies behind the change, and says what the value is and may be."""
    world = World()
    first = world.after(0)
    assert first.kind is VerdictKind.PENDING and "for 0 of 60 s" in first.reason
    assert world.after(30).kind is VerdictKind.PENDING
    held = world.after(30)
    assert held.kind is VerdictKind.HOLDS
    assert held.reason == f"`{QUERY}` is 0.1, allowed: at most 0.5"


def test_asks_for_nothing_before_the_change() -> None:
    """The window grows with the time since the change: what was before it says nothing about it."""
    world = World()
    for seconds in (0, 10, 10, 40, 100):
        world.after(seconds)
    assert [points * step for _, points, step in world.prometheus.asked] == [2, 10, 20, 60, 60]


def test_outside_the_limits() -> None:
    """The verdict names query, value, limit and what to do; it may still pass, so its deadline decides."""
    world = World(0.7)
    verdict = world.after(0)
    assert verdict.kind is VerdictKind.PENDING
    assert verdict.reason == f"`{QUERY}` was 0.7 in the last 60 s, allowed: at most 0.5"
    assert "`deadline`" in verdict.remedy
    world.set(0.5)
    assert world.after(60).kind is VerdictKind.HOLDS


def test_both_limits() -> None:
    """A minimum counts as well as a maximum, and both are allowed values themselves."""
    settings = replace(SETTINGS, minimum=0.2, maximum=0.4, window_seconds=1.0)
    kinds = []
    for value in (0.1, 0.2, 0.4, 0.5):
        world = World(value, settings)
        world.after(0)
        kinds.append(world.after(5).kind)
    assert kinds == [VerdictKind.PENDING, VerdictKind.HOLDS, VerdictKind.HOLDS, VerdictKind.PENDING]
    assert "allowed: at least 0.2 and at most 0.4" in World(0.1, settings).after(0).reason


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((), "the query returned no series"),
        ((nan,), "the value nan"),
        ((inf,), "the value inf"),
        ((-inf,), "the value -inf"),
        ((0.1, 0.1), "2 series instead of one"),
    ],
)
def test_no_number_is_unknown(values: tuple[float, ...], said: str) -> None:
    """What can't be compared is unknown, however long the window was fine before."""
    world = World()
    world.after(0)
    assert world.after(60).kind is VerdictKind.HOLDS
    world.set(*values)
    verdict = world.after(5)
    assert verdict.kind is VerdictKind.UNKNOWN
    assert said in verdict.reason and QUERY in verdict.reason and "at most 0.5" in verdict.reason and verdict.remedy


def test_lost_data_is_unknown() -> None:
    """A Prometheus that starts anew has a shorter past than the window: it passes once that is complete again."""
    world = World()
    world.after(0)
    world.prometheus.lost = 3
    verdict = world.after(60)
    assert (verdict.kind, verdict.reason.endswith("only 3 of 30 values since the step's change")) == (
        VerdictKind.UNKNOWN,
        True,
    )
    world.prometheus.lost = None
    assert world.after(5).kind is VerdictKind.HOLDS


@pytest.mark.parametrize("why", ["no answer within 5 s", "it refused the query: parse error"])
def test_no_answer_is_unknown(why: str) -> None:
    """A server that is slow, gone or refuses never passes, and says why."""
    world = World()
    world.after(0)
    world.prometheus.refused = why
    verdict = world.after(60)
    assert (
        verdict.kind is VerdictKind.UNKNOWN
        and why in verdict.reason
        and "Check that Prometheus is up" in verdict.remedy
    )


def test_is_asked_once_an_interval() -> None:
    """Other gates are checked every second; the server is asked as its own interval says."""
    world = World()
    for _ in range(11):
        world.after(1)
    assert len(world.prometheus.asked) == 3


def test_many_series_are_named() -> None:
    """The first few tell the operator by which label to aggregate."""
    world = World()
    world.set(*[0.1] * 5)
    assert world.after(0).details == ('{pod="p0"}', '{pod="p1"}', '{pod="p2"}')


def test_long_labels_are_cut() -> None:
    """A server's megabytes of labels aren't journaled with each of its answers."""
    world = World()
    world.prometheus.series[QUERY] = (({"a": "x" * 1_000_000}, 0.1), ({"a": "y"}, 0.1))
    long, short = world.after(0).details
    assert len(long) < 400 and long.endswith("x …}") and short == '{a="y"}'
