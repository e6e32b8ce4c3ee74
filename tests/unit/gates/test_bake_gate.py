"""A bake: all gates together, for a set time."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from testkit.fakes.clock import FakeClock
from upgrader.gates.bake_gate import BakeGate, baked_together
from upgrader.model.gate_settings import GatePolicy
from upgrader.model.outcome import Verdict, VerdictKind, broken, holds, pending, unknown
from upgrader.model.own_steps import BAKE
from upgrader.pipeline import GateRun, Pipeline, PipelineStep
from upgrader.steps.bake.kind import BakeStep
from upgrader.steps.verify import VerifyStep


@dataclass
class Scripted:
    """A gate that says what a test lets it say."""

    name: str
    says: Verdict = field(default_factory=lambda: holds("fine"))

    def check(self) -> Verdict:
        return self.says


@pytest.fixture
def gates() -> tuple[Scripted, Scripted]:
    """Two gates that hold."""
    return Scripted("one"), Scripted("two")


@pytest.fixture
def bake(gates: tuple[Scripted, Scripted], clock: FakeClock) -> BakeGate:
    """Their bake of ten minutes; each may take two minutes to hold."""
    return BakeGate([GateRun(gate, GatePolicy()) for gate in gates], clock, 600.0)


def test_it_holds_once_all_have_held_for_the_time(bake: BakeGate, clock: FakeClock) -> None:
    """Before that it says how much of it is over."""
    assert bake.check().kind is VerdictKind.PENDING
    clock.sleep(180)
    assert bake.check().reason == "all 2 gates pass; 180 of 600 s"
    clock.sleep(420)
    assert bake.check().kind is VerdictKind.HOLDS


@pytest.mark.parametrize("problem", [pending("not ready"), unknown("no answer")])
def test_a_gate_may_recover_within_its_deadline(
    bake: BakeGate, gates: tuple[Scripted, Scripted], clock: FakeClock, problem: Verdict
) -> None:
    """What lasts for a moment neither ends the bake nor begins it anew; what lasts longer breaks it, and is named."""
    bake.check()
    clock.sleep(590)
    gates[1].says = problem
    assert (bake.check().kind, bake.check().reason) == (problem.kind, f"two: {problem.reason}")
    clock.sleep(20)
    assert bake.check().kind is problem.kind
    gates[1].says = holds("again")
    assert bake.check().kind is VerdictKind.HOLDS
    gates[1].says = problem
    bake.check()
    clock.sleep(120)
    verdict = bake.check()
    assert verdict.kind is VerdictKind.BROKEN
    assert verdict.reason == f"two has not passed for 120 s: {problem.reason}"


def test_what_is_broken_is_not_hidden(bake: BakeGate, gates: tuple[Scripted, Scripted]) -> None:
    """It comes before a gate that may still recover."""
    gates[0].says, gates[1].says = pending("not ready"), broken("crash loop")
    assert (bake.check().kind, bake.check().reason) == (VerdictKind.BROKEN, "two: crash loop")


def test_only_the_bake_is_held_together(gates: tuple[Scripted, Scripted], clock: FakeClock) -> None:
    """Its gates, whoever has added them, become one, with a deadline that leaves them theirs; other steps stay."""
    runs = tuple(GateRun(gate, GatePolicy()) for gate in gates)
    other = PipelineStep(VerifyStep("a"), runs, ())
    done = baked_together(Pipeline((other, PipelineStep(BakeStep(BAKE, 600.0), runs, ()))), 600.0, clock)
    assert done.steps[0] is other
    (run,) = done.steps[1].gates
    assert (run.gate.name, run.policy.deadline_seconds, run.policy.consecutive) == ("bake", 840.0, 1)
    assert run.again is not None and run.again() is not run.gate
