"""A run's journal is replicated before anything is changed, and replication never stops the run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from tests.unit.engine.journals import OLDER, ONE, RUN, STARTED, TWO, Places, journal_of
from upgrader.engine.history.journal_mirroring import RETRY_SECONDS, JournalMirror
from upgrader.engine.journal.journal_file import JOURNAL, Journal
from upgrader.errors import ApiUnavailable
from upgrader.model.event import (
    Event,
    GateChecked,
    Note,
    RunEnded,
    RunStarted,
    StepApplied,
    StepEnded,
    StepStarted,
    UndoEnded,
    UndoStarted,
)
from upgrader.model.outcome import pending
from upgrader.model.release import RestorePoint
from upgrader.model.run_kind import RunKind

CHANGE = StepStarted("a", "v1 → v2", RestorePoint("a", "kube-system", 4))
LOOK = GateChecked("a", "nodes", pending("1 of 2"), 0, 3, 10.0)


class World:
    """A run with a journal and its mirror."""

    def __init__(self, folder: Path, keep: int = 20) -> None:
        self.places = Places()
        self.clock = FakeClock()
        self.notes: list[str] = []
        path = folder / "runs" / RUN / JOURNAL
        path.parent.mkdir(parents=True)
        self.path = path
        self.journal = Journal(path, self.clock)
        self.mirror = JournalMirror(
            path,
            RUN,
            cluster=self.places.cluster,
            controllers=self.places.controllers,
            clock=self.clock,
            keep=keep,
            note=self._note,
        )

    def emit(self, *events: Event) -> None:
        for event in events:
            self.journal.emit(event)
            self.mirror.emit(event)

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self.emit(Note(text))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.parametrize(
    "event",
    [
        STARTED,
        CHANGE,
        StepApplied("a", 1.0),
        StepEnded("a", "passed", 1.0),
        UndoStarted("a", "revision 4"),
        UndoEnded("a", True, 1.0),
        RunEnded(RUN, "succeeded", 1.0),
    ],
    ids=lambda event: type(event).__name__,
)
def test_the_cluster_has_every_record_that_matters(world: World, event: Event) -> None:
    """Once the run continues after a record, a machine that has only the API can read that record."""
    world.emit(Note("before"), event)
    assert world.places.cluster.read(RUN) == world.path.read_bytes()


@pytest.mark.parametrize("event", [CHANGE, UndoStarted("a", "revision 4")], ids=lambda event: type(event).__name__)
def test_controllers_have_it_before_anything_is_changed(world: World, event: Event) -> None:
    """Whatever a change does to the API, its restore point is on every controller's disk before it begins."""
    world.emit(STARTED, event)
    assert world.places.on(ONE) == world.places.on(TWO) == world.path.read_bytes()


def test_steps_that_change_nothing_spare_the_controllers(world: World) -> None:
    """A step without a restore point changes nothing, so no controller needs its record."""
    world.emit(STARTED, StepStarted("a", "nothing to change", None), StepEnded("a", "passed", 1.0))
    assert world.places.on(ONE) == b""


def test_looks_cost_nothing(world: World) -> None:
    """A gate that is checked every second isn't copied every second; the next durable record takes it along."""
    world.emit(STARTED)
    before = world.places.cluster.read(RUN)
    world.emit(LOOK)
    assert world.places.cluster.read(RUN) == before
    world.emit(StepEnded("a", "passed", 1.0))
    assert world.places.cluster.read(RUN) == world.path.read_bytes()


def test_controllers_stand_in_for_the_cluster(world: World) -> None:
    """With the API unreachable, each record of the run is written to the controllers."""
    world.emit(STARTED, CHANGE)
    world.places.kube.unavailable = True
    world.emit(StepApplied("a", 1.0))
    assert world.places.on(TWO) == world.path.read_bytes()[: len(world.places.on(TWO))]
    assert b"StepApplied" in world.places.on(TWO)


def test_a_place_that_fails_is_said_once_and_tried_again(world: World) -> None:
    """An outage is one message at its begin and one at its end, not one for each record; then everything is copied."""
    world.places.kube.unavailable = True
    world.emit(STARTED, CHANGE, StepApplied("a", 1.0))
    assert [note for note in world.notes if "the cluster" in note] == world.notes
    assert len(world.notes) == 1
    assert "did not answer: Connection refused" in world.notes[0]
    world.places.kube.unavailable = False
    world.clock.sleep(RETRY_SECONDS)
    world.emit(StepEnded("a", "passed", 1.0))
    assert world.notes[1:] == ["this run's journal is replicated to the cluster again"]
    assert b"StepEnded" in (world.places.cluster.read(RUN) or b"")


def test_a_place_that_fails_is_left_alone_for_a_while(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unreachable machine costs its timeout now and then, not with every record; but the end is always tried."""
    tried: list[str] = []
    real: Callable[..., object] = world.places.hosts.read

    def counted(host: object, path: str) -> object:
        tried.append(host.name)  # type: ignore[attr-defined]
        return real(host, path)

    world.places.hosts.down.add(TWO.name)
    world.emit(STARTED)
    monkeypatch.setattr(world.places.hosts, "read", counted)
    world.emit(CHANGE, UndoStarted("a", "revision 4"))
    assert tried == [ONE.name, ONE.name]
    world.emit(RunEnded(RUN, "rolled-back", 1.0))
    assert sorted(tried[2:]) == [ONE.name, TWO.name]
    assert world.places.on(ONE)


def test_nothing_stops_the_run(world: World) -> None:
    """With every place unreachable the run continues, and its own journal is complete."""
    world.places.kube.unavailable = True
    world.places.hosts.down |= {ONE.name, TWO.name}
    world.emit(STARTED, CHANGE, StepApplied("a", 1.0), StepEnded("a", "passed", 1.0), RunEnded(RUN, "succeeded", 1.0))
    assert b"RunEnded" in world.path.read_bytes()
    assert len(world.notes) == 3


def test_controllers_learn_that_it_is_over(world: World) -> None:
    """Otherwise the controllers' journals would show an interrupted run in the next outage."""
    world.emit(STARTED, CHANGE, StepEnded("a", "passed", 1.0), RunEnded(RUN, "succeeded", 1.0))
    assert b"RunEnded" in world.places.on(ONE)


def test_a_half_written_line_is_not_copied(world: World) -> None:
    """Replicas have complete lines only, whatever a full disk or a crash has left at the journal's end."""
    world.emit(STARTED)
    whole = world.path.read_bytes()
    with world.path.open("ab") as file:
        file.write(b'{"schema":2,"se')
    world.mirror.emit(StepApplied("a", 1.0))
    assert world.places.cluster.read(RUN) == whole


def test_old_runs_go_but_not_the_last_that_succeeded(tmp_path: Path) -> None:
    """Each place keeps as many runs as the folder does, and always the last one that succeeded."""
    world = World(tmp_path / "here", keep=2)
    runs = [f"2025120{day}T000000-v1.37.1" for day in range(1, 6)]
    for index, run in enumerate(runs):
        end = RunEnded(run, "succeeded" if index == 1 else "failed", 1.0)
        content = journal_of(tmp_path / "there", run, RunStarted(run, RunKind.UPGRADE, (), ""), end)
        for place in world.places.all:
            place.write(run, content)
    world.emit(STARTED)
    for place in world.places.all:
        assert [name for name in place.names() if name != RUN] == [runs[1], *runs[3:]]


def test_pruning_that_fails_is_no_reason_to_stop(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that can't be listed for old runs is reported once, as any other failure."""

    def refuse(*_: object, **__: object) -> tuple[()]:
        raise ApiUnavailable("too many requests")

    monkeypatch.setattr(world.places.kube, "list", refuse)
    world.emit(STARTED)
    assert len(world.notes) == 1
    assert OLDER not in world.places.cluster._versions


def test_no_secret_is_in_any_copy(world: World) -> None:
    """Tokens, passwords and keys that an error quotes are in no journal, here or elsewhere."""
    token, key = "eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl", "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n"
    secret = f"Deployment is invalid: env: password: hunter2222, Authorization: Bearer {token}; {key}"
    world.emit(
        STARTED, CHANGE, Note(secret), StepEnded("a", "failed", 1.0, secret), RunEnded(RUN, "failed", 1.0, secret)
    )
    copies = [world.path.read_bytes(), world.places.cluster.read(RUN) or b"", world.places.on(ONE)]
    assert len(set(copies)) == 1
    assert b"[masked]" in copies[0]
    assert not [secret for secret in (b"hunter2222", token.encode(), b"MHcCAQEE") if secret in copies[0]]
