"""A machine that is silent while a step's state is read: it is waited for, and that is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.playbooks import FakePlaybooks
from tests.unit.engine.conftest import Bench, run
from tests.unit.steps.etcd.members import NEW, OLD, Controllers
from upgrader.engine.execution.runner import RunResult
from upgrader.engine.state.event_fold import follow
from upgrader.engine.state.run_state import RunState
from upgrader.model.cluster import Host
from upgrader.model.event import Note, RunResumed, RunStarted, StepStarted
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind
from upgrader.pipeline import Pipeline, PipelineStep
from upgrader.ports import CommandResult
from upgrader.steps.etcd.step import EtcdInspector
from upgrader.steps.playbook.playbook_markers import PlaybookInspector, PlaybookMarkers
from upgrader.steps.playbook.step import PlaybookStep

NAMES = ("controller-1", "controller-2")


class Rebooting(FakeHosts):
    """controller-2 answers once this clock shows so many seconds."""

    def __init__(self, clock: FakeClock, back_at: float = 90.0) -> None:
        super().__init__()
        self.clock, self.back_at = clock, back_at

    def _check(self, host: Host) -> None:
        self.down = {"controller-2"} if self.clock.monotonic() < self.back_at else set()
        super()._check(host)


def tuned(hosts: FakeHosts, clock: FakeClock) -> PipelineStep:
    """A playbook's step."""
    hosts.commands["install"] = CommandResult(0, "", "")
    markers = PlaybookMarkers(hosts, tuple(Host(name, "") for name in NAMES), Path("/p/tune.yml"), clock)
    step = PlaybookStep(Path("/p/tune.yml"), Path("/hosts.yml"), FakePlaybooks(), 60.0, markers)
    return PipelineStep(step, (), (), PlaybookInspector(markers))


def of_etcd(hosts: FakeHosts, clock: FakeClock) -> PipelineStep:
    """The step of etcd's members, which have their image already."""
    controllers = Controllers(NAMES, images=dict.fromkeys(NAMES, NEW), hosts=hosts)
    step = replace(controllers.step(before=dict.fromkeys(NAMES, OLD)), clock=clock)
    return PipelineStep(step, (), (), EtcdInspector(step))


def told(bench: Bench) -> list[str]:
    """What the run said that it waits for."""
    return [event.text for event in bench.recorder.events if isinstance(event, Note) and "waiting" in event.text]


def interrupted(bench: Bench, step: PipelineStep, point: RestorePoint) -> RunResult:
    """Resume a run whose process ended in this step."""
    name = step.step.name
    state = RunState()
    for event in (RunStarted("r1", RunKind.UPGRADE, (name,), "/tmp/r1"), StepStarted(name, "change", point)):
        state = follow(state, event, bench.clock.now())
    return bench.runner().resume(Pipeline((step,)), state, RunResumed("r1", "me"))


@pytest.mark.parametrize("make", [tuned, of_etcd])
@pytest.mark.parametrize("resumed", [False, True], ids=["begun", "resumed"])
def test_a_silent_controller_is_waited_for_and_told(
    bench: Bench, make: Callable[[FakeHosts, FakeClock], PipelineStep], resumed: bool
) -> None:
    """Before a step changes anything, and before an interrupted one is inspected: once, with machine, time and step."""
    step = make(Rebooting(bench.clock), bench.clock)
    result = interrupted(bench, step, RestorePoint()) if resumed else run(bench.runner(), step)
    assert result == RunResult("succeeded") and 90 <= bench.clock.monotonic() < 120
    (note,) = told(bench)
    assert note.startswith("controller-2") and "waiting up to 300 s" in note and f"step {step.step.name} " in note


def test_a_controller_that_stays_silent_fails_the_step(bench: Bench) -> None:
    """Nothing was changed; what is told is the machine's own error."""
    result = run(bench.runner(), tuned(Rebooting(bench.clock, 10_000.0), bench.clock))
    assert result.outcome != "succeeded" and "controller-2" in result.reason and 200 < bench.clock.monotonic() <= 300


def test_a_stop_is_heeded_while_a_controller_is_waited_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the step has begun, nobody has to wait for the rest of five minutes."""
    sleep = bench.clock.sleep

    def slept(seconds: float) -> None:
        sleep(seconds)
        bench.stop.requested = bench.clock.monotonic() >= 20

    monkeypatch.setattr(bench.clock, "sleep", slept)
    result = run(bench.runner(), tuned(Rebooting(bench.clock, 10_000.0), bench.clock))
    assert result.outcome == "interrupted" and bench.clock.monotonic() < 60
