"""A process killed at any instant: another one ends the run as it would have ended, or rolls it back to its start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.engine.killing import STRIDE, Fate, Killed, Process, World, broken
from upgrader.engine.execution.runner import RunResult
from upgrader.engine.journal.journal_file import read_journal
from upgrader.model.event import StepEnded, StepStarted, UndoEnded

Act = Callable[[Process], RunResult]

pytestmark = pytest.mark.every_moment


def worlds(tmp_path: Path, **properties: Any) -> Iterator[World]:
    """A fresh world each time."""
    for number in count():
        yield World(tmp_path / f"{number}.jsonl", **properties)


def survive(world: World, act: Act, fate: Fate) -> RunResult | None:
    """How a process ended; None when it was killed."""
    try:
        return act(world.process(fate))
    except Killed:
        return None


def go_on(world: World, act: Act) -> RunResult:
    """What an operator does after a kill: `resume`, or the same command again where no journal was written."""
    return act(world.process(Fate())) if world.state.run else Process.run(world.process(Fate()))


def fresh(world: World) -> World:
    """An empty journal, as left by a kill right after its creation, is not a run."""
    if world.path.exists() and not world.state.run:
        world.path.unlink()
    return world


def every_kill(tmp_path: Path, act: Act, prepare: Callable[[World], None], **properties: bool) -> Iterator[World]:
    """Worlds whose process was killed at its first instant, a later one, and so on to its last."""
    for at, world in zip(count(step=STRIDE), worlds(tmp_path, **properties), strict=False):
        prepare(world)
        fate = Fate(at)
        if survive(world, act, fate) is not None:
            assert at > 30, "there were instants to be killed at"
            return
        world.note = fate.where
        yield fresh(world)


def nothing(world: World) -> None:
    """A world as it is."""


def bad(world: World) -> None:
    """A world in which the last step can't work."""
    broken(world, "c")


def upgraded(world: World) -> None:
    """A world in which a run has succeeded."""
    assert world.process(Fate()).run().outcome == "succeeded"


def tidy(world: World) -> None:
    """No step was begun twice, passed twice, or undone twice."""
    events = [record.event for record in read_journal(world.path)] if world.path.exists() else []
    begun = [event.step for event in events if isinstance(event, StepStarted)]
    passed = [event.step for event in events if isinstance(event, StepEnded) and event.outcome == "passed"]
    undone = [event.step for event in events if isinstance(event, UndoEnded) and event.succeeded]
    for steps in (begun, passed, undone):
        assert len(steps) == len(set(steps)), steps


def revisions(world: World) -> list[int]:
    """How many revisions Helm wrote of each release."""
    return [sum(release == name for release, _ in world.helm.manifests) for name in ("a", "b", "c")]


@pytest.mark.parametrize("orphans", [True, False], ids=["helm-goes-on", "helm-killed-too"])
@pytest.mark.parametrize("playbook", [False, True])
def test_resume_ends_as_the_run_would_have(tmp_path: Path, orphans: bool, playbook: bool) -> None:
    """Killed at any instant of a run that would have succeeded, the next process completes it, and does no more."""
    reference = World(tmp_path / "reference.jsonl", playbook=playbook)
    upgraded(reference)
    for world in every_kill(tmp_path, Process.run, nothing, orphans=orphans, playbook=playbook):
        if not world.state.over:
            result = go_on(world, Process.resume)
            assert result.outcome == "succeeded", (world.note, result)
        assert world.deployed == reference.deployed, world.note
        # Between its end and the controller's marker of it, no process can know that it completed.
        unnoted = world.note.startswith(("after tune.yml", "before /etc/kubernetes/upgrader/playbooks"))
        runs = {0} if not playbook else {1, 2} if unnoted else {1}
        assert world.playbooks.completed in runs, world.note
        tidy(world)
        if orphans:
            # What Helm completes by itself is neither undone nor repeated.
            assert revisions(world) == [2, 1, 2], world.note


@pytest.mark.parametrize("orphans", [True, False], ids=["helm-goes-on", "helm-killed-too"])
def test_rollback_after_any_kill_is_the_start(tmp_path: Path, orphans: bool) -> None:
    """Killed at any instant, the run can be rolled back instead: every release is as it was before."""
    start = World(tmp_path / "none").deployed
    for world in every_kill(tmp_path, Process.run, nothing, orphans=orphans):
        if world.state.run:
            result = world.process(Fate()).rollback()
            assert result.outcome == "rolled-back", (world.note, result)
        assert world.deployed == start, world.note
        tidy(world)


@pytest.mark.parametrize("orphans", [True, False], ids=["helm-goes-on", "helm-killed-too"])
def test_run_that_rolls_back_goes_on_rolling_back(tmp_path: Path, orphans: bool) -> None:
    """Killed at any instant of a run that fails and rolls back, the next process completes the rollback."""
    start = World(tmp_path / "none").deployed
    for world in every_kill(tmp_path, Process.run, bad, orphans=orphans):
        if not world.state.over:
            result = go_on(world, Process.resume)
            assert result.outcome == "rolled-back", (world.note, result)
        assert world.deployed == start, world.note
        tidy(world)


@pytest.mark.parametrize("orphans", [True, False], ids=["helm-goes-on", "helm-killed-too"])
@pytest.mark.parametrize("to", ["", "a"])
def test_rollback_that_is_killed_goes_on(tmp_path: Path, orphans: bool, to: str) -> None:
    """A requested rollback, killed at any instant, is completed, and to no other step than requested."""
    reference = World(tmp_path / "reference.jsonl")
    upgraded(reference)
    reference.process(Fate()).rollback(to)

    def act(process: Process) -> RunResult:
        return process.rollback(to)

    for world in every_kill(tmp_path, act, upgraded, orphans=orphans):
        asked = world.state.rollback_to is not None
        if not world.state.over:
            result = world.process(Fate()).resume()
            assert result.outcome == "rolled-back", (world.note, result)
        elif not asked:
            assert act(world.process(Fate())).outcome == "rolled-back", "killed before it was written down"
        assert world.deployed == reference.deployed, world.note
        tidy(world)


@settings(
    # As of the moments above, every one is for `make soak`.
    max_examples=100 if STRIDE == 1 else 30,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(st.lists(st.integers(0, 60), max_size=6), st.booleans(), st.booleans())
def test_killed_over_and_over(
    tmp_path_factory: pytest.TempPathFactory, kills: list[int], orphans: bool, fails: bool
) -> None:
    """However often the resuming processes are killed as well, one of them ends the run as if none had been killed."""
    folder = tmp_path_factory.mktemp("world")
    world, reference = World(folder / "w.jsonl", orphans), World(folder / "r.jsonl")
    if fails:
        bad(world)
        bad(reference)
    reference.process(Fate()).run()
    for at in [*kills, None]:
        act: Act = Process.resume if fresh(world).state.run else Process.run
        if not world.state.over:
            survive(world, act, Fate(at))
    assert world.state.outcome == reference.state.outcome
    assert world.deployed == reference.deployed
    tidy(world)
