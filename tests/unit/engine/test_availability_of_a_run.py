"""A run whose steps the availability gate judges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from testkit.fakes.helm import FakeHelm
from tests.unit.engine.conftest import Bench, ScriptedGate, run
from upgrader.engine.execution.runner import RunResult
from upgrader.errors import GateFailed
from upgrader.gates.availability.phases import Phases
from upgrader.gates.availability_gate import with_availability_gates
from upgrader.model.availability import Availability, Limits, Phase
from upgrader.model.event import ApprovalRequested, GateChecked, StepStarted, UndoStarted
from upgrader.model.outcome import Verdict
from upgrader.model.release import ReleaseSpec
from upgrader.pipeline import Pipeline, PipelineStep
from upgrader.steps.release.helm_release import ChartStep
from upgrader.steps.verify import VerifyStep


class Clients:
    """What clients count, as a test sets it."""

    def __init__(self) -> None:
        self.seen = Availability()

    def meet(self, phase: str, failed: int) -> None:
        """Requests of a phase, of which so many failed."""
        self.seen = replace(self.seen, phases=(*self.seen.phases, Phase(phase, 50, failed, failed, 100.0)))


def guard(clients: Clients, *steps: PipelineStep, most: int = 2) -> tuple[PipelineStep, ...]:
    """The steps, each of which may fail so many requests."""
    return with_availability_gates(Pipeline(steps), lambda: clients.seen, lambda _: Limits(most, 5.0)).steps


def test_a_step_that_disturbs_clients_is_rolled_back(bench: Bench) -> None:
    """A step whose gates hold, but that cost clients more than allowed, is undone, and the step before it too."""
    clients = Clients()
    good = bench.step("a", ScriptedGate("g"), on_apply=lambda: clients.meet("a", 2))
    bad = bench.step("b", ScriptedGate("g"), on_apply=lambda: clients.meet("b", 3))
    result = run(bench.runner(), *guard(clients, good, bad))
    assert result.outcome == "rolled-back"
    assert "gate availability failed" in result.reason and "3 of 50 requests failed" in result.reason
    assert bench.diary == ["apply a", "apply b", "undo b to 1", "undo a to 1"]


def test_the_way_back_is_gone_whatever_it_costs(bench: Bench) -> None:
    """No count of the prober keeps an undo from succeeding."""
    clients = Clients()
    bad = bench.step("a", ScriptedGate("g"), on_apply=lambda: clients.meet("a", 99))
    result = run(bench.runner(), *guard(clients, bad))
    assert result.outcome == "rolled-back"


def test_a_step_that_changes_nothing_is_not_blamed(bench: Bench) -> None:
    """Failures during a step that changes nothing don't fail the step."""
    clients = Clients()
    clients.meet("a", 99)
    assert run(bench.runner(), *guard(clients, PipelineStep(VerifyStep("a"), (), (), changes=False))) == RunResult(
        "succeeded"
    )


def test_the_gate_is_asked_like_the_others(bench: Bench) -> None:
    """It must hold as often in a row as the step's other gates, and is reported among them."""
    clients = Clients()
    step = bench.step("a", ScriptedGate("g"), on_apply=lambda: clients.meet("a", 0))
    run(bench.runner(), *guard(clients, step))
    checks = [event for event in bench.recorder.events if isinstance(event, GateChecked)]
    assert {check.gate: check.needed for check in checks} == {"g": 3, "availability": 3}


class _Quiet:
    """A watcher that finds nothing wrong."""

    last: tuple[Verdict, ...] = ()

    def __call__(self) -> None:
        """Check."""


def test_helm_is_stopped_at_a_breach() -> None:
    """A release that disturbs clients while Helm still waits is stopped at once, not at Helm's timeout."""
    clients = Clients()
    spec = ReleaseSpec("a", "kube-system", Path("/charts/a"), {})
    step = ChartStep(spec, "x → y", FakeHelm(), 300.0, _Quiet)
    (item,) = guard(clients, PipelineStep(step, (), (), watched=step.watched))
    item.step.apply(lambda _: None)
    assert item.watched is not None
    asked = list[int]()
    again = item.watched(lambda: asked.append(1))
    again.apply(lambda _: None)
    assert asked
    clients.meet("a", 3)
    for each in (item.step, again):  # one more check doesn't replace this one
        with pytest.raises(GateFailed, match="3 of 50 requests failed"):
            each.apply(lambda _: None)


def test_phases_are_steps_and_their_undos() -> None:
    """The prober learns of each step at its start, and of each undo and each wait for an approval as phases too."""
    names: list[str] = []
    phases = Phases(names.append)
    for event in (
        StepStarted("a", "", None),
        ApprovalRequested("b", 60.0),
        StepStarted("b", "", None),
        UndoStarted("b", "revision 1"),
    ):
        phases.emit(event)
    assert names == ["a", "approval b", "b", "undo b"]
