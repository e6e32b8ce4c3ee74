"""A machine that has only a cluster folder finds the newest run, and its most complete journal."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.unit.engine.journals import OLDER, ONE, RESUMED, RUN, STARTED, Places, journal_of
from upgrader.engine.history.journal_on_controllers import CONTROLLER_RUNS
from upgrader.engine.history.journal_replicas import LocalJournals
from upgrader.engine.history.past_runs import past_runs
from upgrader.engine.history.run_discovery import DiscoveredRun, DiscoveredRuns, bring_home, find_runs, with_remote_runs
from upgrader.engine.journal.journal_file import JOURNAL, read_journal
from upgrader.errors import JournalError
from upgrader.model.event import Event, Note, RunEnded, RunStarted, StepApplied
from upgrader.model.run_kind import RunKind


class World:
    """Three journals of one run, each longer than the one before, and where they can be."""

    def __init__(self, folder: Path) -> None:
        self.runs = folder / "runs"
        self.runs.mkdir()
        self.scratch = folder / "scratch"
        self.places = Places()
        self.short = self.journal(STARTED)
        self.middle = self.journal(STARTED, StepApplied("a", 1.0))
        self.long = self.journal(STARTED, StepApplied("a", 1.0), StepApplied("b", 1.0))

    def journal(self, *events: Event) -> bytes:
        number = len(list(self.scratch.glob("*")))
        return journal_of(self.scratch / str(number), RUN, *events)

    def here(self, content: bytes) -> Path:
        path = self.runs / RUN / JOURNAL
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path

    def on_controller(self, content: bytes, run: str = RUN) -> None:
        self.places.hosts.files[ONE.name, f"{CONTROLLER_RUNS}/{run}/{JOURNAL}"] = content

    def find(self) -> DiscoveredRuns:
        return find_runs((LocalJournals(self.runs), *self.places.all))

    def run(self) -> DiscoveredRun:
        """The only run that there is."""
        (found,) = self.find().runs
        return found


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_nothing_anywhere(world: World) -> None:
    """A cluster that was never upgraded has no runs, and that is no problem."""
    found = world.find()
    assert (found.runs, found.problems) == ((), ())


def test_the_most_complete_copy_wins(world: World) -> None:
    """Wherever it is: a run is known as far as any place knows it."""
    world.places.cluster.write(RUN, world.middle)
    world.on_controller(world.long)
    world.here(world.short)
    run = world.run()
    assert (run.place, run.content) == (ONE.name, world.long)
    assert [record.seq for record in run.records] == [0, 1, 2]


def test_found_with_the_api_away(world: World) -> None:
    """A fresh machine finds the run on a controller's disk without an API, and reports what it could not read."""
    world.on_controller(world.middle)
    world.places.kube.unavailable = True
    world.places.hosts.down.add("controller-2")
    found = world.find()
    assert found.runs[-1].content == world.middle
    assert len(found.problems) == 2
    assert any("the cluster could not be searched" in problem for problem in found.problems)
    assert any("controller-2" in problem for problem in found.problems)


def test_what_may_hide_a_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place that can't be read may; a damaged copy of a run does only where no other place has a sound one."""
    world.places.cluster.write(RUN, world.middle)
    world.on_controller(world.long.replace(b'{"step":"b"', b'{"step":"c"'))
    assert world.find().problems and not world.find().may_hide
    world.places.cluster.remove(RUN)
    (damaged,) = world.find().may_hide
    assert f"controller-1: {RUN}:3" in damaged
    world.places.kube.unavailable = True
    assert len(world.find().may_hide) == 2

    def refused(_: Path) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refused)
    monkeypatch.setattr("os.scandir", refused)
    assert any("this folder could not be searched" in each for each in world.find().may_hide)


def test_runs_come_oldest_first(world: World) -> None:
    """The last one is the newest, whichever place it was found in."""
    world.places.cluster.write(RUN, world.short)
    world.on_controller(journal_of(world.scratch, OLDER, RunStarted(OLDER, RunKind.UPGRADE, (), "")), OLDER)
    found = world.find()
    assert [run.name for run in found.runs] == [OLDER, RUN]
    assert found.get(OLDER) is found.runs[0]
    assert found.get("20260101T000000-other") is None


def test_a_damaged_copy_hides_no_sound_one(world: World) -> None:
    """A longer copy that is not valid loses to a shorter one that is, and is named."""
    world.places.cluster.write(RUN, world.middle)
    world.on_controller(world.long.replace(b'{"step":"b"', b'{"step":"c"'))
    found = world.find()
    assert found.runs[-1].content == world.middle
    assert [problem for problem in found.problems if f"controller-1: {RUN}:3" in problem] == list(found.problems)


def test_a_torn_line_is_passed_over(world: World) -> None:
    """A torn line at the end of the local journal doesn't make it differ from its copies."""
    world.here(world.middle + b'{"schema":2')
    world.places.cluster.write(RUN, world.middle)
    run = world.run()
    assert (run.content, run.problem) == (world.middle, "")


def test_who_went_on_counts_more_than_who_was_left(world: World) -> None:
    """A dead laptop's folder can hold records that no copy ever had; what another machine did since wins."""
    world.here(world.journal(STARTED, *[Note("never copied")] * 9))
    resumed = world.journal(STARTED, RESUMED, StepApplied("a", 2.0))
    world.places.cluster.write(RUN, resumed)
    run = world.run()
    assert (run.place, run.content, run.problem) == ("the cluster", resumed, "")


def test_two_that_went_on_are_for_a_person(world: World) -> None:
    """Two machines that did different things under one run's name: neither can be continued without a decision."""
    world.places.cluster.write(RUN, world.middle)
    world.on_controller(world.journal(STARTED, StepApplied("other", 1.0)))
    run = world.run()
    assert "its journals in the cluster and controller-1 differ" in run.problem
    with pytest.raises(JournalError, match="two machines have resumed it"):
        bring_home(run, world.runs)
    assert not (world.runs / RUN).exists()


def test_brought_home_it_can_be_gone_on_with(world: World) -> None:
    """On a fresh machine the journal is in the run's folder as it would be had it run there, for its owner only."""
    world.places.cluster.write(RUN, world.long)
    folder = bring_home(world.run(), world.runs)
    path = folder / JOURNAL
    assert folder == world.runs / RUN
    assert path.read_bytes() == world.long
    assert len(read_journal(path)) == 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [item.name for item in folder.iterdir()] == [JOURNAL]


def test_a_folder_that_lags_behind_is_brought_up_to_date(world: World) -> None:
    """The laptop where a run began sees what another machine did since."""
    path = world.here(world.short + b'{"torn')
    world.places.cluster.write(RUN, world.long)
    bring_home(world.run(), world.runs)
    assert path.read_bytes() == world.long
    assert not path.with_name(f"{JOURNAL}.superseded").exists()


def test_what_is_replaced_is_kept_aside(world: World) -> None:
    """Records that only this folder had are kept when another machine has resumed without them."""
    mine = world.journal(STARTED, Note("never copied"))
    path = world.here(mine)
    world.places.cluster.write(RUN, world.journal(STARTED, RESUMED))
    bring_home(world.run(), world.runs)
    assert b"RunResumed" in path.read_bytes()
    assert path.with_name(f"{JOURNAL}.superseded").read_bytes() == mine


def test_what_is_complete_here_stays(world: World) -> None:
    """A folder that has the most complete journal is left as it is."""
    path = world.here(world.journal(STARTED, RunEnded(RUN, "succeeded", 1.0)))
    before = path.stat().st_ino
    bring_home(world.run(), world.runs)
    assert path.stat().st_ino == before


def test_a_folder_that_can_t_be_written_is_named(world: World) -> None:
    """The error names the folder and the cause."""
    world.places.cluster.write(RUN, world.long)
    (world.runs / RUN).write_text("no folder")
    with pytest.raises(JournalError, match=f"can't be written to {world.runs / RUN}"):
        bring_home(world.run(), world.runs)


def test_a_table_of_all_runs(world: World) -> None:
    """Runs of this folder and of others are one list, each from the copy with the most progress."""
    world.here(world.short)
    world.places.cluster.write(RUN, world.long)
    world.on_controller(journal_of(world.scratch, OLDER, RunStarted(OLDER, RunKind.UPGRADE, (), "")), OLDER)
    here = past_runs(world.runs)
    older, newest = with_remote_runs(here, find_runs(world.places.all), world.runs)
    assert (older.name, older.place, older.outcome) == (OLDER, ONE.name, "interrupted")
    assert (newest.name, newest.place, newest.state.doing) == (RUN, "the cluster", "b: waiting for its gates")


def test_what_this_folder_knows_best_is_told_from_it(world: World) -> None:
    """A copy that lags behind, or is the same, doesn't take the place of the folder's own journal."""
    for content in (world.short, world.long):
        world.places.cluster.write(RUN, content)
        world.here(world.long)
        (run,) = with_remote_runs(past_runs(world.runs), find_runs(world.places.all), world.runs)
        assert run.place == ""


def test_a_damaged_journal_is_told_from_a_sound_copy(world: World) -> None:
    """Where this folder's own is not valid, the cluster's is shown, and where it is."""
    world.here(world.long.replace(b"StepApplied", b"StepEndedxx"))
    world.places.cluster.write(RUN, world.middle)
    (run,) = with_remote_runs(past_runs(world.runs), find_runs(world.places.all), world.runs)
    assert (run.place, run.problem) == ("the cluster", "")
