"""Gates that are checked together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import nan

import pytest

from testkit.fakes.prometheus import FakePrometheus
from tests.unit.engine.conftest import Bench, ScriptedGate, run
from upgrader.engine.execution.gatekeeper import hold_all
from upgrader.errors import ApiLost, GateFailed
from upgrader.gates.api_absence import ApiAbsence
from upgrader.gates.metric_gate import MetricGate
from upgrader.model.event import GatePassed
from upgrader.model.gate_settings import GatePolicy, MetricGateSettings
from upgrader.model.outcome import Verdict, VerdictKind, broken, holds, pending, unknown
from upgrader.pipeline import GateRun


def hold(bench: Bench, *gates: ScriptedGate, deadline_seconds: float = 10.0) -> None:
    """Check these gates: three times in a row, one second apart; the API is lost after five seconds."""
    policy = GatePolicy(consecutive=3, interval_seconds=1.0, deadline_seconds=deadline_seconds)
    runs = tuple(GateRun(gate, policy) for gate in gates)
    absence = ApiAbsence(bench.kube, bench.clock, 5.0)
    hold_all("step", runs, clock=bench.clock, reporter=bench.recorder, absence=absence)


def test_gates_are_held_at_the_same_time(bench: Bench) -> None:
    """Three gates that all hold cost as much time as one."""
    hold(bench, ScriptedGate("a"), ScriptedGate("b"), ScriptedGate("c"))
    assert bench.clock.monotonic() == 2.0


def test_gate_that_stops_holding_while_another_is_waited_for_counts_anew(bench: Bench) -> None:
    """All gates must hold at the same time: an early gate that breaks later isn't forgotten."""

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


@pytest.mark.parametrize("answer", [unknown("no answer within 10 s"), pending("1 of 3"), holds("fine, in the end")])
def test_gate_that_asks_nothing_is_not_kept_waiting_by_slow_answers(bench: Bench, answer: Verdict) -> None:
    """While the API doesn't answer, or is slow, a round takes minutes: a failure that is final ends it at once."""

    def timeouts() -> Iterator[Verdict]:
        while True:
            bench.clock.sleep(10.0)
            yield answer

    class Counted:
        name = "availability"

        def check(self) -> Verdict:
            failed = int(bench.clock.monotonic()) * 5
            breach = replace(broken(f"{failed} requests failed"), certain=True)
            return breach if failed > 100 else holds("fine")

    asking = [ScriptedGate(name, timeouts()) for name in "abcdef"]
    policy = GatePolicy(consecutive=3, interval_seconds=1.0, deadline_seconds=120.0)
    runs = (*(GateRun(gate, policy) for gate in asking), GateRun(Counted(), policy, asks_nothing=True))
    absence = ApiAbsence(bench.kube, bench.clock, 1000.0)
    with pytest.raises(GateFailed, match="gate availability failed after 30 s: 150 requests failed"):
        hold_all("step", runs, clock=bench.clock, reporter=bench.recorder, absence=absence)


def test_rounds_that_ask_much_are_rarer_until_something_is_wrong(bench: Bench) -> None:
    """Three requests a second, behind the first sixty; what looks broken is decided as quickly as ever."""
    times = list[float]()

    def costly() -> Iterator[Verdict]:
        while True:
            times.append(bench.clock.monotonic())
            yield pending("starting") if len(times) < 12 else broken("crashed")

    gate = GateRun(ScriptedGate("web", costly()), GatePolicy(consecutive=3, interval_seconds=1.0, deadline_seconds=120))
    step = replace(bench.step("a"), gates=(gate,))
    result = run(bench.runner(asked=lambda: 15 * len(times)), step, on_failure="stop")
    assert "failed after" in result.reason
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses == [pytest.approx(each) for each in (*[1.0] * 5, *[5.0] * 6, 1.0, 1.0)]


@pytest.mark.parametrize("passes", [True, False])
def test_rarer_rounds_take_no_time_from_the_deadline(bench: Bench, passes: bool) -> None:
    """What recovers just in time for three checks passes, however many requests a round has; later, it is too late."""
    times = list[float]()
    recovers = 118.0 if passes else 118.5

    def costly() -> Iterator[Verdict]:
        while True:
            times.append(bench.clock.monotonic())
            yield holds("up") if times[-1] >= recovers else pending("starting")

    gate = GateRun(ScriptedGate("web", costly()), GatePolicy(consecutive=3, interval_seconds=1.0, deadline_seconds=120))
    step = replace(bench.step("a"), gates=(gate,))
    result = run(bench.runner(asked=lambda: 120 * len(times)), step, on_failure="stop")
    assert (result.outcome == "succeeded") is passes
    assert len(times) < 20, "it was asked rarely before"


def test_rarer_rounds_miss_no_check_that_decides(bench: Bench) -> None:
    """Where a gate says when its next check decides, that one isn't put off, however many requests a round has."""
    times = list[float]()

    def costly() -> Iterator[Verdict]:
        while True:
            times.append(bench.clock.monotonic())
            yield broken("it has ended") if times[-1] >= 31.5 else replace(pending("it restarts"), again_at=31.5)

    gate = GateRun(ScriptedGate("web", costly()), GatePolicy(consecutive=3, interval_seconds=1.0, deadline_seconds=120))
    step = replace(bench.step("a"), gates=(gate,))
    result = run(bench.runner(asked=lambda: 33 * len(times)), step, on_failure="stop")
    assert "it has ended" in result.reason
    assert times[-3:] == [31.5, 32.5, 33.5] and len(times) < 10


def test_gates_of_an_undo_are_asked_as_often_as_ever(bench: Bench) -> None:
    """There, what is wrong waits, as what was undone may answer for a while: nothing says that it is about to end."""
    times = list[float]()

    def costly() -> Iterator[Verdict]:
        while True:
            times.append(bench.clock.monotonic())
            yield holds("up") if len(times) > 20 else pending("refused")

    again = GateRun(
        ScriptedGate("web", costly()), GatePolicy(consecutive=3, interval_seconds=1.0, deadline_seconds=120)
    )
    step = replace(bench.step("a", ScriptedGate("g", last=broken("crashed"))), undo_gates=(again,))
    assert run(bench.runner(asked=lambda: 120 * len(times)), step).outcome == "rolled-back"
    assert {later - earlier for earlier, later in pairwise(times)} == {1.0}


def test_slow_rounds_are_followed_by_a_short_pause(bench: Bench) -> None:
    """With five seconds between checks, of which four are spent on one, three checks take eleven seconds more."""
    asked = list[float]()

    def slow() -> Iterator[Verdict]:
        while True:
            asked.append(bench.clock.monotonic())
            bench.clock.sleep(4.5)
            yield holds("up")

    policy = GatePolicy(consecutive=3, interval_seconds=5.0, deadline_seconds=60.0)
    absence = ApiAbsence(bench.kube, bench.clock, 5.0)
    runs = (GateRun(ScriptedGate("slow", slow()), policy),)
    hold_all("step", runs, clock=bench.clock, reporter=bench.recorder, absence=absence)
    assert asked == [0.0, 5.5, 11.0]


def test_what_is_certain_fails_at_once(bench: Bench) -> None:
    """What earlier checks have already proven isn't asked again; what only waits for it is, as behind an undo."""
    ended = replace(broken("it has ended"), certain=True)
    waits = replace(ended, kind=VerdictKind.PENDING)
    with pytest.raises(GateFailed, match="failed after 2 s: it has ended"):
        hold(bench, ScriptedGate("web", iter([waits, waits, ended])))
    assert bench.clock.monotonic() == 2.0


def test_gate_that_lost_its_hold_can_still_fail(bench: Bench) -> None:
    """A gate that held once and then stops holding fails at its deadline, as if it never had."""
    once = ScriptedGate("once", iter([holds("up")] * 3), pending("down"))
    once.verdicts = iter([holds("up")] * 3 + [pending("down")] * 20)
    never = ScriptedGate("never", last=pending("starting"))
    with pytest.raises(GateFailed):
        hold(bench, never, once)


def test_no_gates_is_no_wait(bench: Bench) -> None:
    """A step without gates passes at once."""
    hold(bench)
    assert bench.clock.monotonic() == 0.0


def test_gates_that_have_nobody_to_ask_give_up_before_their_deadline(bench: Bench) -> None:
    """With the API unreachable for too long, the gates can't be checked any more, and the error says so."""
    bench.kube.unavailable = True
    with pytest.raises(ApiLost, match=r"has not been ready for 5 s.*Connection refused"):
        hold(bench, ScriptedGate("nodes", last=unknown("the API does not answer")))
    assert bench.clock.monotonic() == 5.0


def test_gate_that_cannot_know_while_the_api_answers_has_its_whole_deadline(bench: Bench) -> None:
    """A verdict that is unknown for another reason is waited for like any other."""
    with pytest.raises(GateFailed, match="within 10 s"):
        hold(bench, ScriptedGate("metrics", last=unknown("Prometheus does not answer")))


def test_api_that_comes_back_in_between_is_not_lost(bench: Bench) -> None:
    """Only an uninterrupted outage counts: two short ones don't add up."""
    away, back = unknown("the API does not answer"), pending("starting")
    gate = ScriptedGate("g", iter([away] * 4 + [back] + [away] * 4 + [holds("up")] * 3))
    bench.kube.unavailable = True
    hold(bench, gate, deadline_seconds=20.0)


@pytest.mark.parametrize(
    "verdict", [pending("p", remedy="wait"), broken("b", remedy="fix"), unknown("u", remedy="ask")]
)
def test_failed_gate_has_the_remedy_of_its_last_verdict(bench: Bench, verdict: Verdict) -> None:
    """The gate that failed names the remedy, whichever way it failed."""
    with pytest.raises(GateFailed) as caught:
        hold(bench, ScriptedGate("g", last=verdict))
    assert caught.value.remedy == verdict.remedy


def test_gate_that_holds_too_late_asks_for_a_longer_deadline(bench: Bench) -> None:
    """With the last check successful there is nothing to fix, but perhaps the deadline is too short."""
    with pytest.raises(GateFailed) as caught:
        hold(bench, ScriptedGate("g", iter([*[pending("starting")] * 9, holds("up"), holds("up")])))
    assert "gates.deadline" in caught.value.remedy


def test_remedy_of_a_failed_gate_is_that_of_the_run(bench: Bench) -> None:
    """The gate's remedy is what the operator reads at the end of a run that was rolled back."""
    result = run(bench.runner(), bench.step("a", ScriptedGate("g", last=pending("no node", remedy="add a node"))))
    assert (result.outcome, result.remedy) == ("rolled-back", "add a node")


@pytest.mark.parametrize("verdict", [pending("p"), broken("b"), unknown("u")])
def test_no_verdict_but_a_good_one_is_without_a_remedy(verdict: Verdict) -> None:
    """A gate without a remedy gets the one of the verdict's kind."""
    assert verdict.remedy


@pytest.mark.parametrize(
    ("prometheus", "said"),
    [
        (FakePrometheus(lost=0), "no series"),
        (FakePrometheus({"sum(e)": (({}, nan),)}), "the value nan"),
        (FakePrometheus(refused="no answer within 5 s"), "no answer within 5 s"),
        (FakePrometheus({"sum(e)": (({}, 7.0),)}), "was 7 in the last 60 s"),
    ],
    ids=["lost its data", "says NaN", "answers slowly", "outside the limits"],
)
def test_metric_that_never_gets_well(bench: Bench, prometheus: FakePrometheus, said: str) -> None:
    """The step fails at the gate's deadline, with the query, the limit and what was last seen; so it is rolled back."""
    gate = MetricGateSettings("errors", "sum(e)", GatePolicy(1, 5.0, 180.0), maximum=1.0)
    make = partial(MetricGate, prometheus, bench.clock, gate)
    absence = ApiAbsence(bench.kube, bench.clock, 5.0)
    with pytest.raises(GateFailed) as caught:
        hold_all(
            "step",
            (GateRun(make(), gate.policy, make),),
            clock=bench.clock,
            reporter=bench.recorder,
            absence=absence,
        )
    message = caught.value.message
    assert "gate metric/errors did not pass 1 times in a row within 180 s" in message
    assert "`sum(e)`" in message and "at most 1" in message and said in message and caught.value.remedy
    assert 180 <= bench.clock.monotonic() < 190
